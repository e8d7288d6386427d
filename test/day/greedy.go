package day

import (
	"cmp"
	"slices"
	"time"
)

// decideGreedy removes a node whose pods fit on others if all nodes cost more than Slack above a fresh plan: the one that saves
// most for each eviction. It knows the future cost of a fresh plan, which no controller does, and replaces nothing.
func (s *sim) decideGreedy() {
	u := s.newUpstream()
	if len(u.empty) > 0 {
		s.start(&command{remove: u.empty})
		return
	}
	price := 0.0
	for _, n := range s.nodes {
		if !n.leaving {
			price += n.price
		}
	}
	if price <= (1+s.Slack)*s.forecast.at(s.now) || u.allowed == 0 {
		return
	}
	each := func(n *node) float64 { return float64(len(n.pods)) / n.price }
	slices.SortStableFunc(u.candidates, func(a, b *node) int { return cmp.Compare(each(a), each(b)) })
	for i := range u.candidates {
		if o := u.try(u.candidates[i : i+1]); o != nil && len(o.add) == 0 {
			s.start(&command{remove: o.remove})
			return
		}
	}
}

// forecast is what fresh plans cost over the day.
type forecast struct {
	step  time.Duration
	price []float64
}

// forecastSteps is how often in a day a fresh plan is made for a forecast.
const forecastSteps = 48

func newForecast(set Settings) (*forecast, error) {
	s, err := newSim(set)
	if err != nil {
		return nil, err
	}
	f := &forecast{step: set.Length / forecastSteps}
	for range forecastSteps + 1 {
		s.replicate()
		f.price = append(f.price, s.fresh())
		s.now = s.now.Add(f.step)
	}
	return f, nil
}

// at is the cost at a moment, interpolated.
func (f *forecast) at(t time.Time) float64 {
	past := t.Sub(midnight)
	i := int(past / f.step)
	if i >= forecastSteps {
		return f.price[forecastSteps]
	}
	share := float64(past%f.step) / float64(f.step)
	return f.price[i]*(1-share) + f.price[i+1]*share
}
