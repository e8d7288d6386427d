package life

import "time"

// The last outcomes of a pool's launches, and how many bad ones among them make it unhealthy (L14).
const (
	ringSize  = 4
	ringFails = 2
)

// Ring remembers how the last machines of a pool fared: whether they joined the cluster. The zero value remembers nothing.
type Ring struct {
	outcomes []bool // oldest first
	failures int    // in a row, also beyond the ring
}

// SeedRing is a ring that gives the verdict which was on record before a restart.
func SeedRing(verdict Status) Ring {
	var r Ring
	switch verdict {
	case True:
		r.Add(true)
	case False:
		for range ringFails {
			r.Add(false)
		}
	}
	return r
}

// Add remembers one more outcome.
func (r *Ring) Add(joined bool) {
	r.outcomes = append(r.outcomes, joined)
	if len(r.outcomes) > ringSize {
		r.outcomes = append([]bool(nil), r.outcomes[1:]...)
	}
	r.failures++
	if joined {
		r.failures = 0
	}
}

// Verdict is False when several of the last machines did not join, else True when one did.
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

// pauses is how long a pool makes no more machines after that many in a row did not join.
var pauses = []time.Duration{0, 0, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}

// Pause is how long the pool should make no more machines, counted from the last outcome.
func (r *Ring) Pause() time.Duration { return pauses[min(r.failures, len(pauses)-1)] }
