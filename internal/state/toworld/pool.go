package toworld

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// Pool converts a pool. One that cannot be used is kept with the reason, so that plans can name it.
func (b *Converter) Pool(p *v1.NodePool) (w *world.Pool, err error) {
	cost, _ := p.NodeCost()
	w = &world.Pool{Name: p.Name, MaxNodes: -1, NodeCost: cost, Static: p.Spec.Replicas != nil}
	if w.Static {
		w.Replicas = max(0, *p.Spec.Replicas)
	}
	if p.Spec.Weight != nil {
		w.Weight = *p.Spec.Weight
	}
	if err = b.poolSpec(w, p); err != nil {
		w.Refused = err.Error()
	}
	if status, message := PoolReady(p); status != "" && status != metav1.ConditionTrue && w.Refused == "" {
		w.Refused = "is not ready"
		if message != "" {
			w.Refused += ": " + message
		}
	}
	if p.DeletionTimestamp != nil {
		w.Refused = "is being deleted"
	}
	return w, err
}

// PoolReady is the status and the message of a pool's condition Ready; empty for one without.
func PoolReady(p *v1.NodePool) (metav1.ConditionStatus, string) {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.ConditionReady {
			return c.Status, c.Message
		}
	}
	return "", ""
}

func (b *Converter) poolSpec(w *world.Pool, p *v1.NodePool) error {
	t := &p.Spec.Template
	need := req.NewSet(req.Is(v1.NodePoolLabelKey, p.Name))
	labels := map[string]string{v1.NodePoolLabelKey: p.Name}
	for _, l := range world.NewLabels(t.Labels) {
		if err := b.templateLabel(l.Key); err != nil {
			return fmt.Errorf("template label: %w", err)
		}
		labels[b.Rules.Normalize(l.Key)] = l.Value
	}
	if ref := t.Spec.NodeClassRef; ref != nil && ref.Group != "" {
		labels[v1.NodeClassLabelKey(*ref)] = ref.Name
	}
	w.Labels = world.NewLabels(labels)
	for _, l := range w.Labels {
		need = need.With(req.Is(l.Key, l.Value))
	}
	for _, r := range t.Spec.Requirements {
		if err := b.templateLabel(r.Key); err != nil {
			return fmt.Errorf("requirement: %w", err)
		}
		x, err := req.New(b.Rules.Normalize(r.Key), req.Operator(r.Operator), r.Values...)
		if err != nil {
			return err
		}
		if r.MinValues != nil {
			x.MinValues = *r.MinValues
		}
		need = need.With(x)
	}
	for _, r := range need {
		if r.Impossible() {
			return fmt.Errorf("requirements on %s contradict each other", r.Key)
		}
	}
	w.Need = need
	for _, r := range need {
		if b.provided(r.Key) {
			w.Provided = append(w.Provided, r.Key)
		}
	}
	for _, x := range t.Spec.Taints {
		w.Taints = append(w.Taints, world.Taint{Key: x.Key, Value: x.Value, Effect: world.Effect(x.Effect)})
	}
	return b.poolLimits(w, corev1.ResourceList(p.Spec.Limits))
}

// provided says whether only the provider gives values to a label.
func (b *Converter) provided(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return slices.Contains(b.opt.WellKnown, key) || slices.ContainsFunc(b.opt.ProviderDomains, func(d string) bool {
		return domain == d || strings.HasSuffix(domain, "."+d)
	})
}

func (b *Converter) templateLabel(key string) error {
	if key == v1.NodePoolLabelKey || b.Rules.IsRestricted(key) {
		return fmt.Errorf("label %s is restricted; use a well-known label or one of your own domain", key)
	}
	return nil
}

func (b *Converter) poolLimits(w *world.Pool, limits corev1.ResourceList) error {
	nodes, ok := limits["nodes"]
	if ok {
		w.MaxNodes = max(0, nodes.Value())
		limits = limits.DeepCopy()
		delete(limits, "nodes")
	}
	sums, err := Resources(b.Names, limits)
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	for i, name := range b.Names.List() {
		if _, set := limits[corev1.ResourceName(name)]; set {
			w.Limits = append(w.Limits, world.Limit{Resource: i, Max: sums.Get(i)})
		}
	}
	return nil
}
