package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state/dump"
	"karpenter/internal/state/trim"
)

// Idle are the pods that are neither finished nor bound nor pending: gated, or not looked at by the scheduler yet.
func (v *View) Idle() []*corev1.Pod { return v.sources.idle }

// dump.Objects lists everything that the view was made from, each list in order of namespace and name. The objects are shared and must not
// be changed.
func (v *View) Objects() *dump.Objects {
	from := v.sources
	o := &dump.Objects{
		Pods: slices.Clone(from.idle), Nodes: slices.Clone(from.nodes), Claims: slices.Clone(from.claims), Ignored: map[string]int{},
		DaemonSets: sorted(from.daemons), Volumes: sorted(from.volumes), VolumeUses: sorted(from.uses), Storage: sorted(from.storage),
		CSINodes: sorted(from.csiNodes), Namespaces: sorted(from.spaces), Services: sorted(from.services),
		Controllers: sorted(from.controllers), ReplicaSets: sorted(from.replicaSets), StatefulSet: sorted(from.statefulSets),
	}
	seated := map[*corev1.Pod]bool{}
	for _, n := range v.Nominees {
		seated[n.Pod] = n.Seated
	}
	for _, part := range v.pods.parts {
		for _, ref := range part {
			pod := ref.pod
			if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "" && !seated[pod] { // it changes nothing, and whoever reads this cannot know that
				c := *pod
				c.Status.NominatedNodeName = ""
				pod = &c
			}
			o.Pods = append(o.Pods, pod)
		}
	}
	for _, n := range v.Nodes {
		if n.Object != nil {
			o.Nodes = append(o.Nodes, n.Object)
		}
		if n.Claim != nil {
			o.Claims = append(o.Claims, n.Claim)
		}
	}
	for _, p := range v.pools {
		o.Pools = append(o.Pools, p.Object)
	}
	for _, list := range v.budgets {
		for _, b := range list {
			o.Budgets = append(o.Budgets, b.obj)
		}
	}
	for _, x := range v.Overlays {
		o.Overlays = append(o.Overlays, x.Object)
	}
	inOrder(o.Pods)
	inOrder(o.Nodes)
	inOrder(o.Claims)
	inOrder(o.Pools)
	inOrder(o.Budgets)
	return o
}

func inOrder[T Object](list []T) {
	slices.SortFunc(list, func(x, y T) int {
		return cmp.Or(strings.Compare(x.GetNamespace(), y.GetNamespace()), strings.Compare(x.GetName(), y.GetName()))
	})
}

func sorted[T Object](list []T) []T {
	list = slices.Clone(list)
	inOrder(list)
	return list
}

// Catalogs is what each node class could launch when the view was made, in text form: what Record.Classes takes. Classes that
// share a list share the catalogue.
func (v *View) Catalogs() map[string]*dump.Catalog {
	out := map[string]*dump.Catalog{}
	var done []string
	for _, class := range slices.Sorted(maps.Keys(v.sources.types)) {
		t := v.sources.types[class]
		for _, other := range done {
			if o := v.sources.types[other]; len(t.list) > 0 && t.err == nil && o.err == nil && trim.SameSlice(o.list, t.list) {
				out[class] = out[other]
			}
		}
		if out[class] == nil {
			out[class] = dump.NewCatalog(v.sources.resources, t.list)
			if t.err != nil {
				out[class].Error = t.err.Error()
			}
			done = append(done, class)
		}
	}
	return out
}

// Leaving names the claims that were about to be deleted when the view was made, and did not show it yet.
func (v *View) Leaving() []string {
	var out []string
	for _, n := range v.Nodes {
		if n.World.Deleting && n.Claim != nil && n.Claim.DeletionTimestamp == nil && !disrupted(n.Object) {
			out = append(out, n.Claim.Name)
		}
	}
	return out
}

// disrupted says whether the node itself shows that it is on its way out.
func disrupted(n *corev1.Node) bool {
	return n != nil && (n.DeletionTimestamp != nil || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey }))
}
