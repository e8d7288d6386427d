package disruption

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxFailures is how many replacements of a pool may fail in a row before no more are tried (T24).
	maxFailures = 3
	// firstHold is how long a pool is left alone after a failed replacement; it doubles with each. longHold is how long when no
	// more are tried: then whatever was wrong with the cloud may be over.
	firstHold = time.Minute
	longHold  = time.Hour
	// failuresFor is how long after the end of a hold failures still count.
	failuresFor = 24 * time.Hour
)

// breaker is the circuit breaker that keeps pools whose replacements fail from being tried for ever. What it knows is written on the
// pools too, for the next process.
type breaker struct {
	mu    sync.Mutex
	pools map[string]*failures
}

// failures are failures in a row.
type failures struct {
	count int
	until time.Time
	// version is that of the pool and its class: when it changes, everything may be different.
	version string
	why     string
}

// String is what is written on a pool.
func (s *failures) String() string {
	return fmt.Sprintf("count=%d until=%s version=%s why=%s", s.count, s.until.UTC().Format(time.RFC3339), s.version, s.why)
}

// parseFailures reads what String has written; nil is for what it has not.
func parseFailures(text string) *failures {
	s := &failures{}
	text, s.why, _ = strings.Cut(text, " why=")
	for _, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		var err error
		switch key {
		case "count":
			s.count, err = strconv.Atoi(value)
		case "until":
			s.until, err = time.Parse(time.RFC3339, value)
		case "version":
			s.version = value
		}
		if err != nil {
			return nil
		}
	}
	if s.count <= 0 || s.until.IsZero() {
		return nil
	}
	return s
}

// restore takes over what the process before has written on a pool.
func (b *breaker) restore(pool, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := parseFailures(text); s != nil {
		b.set(pool, s)
	}
}

func (b *breaker) set(pool string, s *failures) {
	if b.pools == nil {
		b.pools = map[string]*failures{}
	}
	b.pools[pool] = s
}

// failed notes that a replacement of the pool came to nothing. It returns how often that has happened in a row.
func (b *breaker) failed(pool, version, why string, now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &failures{count: 1, version: version, why: why}
	if had := b.pools[pool]; had != nil && had.version == version {
		s.count += had.count
	}
	wait := firstHold << min(s.count-1, maxFailures)
	if s.count >= maxFailures {
		wait = longHold
	}
	s.until = now.Add(wait)
	b.set(pool, s)
	return s.count
}

// joined notes that a replacement of the pool works. news says that others had failed before.
func (b *breaker) joined(pool string) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	news = b.pools[pool] != nil
	delete(b.pools, pool)
	return news
}

// held says until when the pool is left alone, and why. The zero time is for pools that are not.
func (b *breaker) held(pool, version string, now time.Time) (until time.Time, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.pools[pool]
	if s == nil || s.version != version || !now.Before(s.until) {
		return time.Time{}, ""
	}
	if s.count >= maxFailures {
		return s.until, fmt.Sprintf("%d replacements in a row have failed, the last one because: %s; none is tried before %s unless the pool or its class changes",
			s.count, s.why, s.until.UTC().Format(time.RFC3339))
	}
	return s.until, fmt.Sprintf("a replacement has failed because: %s; the next is tried from %s on", s.why, s.until.UTC().Format(time.RFC3339))
}

// count is how many replacements of the pool have failed in a row.
func (b *breaker) count(pool, version string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.pools[pool]; s != nil && s.version == version {
		return s.count
	}
	return 0
}

// text is what is to be written on the pool, empty for nothing.
func (b *breaker) text(pool string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.pools[pool]; s != nil {
		return s.String()
	}
	return ""
}

// forget drops pools that are not there any more, and failures of long ago; it returns the pools of the latter.
func (b *breaker) forget(there func(pool string) bool, now time.Time) (old []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, pool := range slices.Sorted(maps.Keys(b.pools)) {
		s := b.pools[pool]
		late := now.Sub(s.until) >= failuresFor
		if late {
			old = append(old, pool)
		}
		if late || !there(pool) {
			delete(b.pools, pool)
		}
	}
	return old
}
