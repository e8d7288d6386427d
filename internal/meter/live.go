package meter

// Show shows one series of a gauge. labels are key, value pairs, as in Set.
type Show func(v float64, labels ...string)

// Live has the series of a gauge made whenever somebody looks, instead of kept: list shows each of them once. Metrics by pod, by
// node or by condition are many times larger than what they are read from, and ages change while nothing else does. Older names
// that follow the gauge are made in the same way. list must be safe for concurrent use.
func (s *Set) Live(name Name, list func(Show)) {
	if s == nil {
		return
	}
	f := s.families[name]
	if f == nil || f.metric.Kind != Gauge {
		s.refuse(name, "misuse")
		return
	}
	for _, f := range append([]*family{f}, f.old...) {
		f.mu.Lock()
		f.live = func(emit emit) { f.each(list, func(cause string) { s.refuse(f.metric.Name, cause) }, emit) }
		f.mu.Unlock()
	}
}

// emit takes one series of a live gauge: the values of its labels, which are the caller's again afterwards, and its own.
type emit func(values []string, v float64)

// each makes the series of a live gauge; refuse counts what does not fit.
func (f *family) each(list func(Show), refuse func(cause string), emit emit) {
	values, n := make([]string, len(f.source)), 0
	list(func(v float64, pairs ...string) {
		switch {
		case !f.fill(values, pairs):
			refuse("misuse")
		case n >= f.metric.Most:
			refuse("series")
		default:
			n++
			emit(values, v)
		}
	})
}

// made is how the series of a live gauge are made, or nil for other metrics.
func (f *family) made() func(emit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live
}

// fill writes the values of pairs at their labels' places, and says whether it knows all keys.
func (f *family) fill(values, pairs []string) bool {
	if len(pairs)%2 != 0 {
		return false
	}
	clear(values)
	for i := 0; i < len(pairs); i += 2 {
		at, known := f.at[pairs[i]]
		if !known {
			return false
		}
		values[at] = valid(pairs[i+1])
	}
	return true
}
