package life

import "time"

// How far apart the two looks at the cloud must be that together prove an instance gone.
const (
	// askedApart holds once the cloud has agreed to end the instance: it is going anyway, and the looks only say when.
	askedApart = 5 * time.Second
	// unaskedApart holds for an instance that is missing although nobody has seen it end. A cloud that is behind by a minute must
	// not make us forget an instance that runs.
	unaskedApart = time.Minute
	// emptyApart holds where the cloud lists no instance at all, which is more likely a fault than the truth.
	emptyApart = 10 * time.Minute
)

// Absence is what the cloud has shown of an instance that it does not find. One miss proves nothing: an instance counts as
// gone after two, apart in time and by different questions (by its id, and among all instances of the cluster).
type Absence struct {
	// Asked says whether the cloud has agreed to end the instance.
	Asked bool
	// Missing is the first of an unbroken row of lookups by id that did not find it; zero if the last one did.
	Missing time.Time
	// Listed is when the last listing of all instances began that did not have it; zero if there was none. Empty says that the
	// listing had no instance at all.
	Listed time.Time
	Empty  bool
}

// ListFrom is from when on a listing without the instance proves it gone; zero while the lookup by id still finds it.
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

// Proven says whether the instance is gone.
func (a Absence) Proven() bool {
	from := a.ListFrom()
	return !from.IsZero() && !a.Listed.IsZero() && !a.Listed.Before(from)
}
