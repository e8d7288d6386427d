package meter

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is what a metric measures with.
type Kind string

// Kinds of metrics, in Prometheus' words.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
	Summary   Kind = "summary"
)

const prefix = "karpenter_"

// Metric is one line of the table.
type Metric struct {
	Name Name
	Kind Kind
	// ID is the feature that asks for it.
	ID   string
	Help string
	// Labels in their order. The first should be what Drop is called with, for that is indexed.
	Labels []string
	// Buckets are the upper bounds of a histogram.
	Buckets []float64
	// Most is how many series there may be; zero stands for maxSeries.
	Most int
	// Bare says that the name stands for itself, without a prefix of ours.
	Bare bool
	// Start lists, as values of the first label, series that exist from the start, so that the first increase is seen.
	Start []string

	// Follows is the metric of today that an older name takes its values from. Takes says which label of that metric fills
	// a label of the older one, where the names differ.
	Follows Name
	Takes   map[string]string
}

// Full is the name that Prometheus sees.
func (m Metric) Full() string {
	for _, bare := range []string{"operator_", "client_go_"} {
		if m.Bare || strings.HasPrefix(string(m.Name), bare) {
			return string(m.Name)
		}
	}
	return prefix + string(m.Name)
}

// Set counts. It is safe for concurrent use; a nil Set does nothing.
type Set struct {
	families map[Name]*family
	// order is that of the table.
	order []Name
	// kept collects all but live gauges.
	kept *prometheus.Registry
	// tracked are the kinds whose conditions are measured; wellKnown and snaked the labels of nodes, as nodes and metrics have them.
	tracked           []trackedKind
	wellKnown, snaked []string
}

// New registers every metric of the table with a provider, whose part may be empty. It panics when a name is taken, which is a mistake of whoever wires two sets to
// one registry.
func New(reg prometheus.Registerer, c Cloud) *Set {
	s := &Set{families: map[Name]*family{}, kept: prometheus.NewRegistry(), tracked: c.tracked(), wellKnown: c.WellKnown(), snaked: snakes(c.WellKnown())}
	for _, m := range Table(c) {
		f := newFamily(m)
		s.families[m.Name], s.order = f, append(s.order, m.Name)
		reg.MustRegister(f)
		s.kept.MustRegister(keptOnly{f})
	}
	for _, m := range Table(c) {
		if m.Follows != "" {
			s.families[m.Follows].old = append(s.families[m.Follows].old, s.families[m.Name])
		}
		for _, value := range m.Start {
			s.families[m.Name].start(value)
		}
		if len(m.Labels) == 0 {
			s.families[m.Name].start()
		}
	}
	return s
}

// kinds are those whose conditions are measured.
func (s *Set) kinds() []trackedKind {
	if s == nil {
		return nil
	}
	return s.tracked
}

// Add adds to a counter. labels are key, value pairs; those that are missing are empty.
func (s *Set) Add(name Name, v float64, labels ...string) { s.do(name, v, labels, Counter) }

// Set sets a gauge.
func (s *Set) Set(name Name, v float64, labels ...string) { s.do(name, v, labels, Gauge) }

// Observe adds an observation to a histogram or a summary.
func (s *Set) Observe(name Name, v float64, labels ...string) {
	s.do(name, v, labels, Histogram, Summary)
}

// Drop removes every series of a metric that carries these labels, and of the older names that follow it.
func (s *Set) Drop(name Name, labels ...string) {
	if s == nil {
		return
	}
	f := s.families[name]
	if f == nil || !f.knows(labels) {
		s.refuse(name, "misuse")
		return
	}
	f.drop(labels)
	for _, old := range f.old {
		old.drop(labels)
	}
}

func (s *Set) do(name Name, v float64, labels []string, kinds ...Kind) {
	if s == nil {
		return
	}
	f := s.families[name]
	if f == nil || !slices.Contains(kinds, f.metric.Kind) || !f.knows(labels) {
		s.refuse(name, "misuse")
		return
	}
	for _, f := range append([]*family{f}, f.old...) {
		if !f.record(v, labels) {
			s.refuse(f.metric.Name, "series")
		}
	}
}

// refuse counts what was left out. Its own series are bounded by the table, since unknown names share one.
func (s *Set) refuse(name Name, cause string) {
	if s == nil {
		return
	}
	if s.families[name] == nil {
		name = "unknown"
	}
	s.families[Refused].record(1, []string{"metric", string(name), "cause", cause})
}
