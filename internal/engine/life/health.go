package life

import "time"

// The last outcomes of a pool's launches, and how many bad ones among them make it unhealthy (L14).
const (
	ringSize  = 4
	ringFails = 2
)

// Ring remembers how the last instances of a pool fared: whether they joined the cluster. The zero value remembers nothing.
type Ring struct {
	outcomes []bool // oldest first
	// failures count the bursts in a row that failed, also beyond the ring. begun is when the last of them was noticed, several that more
	// than one of its instances failed.
	failures int
	begun    time.Time
	several  bool
}

// SeedRing is a ring that gives the verdict which was on record before a restart.
func SeedRing(verdict Status) Ring {
	var r Ring
	switch verdict {
	case True:
		r.Joined()
	case False:
		for range ringFails {
			r.Failed(time.Time{}, time.Time{})
		}
	}
	return r
}

// Joined remembers that an instance has joined.
func (r *Ring) Joined() {
	r.add(true)
	r.failures, r.begun, r.several = 0, time.Time{}, false
}

// Failed remembers that an instance which was asked for at a time has not. Instances that were asked for before the first failure was
// noticed are one burst: they say no more than it did. A burst counts once, and twice if more than one of it has failed.
func (r *Ring) Failed(asked, now time.Time) {
	r.add(false)
	switch {
	case r.failures == 0 || asked.After(r.begun):
		r.failures, r.begun, r.several = r.failures+1, now, false
	case !r.several:
		r.failures, r.several = r.failures+1, true
	}
}

func (r *Ring) add(joined bool) {
	r.outcomes = append(r.outcomes, joined)
	if len(r.outcomes) > ringSize {
		r.outcomes = append([]bool(nil), r.outcomes[1:]...)
	}
}

// Verdict is False when several of the last instances did not join, else True when one did.
func (r *Ring) Verdict() Status {
	good, bad := 0, 0
	for _, joined := range r.outcomes {
		if joined {
			good++
		} else {
			bad++
		}
	}
	switch {
	case bad >= ringFails:
		return False
	case good > 0:
		return True
	}
	return Unknown
}

// pauses is how long a pool makes no more instances after so many failures in a row.
var pauses = []time.Duration{0, 0, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}

// Pause is how long the pool should make no more instances, counted from the last outcome.
func (r *Ring) Pause() time.Duration { return pauses[min(r.failures, len(pauses)-1)] }
