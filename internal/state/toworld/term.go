package toworld

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// nodeNeeds reads node selector and node affinity. What cannot be read refuses the pod: it would never be placed as meant.
func (b *Converter) nodeNeeds(c *world.Class, spec *corev1.PodSpec) {
	if len(spec.NodeSelector) > 0 {
		set := req.Set{}
		for _, l := range world.NewLabels(spec.NodeSelector) {
			if text := b.restricted(l.Key); text != "" {
				c.Refused = text
			}
			set = set.With(req.Is(b.Rules.Normalize(l.Key), l.Value))
		}
		c.Needs = append(c.Needs, world.Clause{Source: "node selector", Terms: []req.Set{set}})
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return
	}
	na := spec.Affinity.NodeAffinity
	if r := na.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		clause := world.Clause{Source: "node affinity"}
		for i := range r.NodeSelectorTerms {
			set, err := b.nodeTerm(&r.NodeSelectorTerms[i])
			if err != nil {
				c.Refused = err.Error()
				continue
			}
			if set != nil {
				clause.Terms = append(clause.Terms, set)
			}
		}
		c.Needs = append(c.Needs, clause)
	}
	if pool, ok := poolNeed(c.Needs); ok && pool.AdmitsAbsent() && !pool.Admits("any pool", true) {
		c.Refused = "asks for a node that belongs to no pool"
	}
	for i := range na.PreferredDuringSchedulingIgnoredDuringExecution {
		p := &na.PreferredDuringSchedulingIgnoredDuringExecution[i]
		if set, err := b.nodeTerm(&p.Preference); err == nil && set != nil {
			c.Prefers = append(c.Prefers, world.Preference{Weight: p.Weight, Term: set})
		}
	}
	slices.SortStableFunc(c.Prefers, func(x, y world.Preference) int { return int(y.Weight) - int(x.Weight) })
}

func poolNeed(needs []world.Clause) (req.Requirement, bool) {
	for _, cl := range needs {
		for _, t := range cl.Terms {
			if r, ok := t.Get(v1.NodePoolLabelKey); ok {
				return r, true
			}
		}
	}
	return req.Requirement{}, false
}

// nodeTerm reads one term; nil matches nothing, as an empty term does.
func (b *Converter) nodeTerm(t *corev1.NodeSelectorTerm) (req.Set, error) {
	if len(t.MatchFields) > 0 {
		return nil, fmt.Errorf("node affinity uses matchFields, which only names existing nodes; use matchExpressions")
	}
	if len(t.MatchExpressions) == 0 {
		return nil, nil
	}
	set := req.Set{}
	for _, e := range t.MatchExpressions {
		if text := b.restricted(e.Key); text != "" {
			return nil, fmt.Errorf("%s", text)
		}
		if e.Operator == v1.OperatorGte || e.Operator == v1.OperatorLte {
			return nil, fmt.Errorf("node affinity on %s uses operator %s, which pods do not have; use Gt or Lt", e.Key, e.Operator)
		}
		r, err := req.New(b.Rules.Normalize(e.Key), req.Operator(e.Operator), e.Values...)
		if err != nil {
			return nil, fmt.Errorf("node affinity: %w", err)
		}
		set = set.With(r)
	}
	return set, nil
}

// restricted says why pods may not select by a label, or "".
func (b *Converter) restricted(key string) string {
	if key == corev1.LabelHostname || !b.Rules.IsRestricted(key) {
		return ""
	}
	return fmt.Sprintf("selects nodes by label %s, which is restricted; use a well-known label or one of your own domain", key)
}

// Selector reads a label selector with further labels that must be equal.
func Selector(s *metav1.LabelSelector, equal world.Labels) (world.Selector, error) {
	if s == nil {
		return world.Selector{}, nil
	}
	set := req.Set{}
	for _, l := range world.NewLabels(s.MatchLabels) {
		set = set.With(req.Is(l.Key, l.Value))
	}
	for _, e := range s.MatchExpressions {
		r, err := req.New(e.Key, req.Operator(e.Operator), e.Values...)
		if err != nil || (e.Operator == metav1.LabelSelectorOpNotIn && len(e.Values) == 0) {
			return world.Selector{}, fmt.Errorf("label selector: %w", err)
		}
		set = set.With(r)
	}
	for _, l := range equal {
		set = set.With(req.Is(l.Key, l.Value))
	}
	return world.Selector{Some: true, Need: set}, nil
}

// podTerms reads pod affinity and anti-affinity.
func (b *Converter) podTerms(d *Draft, o *corev1.Pod) error {
	a, c := o.Spec.Affinity, &d.Class
	if a == nil {
		return nil
	}
	d.Spaces = selectsSpaces(a)
	if a.PodAffinity != nil {
		list, err := b.terms(o, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		if err != nil {
			return fmt.Errorf("pod affinity: %w", err)
		}
		c.Affinity = list
	}
	if a.PodAntiAffinity != nil {
		list, err := b.terms(o, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		if err != nil {
			return fmt.Errorf("pod anti-affinity: %w", err)
		}
		c.AntiAffinity = list
	}
	return nil
}

// selectsSpaces says whether some term picks namespaces by their labels.
func selectsSpaces(a *corev1.Affinity) bool {
	picks := func(t *corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }
	return (a.PodAffinity != nil && anyTerm(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, picks)) ||
		(a.PodAntiAffinity != nil && anyTerm(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, picks))
}

func (b *Converter) terms(o *corev1.Pod, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) ([]world.PodTerm, error) {
	var out []world.PodTerm
	for i := range required {
		t, err := b.podTerm(o, &required[i], 0)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	sorted := slices.Clone(preferred)
	slices.SortStableFunc(sorted, func(x, y corev1.WeightedPodAffinityTerm) int { return int(y.Weight) - int(x.Weight) })
	for i := range sorted {
		t, err := b.podTerm(o, &sorted[i].PodAffinityTerm, max(1, sorted[i].Weight))
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func (b *Converter) podTerm(o *corev1.Pod, t *corev1.PodAffinityTerm, weight int32) (world.PodTerm, error) {
	out := world.PodTerm{Key: b.Rules.Normalize(t.TopologyKey), Weight: weight}
	if t.TopologyKey == "" {
		return out, fmt.Errorf("term has no topologyKey; give a node label such as %s", corev1.LabelTopologyZone)
	}
	s, err := Selector(t.LabelSelector, labelValues(o, t.MatchLabelKeys))
	if err != nil {
		return out, err
	}
	for _, k := range t.MismatchLabelKeys {
		if v, ok := o.Labels[k]; ok && s.Some {
			r, _ := req.New(k, req.NotIn, v)
			exists, _ := req.New(k, req.Exists)
			s.Need = s.Need.With(r).With(exists)
		}
	}
	out.Selector = s
	switch {
	case t.NamespaceSelector != nil:
		out.Namespaces, out.AllNamespaces, err = b.selectNamespaces(t)
	case len(t.Namespaces) == 0:
		out.Namespaces = []string{Space(o)}
	default:
		out.Namespaces = slices.Clone(t.Namespaces)
	}
	slices.Sort(out.Namespaces)
	out.Namespaces = slices.Compact(out.Namespaces)
	return out, err
}

// selectNamespaces unites the namespaces that a term lists with those that its selector picks.
func (b *Converter) selectNamespaces(t *corev1.PodAffinityTerm) ([]string, bool, error) {
	s, err := Selector(t.NamespaceSelector, nil)
	if err != nil {
		return nil, false, fmt.Errorf("namespaceSelector: %w", err)
	}
	if len(s.Need) == 0 {
		return nil, true, nil
	}
	out := slices.Clone(t.Namespaces)
	for name, ns := range b.Namespaces {
		if Matches(s, ns.Labels) {
			out = append(out, name)
		}
	}
	return out, false, nil
}

// Matches is Selector.Matches for labels as objects have them.
func Matches(s world.Selector, labels map[string]string) bool {
	return s.Some && s.Need.Admits(func(key string) (string, bool) {
		v, ok := labels[key]
		return v, ok
	})
}

func labelValues(o *corev1.Pod, keys []string) world.Labels {
	m := map[string]string{}
	for _, k := range keys {
		if v, ok := o.Labels[k]; ok {
			m[k] = v
		}
	}
	return world.NewLabels(m)
}

// spread reads topology spread constraints, or applies the default ones.
func (b *Converter) spread(c *world.Class, o *corev1.Pod) error {
	list := o.Spec.TopologySpreadConstraints
	var deduced *world.Selector
	if len(list) == 0 && len(b.opt.DefaultSpread) > 0 {
		if deduced = b.DefaultSelector(o); deduced != nil {
			list = b.opt.DefaultSpread
		}
	}
	for i := range list {
		t := &list[i]
		if t.MaxSkew <= 0 {
			return fmt.Errorf("topology spread over %s: maxSkew is %d; give 1 or more", t.TopologyKey, t.MaxSkew)
		}
		if t.TopologyKey == "" {
			return fmt.Errorf("topology spread has no topologyKey; give a node label such as %s", corev1.LabelTopologyZone)
		}
		s, err := Selector(t.LabelSelector, labelValues(o, t.MatchLabelKeys))
		if err != nil {
			s = world.Selector{} // an invalid selector matches nothing, and then the constraint does nothing
		}
		if deduced != nil {
			s = *deduced
		}
		x := world.Spread{
			Key: b.Rules.Normalize(t.TopologyKey), MaxSkew: t.MaxSkew, Hard: t.WhenUnsatisfiable != corev1.ScheduleAnyway, Selector: s,
			HonorAffinity: t.NodeAffinityPolicy == nil || *t.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor,
			HonorTaints:   t.NodeTaintsPolicy != nil && *t.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		}
		if t.MinDomains != nil {
			x.MinDomains = *t.MinDomains
		}
		c.Spread = append(c.Spread, x)
	}
	return nil
}
