package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// attached lists the shared volumes that the pods have on their node already.
func attached(pods []*world.Pod, classes []*world.Class) []string {
	var out []string
	for _, p := range pods {
		for _, s := range classes[p.Class].Shared {
			out = append(out, s.Claim)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// unfinished says whether a node that no claim is joined with is one of ours that has not said yet which: its claim stands for
// it meanwhile.
func unfinished(n *corev1.Node) bool {
	ours := n.Labels[v1.NodePoolLabelKey] != "" || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.UnregisteredTaintKey })
	return ours && n.Labels[v1.NodeInitializedLabelKey] != "true" && (n.Spec.ProviderID == "" || n.Labels[corev1.LabelInstanceTypeStable] == "")
}

// withPods is the node that facts describe, with pods on it.
func withPods(facts *world.Node, pods []*world.Pod, classes []*world.Class) *world.Node {
	return &world.Node{
		Name: facts.Name, Claim: facts.Claim, Pool: facts.Pool, Labels: facts.Labels, Taints: facts.Taints, Capacity: facts.Capacity,
		Allocatable: facts.Allocatable, Initialized: facts.Initialized, InFlight: facts.InFlight, Deleting: facts.Deleting, FirstZone: facts.FirstZone, Price: facts.Price, ListPrice: facts.ListPrice, PricedBy: facts.PricedBy,
		Pods: pods, Attached: attached(pods, classes),
	}
}

// sameNode says whether two nodes mean the same to every decision.
func sameNode(a, b *world.Node) bool {
	return a.Name == b.Name && a.Claim == b.Claim && a.Pool == b.Pool && a.Initialized == b.Initialized && a.InFlight == b.InFlight &&
		a.Deleting == b.Deleting && a.FirstZone == b.FirstZone && a.Price == b.Price && a.ListPrice == b.ListPrice && a.PricedBy == b.PricedBy && slices.Equal(a.Pods, b.Pods) && slices.Equal(a.Attached, b.Attached) &&
		slices.Equal(a.Labels, b.Labels) && slices.Equal(a.Taints, b.Taints) && slices.Equal(a.Capacity, b.Capacity) && slices.Equal(a.Allocatable, b.Allocatable)
}
