package life

import "time"

// How far apart the two looks at the cloud must be that together prove a machine gone.
const (
	// askedApart holds once the cloud has agreed to end the machine: it is going anyway, and the looks only say when.
	askedApart = 5 * time.Second
	// unaskedApart holds for a machine that is missing although nobody has seen it end. A cloud that is behind by a minute must
	// not make us forget a machine that runs.
	unaskedApart = time.Minute
	// emptyApart holds where the cloud lists no machine at all, which is more likely a fault than the truth.
	emptyApart = 10 * time.Minute
)

// Absence is what the cloud has shown of a machine that it does not find. One miss proves nothing: a machine counts as
// gone after two, apart in time and by different questions (by its id, and among all machines of the cluster).
type Absence struct {
	// Asked says whether the cloud has agreed to end the machine.
	Asked bool
	// Missing is the first of an unbroken row of lookups by id that did not find it; zero if the last one did.
	Missing time.Time
	// Listed is when the last listing of all machines began that did not have it; zero if there was none. Empty says that the
	// listing had no machine at all.
	Listed time.Time
	Empty  bool
}

// ListFrom is from when on a listing without the machine proves it gone; zero while the lookup by id still finds it.
func (a Absence) ListFrom() time.Time {
	if a.Missing.IsZero() {
		return time.Time{}
	}
	apart := unaskedApart
	switch {
	case a.Asked:
		apart = askedApart
	case a.Empty:
		apart = emptyApart
	}
	return a.Missing.Add(apart)
}

// Proven says whether the machine is gone.
func (a Absence) Proven() bool {
	from := a.ListFrom()
	return !from.IsZero() && !a.Listed.IsZero() && !a.Listed.Before(from)
}
