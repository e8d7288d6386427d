package meter

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// family is one metric with its series. It is what Prometheus collects counters and gauges from: a series of ours is a
// string and a number, where a vector of the client library would keep a tree of objects for each pod.
type family struct {
	metric Metric
	// source is, for each label, the key in a call's pairs that fills it.
	source []string
	// at is each label's place by that key, order has the places by the labels' names, which is how Prometheus wants them.
	at    map[string]int
	order []int
	// old are the older names that follow this metric.
	old  []*family
	desc *prometheus.Desc
	// observers keeps the observations of a histogram or summary.
	observers observers

	mu sync.Mutex
	// live makes the series of a gauge that keeps none; nil of others.
	live func(emit)
	// series has the values of counters and gauges by the joined values of their labels, under the value of the first
	// label. Histograms and summaries have their series noted here, too. count is how many there are.
	series map[string]map[string]float64
	count  int
}

// observers is the part of a vector of histograms or summaries that is used.
type observers interface {
	prometheus.Collector
	WithLabelValues(values ...string) prometheus.Observer
	DeleteLabelValues(values ...string) bool
}

func newFamily(m Metric) *family {
	if m.Most == 0 {
		m.Most = maxSeries
	}
	f := &family{metric: m, series: map[string]map[string]float64{}, at: map[string]int{}, desc: prometheus.NewDesc(m.Full(), m.Help, m.Labels, nil)}
	for i, label := range m.Labels {
		if from := m.Takes[label]; from != "" {
			label = from
		}
		f.source = append(f.source, label)
		f.at[label] = i
		f.order = append(f.order, i)
	}
	slices.SortFunc(f.order, func(a, b int) int { return strings.Compare(m.Labels[a], m.Labels[b]) })
	switch m.Kind {
	case Histogram:
		f.observers = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Full(), Help: m.Help, Buckets: m.Buckets}, m.Labels)
	case Summary:
		f.observers = prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: m.Full(), Help: m.Help, Objectives: objectives()}, m.Labels)
	}
	return f
}

// Describe implements prometheus.Collector.
func (f *family) Describe(descs chan<- *prometheus.Desc) { descs <- f.desc }

// Collect implements prometheus.Collector.
func (f *family) Collect(metrics chan<- prometheus.Metric) {
	if f.observers != nil {
		f.observers.Collect(metrics)
		return
	}
	var found []prometheus.Metric
	show := func(values []string, v float64) { found = append(found, f.constant(values, v)) }
	if live := f.made(); live != nil {
		live(show)
	} else {
		f.kept(show)
	}
	for _, m := range found { // no lock is held while the scraper takes its time
		metrics <- m
	}
}

func (f *family) constant(values []string, v float64) prometheus.Metric {
	kind := prometheus.GaugeValue
	if f.metric.Kind == Counter {
		kind = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(f.desc, kind, v, values...)
}

// kept visits the series that are kept.
func (f *family) kept(show emit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, group := range f.series {
		for key, v := range group {
			show(f.split(key), v)
		}
	}
}

// knows says whether labels are pairs whose keys the metric has.
func (f *family) knows(labels []string) bool {
	if len(labels)%2 != 0 {
		return false
	}
	for i := 0; i < len(labels); i += 2 {
		if !slices.Contains(f.source, labels[i]) {
			return false
		}
	}
	return true
}

// start makes a series without counting anything.
func (f *family) start(first ...string) {
	values := make([]string, len(f.source))
	copy(values, first)
	f.mu.Lock()
	defer f.mu.Unlock()
	if group := f.admit(values); group != nil && f.observers != nil {
		f.observers.WithLabelValues(values...)
	}
}

// record counts v, unless that needs one series too many.
func (f *family) record(v float64, labels []string) bool {
	values := make([]string, len(f.source))
	for i, key := range f.source {
		values[i], _ = value(labels, key)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	group := f.admit(values)
	if group == nil {
		return false
	}
	switch {
	case f.observers != nil:
		f.observers.WithLabelValues(values...).Observe(v)
	case f.metric.Kind == Counter:
		group[join(values)] += max(v, 0) // a counter never goes back
	default:
		group[join(values)] = v
	}
	return true
}

// admit returns the group that a series is in, which it makes if there is room, and nil otherwise.
func (f *family) admit(values []string) map[string]float64 {
	first, key := "", join(values)
	if len(values) > 0 {
		first = values[0]
	}
	group := f.series[first]
	if _, ok := group[key]; ok {
		return group
	}
	if f.count >= f.metric.Most {
		return nil
	}
	if group == nil {
		group = map[string]float64{}
		f.series[first] = group
	}
	group[key] = 0
	f.count++
	return group
}

// drop removes the series that carry labels. A metric that lacks one of them says nothing of it and is left alone.
func (f *family) drop(labels []string) {
	if !f.knows(labels) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.source) > 0 {
		if first, ok := value(labels, f.source[0]); ok {
			f.dropUnder(first, labels)
			return
		}
	}
	for first := range f.series {
		f.dropUnder(first, labels)
	}
}

func (f *family) dropUnder(first string, labels []string) {
	for key := range f.series[first] {
		values := f.split(key)
		if !f.matches(values, labels) {
			continue
		}
		if f.observers != nil {
			f.observers.DeleteLabelValues(values...)
		}
		delete(f.series[first], key)
		f.count--
	}
	if len(f.series[first]) == 0 {
		delete(f.series, first)
	}
}

func (f *family) matches(values, labels []string) bool {
	for i, key := range f.source {
		if wanted, ok := value(labels, key); ok && values[i] != wanted {
			return false
		}
	}
	return true
}

// value finds a key among pairs.
func value(labels []string, key string) (string, bool) {
	for i := 0; i+1 < len(labels); i += 2 {
		if labels[i] == key {
			return valid(labels[i+1]), true
		}
	}
	return "", false
}

// valid is a value that Prometheus takes: it wants UTF-8, and names in a cluster may be anything.
func valid(v string) string { return strings.ToValidUTF8(v, "?") }

// separator cannot be part of a label's value, which is UTF-8.
const separator = "\xff"

func join(values []string) string { return strings.Join(values, separator) }

func (f *family) split(key string) []string {
	if len(f.source) == 0 {
		return nil
	}
	return strings.Split(key, separator)
}
