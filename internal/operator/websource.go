package operator

import (
	"sync"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"

	"karpenter/api/convert"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control/disruption"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/explain"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
	"karpenter/internal/web"
)

// explainFor is how long answers about one view count: some of what they rest on is the time.
const explainFor = 10 * time.Second

// source is what the dashboard and the JSON API show: what the reconcilers see and have decided.
type source struct {
	w    *wiring
	loop *disruption.Loop

	// The views are known weakly: whether they are the newest is all that is asked, and old ones hold on to old objects.
	mu       sync.Mutex
	plan     *pack.Plan
	planView weak.Pointer[state.View]
	planAt   time.Time

	decision     *disrupt.Decision
	input        *disrupt.Input
	decisionView weak.Pointer[state.View]
	decisionAt   time.Time

	// explaining guards what follows: whoever decides does not wait for whoever asks.
	explaining sync.Mutex
	cluster    *explain.Cluster
	clusterOf  *state.View
	clusterAt  time.Time
}

var _ web.Source = (*source)(nil)

// planned takes a plan over.
func (s *source) planned(view *state.View, plan *pack.Plan, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan, s.planView, s.planAt = plan, weak.Make(view), at
}

// decided takes a decision about nodes over.
func (s *source) decided(view *state.View, in *disrupt.Input, d *disrupt.Decision, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decision, s.input, s.decisionView, s.decisionAt = d, in, weak.Make(view), at
}

// View implements web.Source.
func (s *source) View() *state.View { return s.w.mirror.View() }

// Ledger implements web.Source.
func (s *source) Ledger() *ledger.Ledger { return s.w.ledger }

// Now implements web.Source.
func (s *source) Now() time.Time { return s.w.clock.Now() }

// Plan implements web.Source.
func (s *source) Plan() (*pack.Plan, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plan, s.planAt
}

// Decision implements web.Source.
func (s *source) Decision() (*disrupt.Decision, *disrupt.Input, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decision, s.input, s.decisionAt
}

// Recording is everything that a decision was made from, or would be made from now.
func (s *source) Recording(input string) (*ledger.Recording, error) {
	if input != "" {
		return s.w.ledger.Recording(input)
	}
	now, view := s.Now(), s.View()
	r, err := ledger.Record(view, s.loop.Facts(view, now), ledger.NewOptions(s.w.reading(), s.loop.Options), now)
	if err != nil {
		return nil, err
	}
	r.Made = s.w.build.Version
	return r, nil
}

// Explain answers questions about the newest view.
func (s *source) Explain() *explain.Cluster {
	s.explaining.Lock()
	defer s.explaining.Unlock()
	now, view := s.Now(), s.View()
	if s.cluster != nil && s.clusterOf == view && now.Sub(s.clusterAt) < explainFor {
		return s.cluster
	}
	facts := s.loop.Facts(view, now)
	opt := explain.Options{Pack: s.loop.Options.Pack, Disrupt: s.loop.Options, Now: now, Ledger: s.w.ledger.List, Moved: facts.Moved, Limits: s.w.limits()}
	s.mu.Lock()
	if s.planView.Value() == view {
		opt.Plan = s.plan
	}
	if s.decisionView.Value() == view {
		opt.Decision = s.decision
	}
	s.mu.Unlock()
	s.cluster, s.clusterOf, s.clusterAt = explain.New(view, facts.Input(view, now), opt), view, now
	return s.cluster
}

// About implements web.Source.
func (s *source) About() web.About {
	known := s.w.cloud.About()
	about := web.About{Version: s.w.build.Version, Cluster: known.Cluster, Region: known.Region, Started: s.w.began}
	for _, list := range known.Prices {
		about.Prices = append(about.Prices, web.PriceList{Name: list.Name, At: list.At})
	}
	for _, o := range known.Outages {
		about.StockOuts = append(about.StockOuts, web.StockOut{Type: o.Type, Zone: o.Zone, CapacityType: o.CapacityType, Until: o.Until})
	}
	return about
}

// price is what the instance of a claim costs an hour; 0 if that is not known.
func (w *wiring) price(claim *karpv1.NodeClaim) float64 {
	if claim.Spec.NodeClassRef == nil {
		return 0
	}
	_, list, overlaid := w.mirror.Overlaid(claim)
	if !overlaid {
		var err error
		if _, list, _, err = w.types(state.ClassWith(claim.Spec.NodeClassRef.Name, claim.Annotations[convert.KubeletAnnotation])); err != nil {
			return 0
		}
	}
	for _, t := range list {
		if t.Name != claim.Labels[corev1.LabelInstanceTypeStable] {
			continue
		}
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.Zone == claim.Labels[corev1.LabelTopologyZone] && o.CapacityType == claim.Labels[karpv1.CapacityTypeLabelKey] {
				return o.Price
			}
		}
	}
	return 0
}
