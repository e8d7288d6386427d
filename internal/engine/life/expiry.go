package life

import (
	"hash/fnv"
	"time"
)

// How much earlier than its full age a claim may expire: a twentieth of the age, and never more than six hours. Claims that
// were made together then do not all end together, and none outlives what its owner allowed.
const (
	jitterShare = 20
	jitterMost  = 6 * time.Hour
)

// Expiry is when a claim of that age limit ends (D57). It depends on nothing but its arguments, so every process agrees.
func Expiry(created time.Time, after time.Duration, uid string) time.Time {
	spread := min(after/jitterShare, jitterMost)
	if spread <= 0 {
		return created.Add(after)
	}
	h := fnv.New64a()
	h.Write([]byte(uid)) // never fails
	return created.Add(after - time.Duration(h.Sum64()%uint64(spread)))
}

// Backoff is how long to wait after that many failures in a row: first, then twice as long each time, up to most.
func Backoff(first, most time.Duration, failures int) time.Duration {
	wait := first
	for i := 1; i < failures && wait < most; i++ {
		wait *= 2
	}
	return min(wait, most)
}

// podQuiet is how near two events of pods may be to count as one, so that a busy node is not written all the time (L17).
const podQuiet = 10 * time.Second

// PodActivity says whether what happened to a pod moves the time of its node's last pod event, and to when. The times are those
// of being bound, of having finished and of beginning to end; zero where that has not happened.
func PodActivity(last time.Time, happened ...time.Time) (at time.Time, moves bool) {
	for _, t := range happened {
		if t.After(at) {
			at = t
		}
	}
	return at, !at.IsZero() && (last.IsZero() || at.Sub(last) >= podQuiet)
}

// Amount is how much of a resource was expected on a node and how much there is.
type Amount struct {
	Resource        string
	Expected, Found int64
}

// Short are the amounts that are more than a tenth below what was expected (L16), in the given order.
func Short(amounts []Amount) []Amount {
	var out []Amount
	for _, a := range amounts {
		if a.Expected > 0 && float64(a.Found) < 0.9*float64(a.Expected) {
			out = append(out, a)
		}
	}
	return out
}
