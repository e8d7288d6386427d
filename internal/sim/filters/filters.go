// Package filters says which nodes kube-scheduler would accept for a pod, as far as the simulator's pods have rules: resources, taints,
// required node affinity, hard topology spread, and required anti-affinity. kube/oracle holds it against kube-scheduler's own filters.
package filters

import (
	"math"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"
	corehelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Takes says which nodes the filters allow for a pod beside those that have a node.
func Takes(pod *corev1.Pod, nodes []*corev1.Node, others []*corev1.Pod) func(*corev1.Node) bool {
	used := map[string]corev1.ResourceList{}
	for _, other := range others {
		node := other.Spec.NodeName
		if used[node] == nil {
			used[node] = corev1.ResourceList{}
		}
		for name, q := range Needs(other) {
			sum := used[node][name]
			sum.Add(q)
			used[node][name] = sum
		}
	}
	asks, allowed := Needs(pod), Neighbours(pod, nodes, others)
	return func(node *corev1.Node) bool { return Fits(pod, asks, node, used[node.Name]) && allowed(node) }
}

// Fits says whether kube-scheduler would accept a node for a pod, as far as its resources, taints and required node affinity go.
func Fits(pod *corev1.Pod, asks corev1.ResourceList, node *corev1.Node, used corev1.ResourceList) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for name, q := range asks {
		left := node.Status.Allocatable[name]
		left.Sub(used[name])
		if left.Cmp(q) < 0 {
			return false
		}
	}
	for i := range node.Status.Conditions {
		if c := node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return false
		}
	}
	if _, untolerated := corehelper.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, false); untolerated {
		return false
	}
	if pod.Spec.NodeSelector == nil && pod.Spec.Affinity == nil {
		// any node will do
	} else if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !ok {
		return false
	}
	return true
}

// Needs is what a pod takes of a node.
func Needs(pod *corev1.Pod) corev1.ResourceList {
	out := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	out[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return out
}

// Choosy says whether a pod has rules about others.
func Choosy(pod *corev1.Pod) bool { return len(hardSpread(pod)) > 0 || len(antiAffinity(pod)) > 0 }

// Neighbours says which nodes the filters about other pods allow for a pod.
func Neighbours(pod *corev1.Pod, nodes []*corev1.Node, others []*corev1.Pod) func(*corev1.Node) bool {
	rules := append(spreadRules(pod, nodes, others), antiAffinityRule(pod, nodes, others))
	return func(node *corev1.Node) bool {
		return !slices.ContainsFunc(rules, func(allows func(*corev1.Node) bool) bool { return !allows(node) })
	}
}

func hardSpread(pod *corev1.Pod) (out []corev1.TopologySpreadConstraint) {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			out = append(out, c)
		}
	}
	return out
}

func antiAffinity(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// spreadRules are those of hard topology spread. Domains are those of nodes that have all keys and match the pod's node affinity, tainted or
// not; pods that are being deleted do not count.
func spreadRules(pod *corev1.Pod, nodes []*corev1.Node, others []*corev1.Pod) (out []func(*corev1.Node) bool) {
	constraints := hardSpread(pod)
	domains := make([]map[string]int, len(constraints))
	at := make([]map[string]string, len(constraints)) // the domain of a node that counts
	for i := range constraints {
		domains[i], at[i] = map[string]int{}, map[string]string{}
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, node := range nodes {
		if slices.ContainsFunc(constraints, func(c corev1.TopologySpreadConstraint) bool { _, has := node.Labels[c.TopologyKey]; return !has }) {
			continue
		}
		if ok, err := required.Match(node); err != nil || !ok {
			continue
		}
		for i, c := range constraints {
			domains[i][node.Labels[c.TopologyKey]] += 0
			at[i][node.Name] = node.Labels[c.TopologyKey]
		}
	}
	for i, c := range constraints {
		selector, own := selectorOf(c.LabelSelector), 0
		for _, other := range others {
			if domain, counts := at[i][other.Spec.NodeName]; counts && other.DeletionTimestamp == nil && other.Namespace == pod.Namespace && selector.Matches(labels.Set(other.Labels)) {
				domains[i][domain]++
			}
		}
		if selector.Matches(labels.Set(pod.Labels)) {
			own = 1
		}
		least := math.MaxInt
		for _, n := range domains[i] {
			least = min(least, n)
		}
		out = append(out, func(node *corev1.Node) bool {
			domain, has := node.Labels[c.TopologyKey]
			return has && domains[i][domain]+own-least <= int(c.MaxSkew)
		})
	}
	return out
}

// antiAffinityRule is that of required anti-affinity in the own namespace. Pods that are being deleted count until they are gone.
func antiAffinityRule(pod *corev1.Pod, nodes []*corev1.Node, others []*corev1.Pod) func(*corev1.Node) bool {
	type domain struct{ key, value string }
	taken := map[domain]bool{}
	where := map[string]*corev1.Node{}
	for _, node := range nodes {
		where[node.Name] = node
	}
	take := func(key string, of *corev1.Pod) {
		if node := where[of.Spec.NodeName]; node != nil {
			if value, has := node.Labels[key]; has {
				taken[domain{key, value}] = true
			}
		}
	}
	for _, other := range others {
		if other.Namespace != pod.Namespace {
			continue
		}
		for _, term := range antiAffinity(pod) {
			if selectorOf(term.LabelSelector).Matches(labels.Set(other.Labels)) {
				take(term.TopologyKey, other)
			}
		}
		for _, term := range antiAffinity(other) {
			if selectorOf(term.LabelSelector).Matches(labels.Set(pod.Labels)) {
				take(term.TopologyKey, other)
			}
		}
	}
	return func(node *corev1.Node) bool {
		for d := range taken {
			if value, has := node.Labels[d.key]; has && value == d.value {
				return false
			}
		}
		return true
	}
}

// selectorOf is a selector of an object that the API server has accepted.
func selectorOf(s *metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}
