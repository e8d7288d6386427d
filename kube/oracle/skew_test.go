package oracle

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"karpenter/internal/engine/pack"
	engine "karpenter/internal/engine/world"
)

// site is the cluster as it could be: one node of every kind that the pools can make, with nothing but daemons on it. The filters
// take a spread's minimum over the nodes that are there, and do not mind if all pods are in the one zone that has any. What
// a pod could have is a domain too, whatever it prefers.
type site struct {
	judge *Judge
	nodes []*corev1.Node
}

func (w *world) newSite(ctx context.Context, snapshot *engine.Snapshot) (*site, error) {
	s := &site{}
	var daemons []*corev1.Pod
	for _, pool := range snapshot.Pools {
		offers, open := pool.Offers()
		tiers := []engine.Labels{pool.Labels}
		if len(open) > 0 { // the only key that a pool leaves open
			tiers = []engine.Labels{pool.Labels.With(open[0], "gold"), pool.Labels.With(open[0], "silver")}
		}
		for _, o := range offers {
			for _, tier := range tiers {
				if !o.Offering.Available {
					continue
				}
				like := &pack.NewNode{Name: fmt.Sprint("could-be-", len(s.nodes)), Pool: pool, Labels: tier}
				n := launch(snapshot, like, pack.Choice{Type: o.Type, Offering: o.Offering})
				s.nodes = append(s.nodes, n)
				daemons = append(daemons, w.daemonsOn(n, w.daemons...)...)
			}
		}
	}
	var err error
	s.judge, err = NewJudge(ctx, s.nodes, daemons, w.others)
	return s, err
}

// domains lists the values of a label on the nodes that could be made for a pod.
func (s *site) domains(ctx context.Context, pod *corev1.Pod, key string) ([]string, error) {
	alone := pod.DeepCopy() // by what it asks of its node, not of the pods around it
	alone.Spec.NodeName, alone.Spec.Affinity.PodAffinity, alone.Spec.Affinity.PodAntiAffinity = "", nil, nil
	var out []string
	for _, n := range s.nodes {
		if !hasKeys(pod, n) {
			continue
		}
		refusal, err := s.judge.Refuses(ctx, alone, n.Name)
		if err != nil {
			return nil, err
		}
		if v, ok := n.Labels[key]; ok && refusal == "" {
			out = append(out, v)
		}
	}
	return out, nil
}

// hasKeys says whether a node has the labels of every spread that is required: others do not count.
func hasKeys(pod *corev1.Pod, n *corev1.Node) bool {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if _, ok := n.Labels[c.TopologyKey]; !ok && c.WhenUnsatisfiable == corev1.DoNotSchedule {
			return false
		}
	}
	return true
}

// skew says which required spreads a pod breaks on a new node, over every domain that it could have had.
func (c *carried) skew(ctx context.Context, w *world, pod *corev1.Pod) (breaches []string, err error) {
	for i := range pod.Spec.TopologySpreadConstraints {
		x := &pod.Spec.TopologySpreadConstraints[i]
		selector, ok := spreadSelector(pod, x)
		if x.WhenUnsatisfiable != corev1.DoNotSchedule || x.TopologyKey == corev1.LabelHostname || !ok {
			continue
		}
		if c.site == nil {
			if c.site, err = w.newSite(ctx, c.snapshot); err != nil {
				return nil, err
			}
		}
		reach, err := c.site.domains(ctx, pod, x.TopologyKey)
		if err != nil {
			return nil, err
		}
		count := map[string]int32{}
		for _, v := range reach {
			count[v] = 0
		}
		var own string
		for _, n := range c.nodes {
			if n.Name == pod.Spec.NodeName {
				own = n.Labels[x.TopologyKey]
			}
			if !counts(pod, x, n) {
				continue
			}
			count[n.Labels[x.TopologyKey]] += 0
			for _, p := range c.on[n.Name] {
				if p.Namespace == pod.Namespace && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
					count[n.Labels[x.TopologyKey]]++
				}
			}
		}
		least := count[own]
		for _, n := range count {
			least = min(least, n)
		}
		if x.MinDomains != nil && int(*x.MinDomains) > len(count) {
			least = 0
		}
		there := count[own]
		if selector.Matches(labels.Set(pod.Labels)) {
			there++
		}
		if there-least > x.MaxSkew {
			breaches = append(breaches, fmt.Sprintf("%s on %s: %d in %s %s, least %d of %v", pod.Name, pod.Spec.NodeName, there, x.TopologyKey, own, least, count))
		}
	}
	return breaches, nil
}

// counts says whether a spread counts the pods of a node.
func counts(pod *corev1.Pod, x *corev1.TopologySpreadConstraint, n *corev1.Node) bool {
	if !hasKeys(pod, n) {
		return false
	}
	if x.NodeAffinityPolicy == nil || *x.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor {
		if match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n); err != nil || !match {
			return false
		}
	}
	if x.NodeTaintsPolicy != nil && *x.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor {
		_, bad := schedulinghelper.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		}, false)
		return !bad
	}
	return true
}

// spreadSelector is which pods a spread counts. Empty selectors count none.
func spreadSelector(pod *corev1.Pod, x *corev1.TopologySpreadConstraint) (labels.Selector, bool) {
	if x.LabelSelector == nil {
		return nil, false
	}
	like := x.LabelSelector.DeepCopy()
	for _, key := range x.MatchLabelKeys {
		like.MatchExpressions = append(like.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{pod.Labels[key]}})
	}
	selector, err := metav1.LabelSelectorAsSelector(like)
	return selector, err == nil && !selector.Empty()
}
