package life

import (
	"fmt"
	"time"
)

// leastGrace is what a pod that is deleted by force is given at least: zero would take it out of the API while its
// containers still run.
const leastGrace = time.Second

// Deadline is when draining stops waiting for anything, or zero for never (D61). What is on record counts, so that it never
// moves later; without a record it is the deletion plus the grace period, if there is one.
func Deadline(recorded, deleted time.Time, grace *time.Duration) time.Time {
	switch {
	case !recorded.IsZero():
		return recorded
	case grace == nil || deleted.IsZero():
		return time.Time{}
	}
	return deleted.Add(max(0, *grace))
}

// graceLeft is how long a pod that is told to go now may take so as to be gone by the deadline, in whole seconds.
func graceLeft(deadline, now time.Time) time.Duration {
	return max(leastGrace, deadline.Sub(now).Truncate(time.Second))
}

// Protection is what the annotation do-not-disrupt says of a pod (D8).
type Protection struct {
	// Holds says whether draining must leave the pod alone now.
	Holds bool
	// Until is when a limited protection ends or has ended; zero if it is unlimited, there is none, or the pod has not started.
	Until time.Time
	// Wrong says in words why the value was ignored, if it was.
	Wrong string
}

// Protect reads a value of the annotation do-not-disrupt: true protects for good, a duration protects until that long after
// the pod started, and before it starts. Anything else does not protect.
func Protect(value string, started, now time.Time) Protection {
	switch value {
	case "true":
		return Protection{Holds: true}
	case "", "false":
		return Protection{}
	}
	length, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return Protection{Wrong: fmt.Sprintf("karpenter.sh/do-not-disrupt is %.64q and is ignored: it must be true, false, or a duration such as 30m or 4h", value)}
	case length <= 0:
		return Protection{Wrong: fmt.Sprintf("karpenter.sh/do-not-disrupt is %.64q and is ignored: a duration must be more than zero", value)}
	case started.IsZero():
		return Protection{Holds: true}
	}
	until := started.Add(length)
	return Protection{Holds: now.Before(until), Until: until}
}
