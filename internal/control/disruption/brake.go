package disruption

import (
	"fmt"
	"sync"
	"time"
)

const (
	// maxStrikes is how many replacements of a pool may fail in a row before no more are tried (T24).
	maxStrikes = 3
	// firstHold is how long a pool is left alone after a failed replacement; it doubles with each. longHold is how long when no
	// more are tried: then whatever was wrong with the cloud may be over.
	firstHold = time.Minute
	longHold  = time.Hour
)

// brake keeps pools whose replacements fail from being tried for ever.
type brake struct {
	mu    sync.Mutex
	pools map[string]*strikes
}

// strikes are failures in a row.
type strikes struct {
	count int
	until time.Time
	// version is that of the pool and its class: when it changes, everything may be different.
	version string
	why     string
}

// failed notes that a replacement of the pool came to nothing. It returns how often that has happened in a row.
func (b *brake) failed(pool, version, why string, now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pools == nil {
		b.pools = map[string]*strikes{}
	}
	s := b.pools[pool]
	if s == nil || s.version != version {
		s = &strikes{version: version}
		b.pools[pool] = s
	}
	s.count++
	s.why = why
	wait := firstHold << min(s.count-1, maxStrikes)
	if s.count >= maxStrikes {
		wait = longHold
	}
	s.until = now.Add(wait)
	return s.count
}

// joined notes that a replacement of the pool works.
func (b *brake) joined(pool string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pools, pool)
}

// held says until when the pool is left alone, and why. The zero time is for pools that are not.
func (b *brake) held(pool, version string, now time.Time) (until time.Time, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.pools[pool]
	if s == nil || s.version != version || !now.Before(s.until) {
		return time.Time{}, ""
	}
	if s.count >= maxStrikes {
		return s.until, fmt.Sprintf("%d replacements in a row have failed, the last one because: %s; none is tried before %s unless the pool or its class changes",
			s.count, s.why, s.until.UTC().Format(time.RFC3339))
	}
	return s.until, fmt.Sprintf("a replacement has failed because: %s; the next is tried from %s on", s.why, s.until.UTC().Format(time.RFC3339))
}

// count is how many replacements of the pool have failed in a row.
func (b *brake) count(pool, version string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.pools[pool]; s != nil && s.version == version {
		return s.count
	}
	return 0
}

// forget drops pools that are not there any more.
func (b *brake) forget(there func(pool string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for pool := range b.pools {
		if !there(pool) {
			delete(b.pools, pool)
		}
	}
}
