package meter

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// sample is one value of one series as it goes out. Labels without a value are left out, which Prometheus takes for the
// same, and equal labels of different series are one object: that keeps a scrape of a large cluster small.
type sample struct {
	desc   *prometheus.Desc
	kind   Kind
	labels []*dto.LabelPair
	value  float64
}

// Desc implements prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.labels
	if s.kind == Counter {
		out.Counter = &dto.Counter{Value: &s.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}

// pairs makes the labels of samples of one family, during one scrape.
type pairs struct {
	labels []string
	order  []int
	made   []map[string]*dto.LabelPair
}

func newPairs(f *family) *pairs {
	p := &pairs{labels: f.metric.Labels, order: f.order, made: make([]map[string]*dto.LabelPair, len(f.metric.Labels))}
	for i := range p.made {
		p.made[i] = map[string]*dto.LabelPair{}
	}
	return p
}

// of makes the labels of one sample. It keeps nothing of the list of values.
func (p *pairs) of(values []string) []*dto.LabelPair {
	set := 0
	for _, v := range values {
		if v != "" {
			set++
		}
	}
	found := make([]*dto.LabelPair, 0, set)
	for _, i := range p.order {
		if values[i] == "" {
			continue
		}
		pair := p.made[i][values[i]]
		if pair == nil {
			v := values[i]
			pair = &dto.LabelPair{Name: &p.labels[i], Value: &v}
			p.made[i][values[i]] = pair
		}
		found = append(found, pair)
	}
	return found
}
