package state

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// budget is a disruption budget with its selector read. One whose selector cannot be read covers nobody.
type budget struct {
	obj      *policyv1.PodDisruptionBudget
	selector world.Selector
	full     bool // it never lets a pod go
	always   bool // but one that is not ready
}

func (m *Mirror) putBudget(p *policyv1.PodDisruptionBudget) {
	old, known := m.findBudget(p)
	if known && outdated(old.obj, p) {
		return
	}
	s, err := toworld.Selector(p.Spec.Selector, nil)
	m.problem("PodDisruptionBudget", spaced(p), "", err)
	b := budget{p, s, fullyBlocking(p), alwaysAllows(p)}
	m.setBudget(p, &b)
	if !known || old.full != b.full || old.always != b.always || string(old.selector.Need.AppendKey(nil)) != string(s.Need.AppendKey(nil)) || old.selector.Some != s.Some {
		m.cover = nil
		m.queueSpace(toworld.Space(p))
	}
}

func (m *Mirror) dropBudget(p *policyv1.PodDisruptionBudget) {
	if old, known := m.findBudget(p); known && sameUID(old.obj, p) {
		m.problem("PodDisruptionBudget", spaced(p), "", nil)
		m.setBudget(p, nil)
		m.cover = nil
		m.queueSpace(toworld.Space(p))
	}
}

func (m *Mirror) findBudget(p *policyv1.PodDisruptionBudget) (budget, bool) {
	for _, b := range m.budgets[toworld.Space(p)] {
		if b.obj.Name == p.Name {
			return b, true
		}
	}
	return budget{}, false
}

// setBudget replaces or removes a budget. Views hold the map and its lists, so that both are copied.
func (m *Mirror) setBudget(p *policyv1.PodDisruptionBudget, b *budget) {
	list := slices.DeleteFunc(slices.Clone(m.budgets[toworld.Space(p)]), func(x budget) bool { return x.obj.Name == p.Name })
	if b != nil {
		list = append(list, *b)
		slices.SortFunc(list, func(x, y budget) int { return strings.Compare(x.obj.Name, y.obj.Name) })
	}
	if m.budgetsShared {
		m.budgets, m.budgetsShared = maps.Clone(m.budgets), false
	}
	if m.budgets[toworld.Space(p)] = list; len(list) == 0 {
		delete(m.budgets, toworld.Space(p))
	}
	m.changed = true
}

// blocked says whether a disruption budget never lets the pod go, or two budgets cover it, which no eviction gets past. Pods that
// tolerate the taint of nodes that go are not evicted: they leave with their node.
func (m *Mirror) blocked(o *corev1.Pod) bool {
	if len(m.budgets[toworld.Space(o)]) == 0 || slices.ContainsFunc(o.Spec.Tolerations, toleratesDisruption) {
		return false
	}
	covering := 0
	for i := range m.budgets[toworld.Space(o)] {
		b := &m.budgets[toworld.Space(o)][i]
		if !toworld.Matches(b.selector, o.Labels) {
			continue
		}
		covering++
		if b.full && !(b.always && !podReady(o)) {
			return true
		}
	}
	return covering > 1
}

func toleratesDisruption(t corev1.Toleration) bool {
	return world.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: world.Effect(t.Effect)}.Tolerates(disruptedTaint[0])
}

// alwaysAllows says whether a budget lets pods go that are not ready.
func alwaysAllows(p *policyv1.PodDisruptionBudget) bool {
	policy := p.Spec.UnhealthyPodEvictionPolicy
	return policy != nil && *policy == policyv1.AlwaysAllow
}

func fullyBlocking(p *policyv1.PodDisruptionBudget) bool {
	if m := p.Spec.MaxUnavailable; m != nil {
		return (m.Type == intstr.Int && m.IntVal == 0) || m.StrVal == "0%"
	}
	if m := p.Spec.MinAvailable; m != nil {
		return m.StrVal == "100%"
	}
	return false
}

// movable says whether the pod wants a new place when its node goes away, and when to ask again if time will change the answer.
func (m *Mirror) movable(o *corev1.Pod, owner string) (ok bool, again time.Time) {
	switch {
	case owner == "DaemonSet" || owner == "Node" || terminal(o):
		return false, time.Time{}
	case o.DeletionTimestamp != nil:
		return owner == "StatefulSet", time.Time{}
	}
	if protected, until := doNotDisrupt(o, m.now); protected {
		return false, until
	}
	return !m.blocked(o), time.Time{}
}

// doNotDisrupt says whether the pod's annotation protects it now, and until when if not for good. A duration counts from the
// start of the pod; what is neither that nor true means nothing.
func doNotDisrupt(o *corev1.Pod, now time.Time) (bool, time.Time) {
	text := o.Annotations[v1.DoNotDisruptAnnotationKey]
	if text == "" || text == "true" {
		return text == "true", time.Time{}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return false, time.Time{}
	}
	if o.Status.StartTime == nil {
		return true, time.Time{}
	}
	until := o.Status.StartTime.Add(d)
	return now.Before(until), until
}
