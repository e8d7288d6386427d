package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// Costs is what namespaces and workloads cost: of each node the share that their pods' requests have in all requests on it. What nobody
// requests is paid for by those who are on the node, so that the sums are what the nodes cost; nodes without pods are Empty.
type Costs struct {
	Type
	At         time.Time   `json:"at"`
	Namespaces []CostShare `json:"namespaces"`
	Workloads  []CostShare `json:"workloads"`
	Empty      float64     `json:"emptyNodesPerHour"`
}

// CostShare is the part of a namespace, or of a workload in it.
type CostShare struct {
	Namespace string `json:"namespace"`
	// Kind and Name are those of the workload: a Deployment where a ReplicaSet belongs to one; Pod for pods that nothing owns.
	Kind  string  `json:"kind,omitempty"`
	Name  string  `json:"name,omitempty"`
	Pods  int     `json:"podCount"`
	Price float64 `json:"pricePerHour"`
}

// Shares is the part of each pod in what a node is paid for: that of its requests in all of theirs, the mean of CPU and memory. They add
// up to 1.
func Shares(s *world.Snapshot, pods []*world.Pod) []float64 {
	out := make([]float64, len(pods))
	counted := 0
	for _, resource := range []int{world.CPU, world.Memory} {
		var all int64
		for _, p := range pods {
			all += s.Classes[p.Class].Requests.Get(resource)
		}
		if all == 0 {
			continue
		}
		counted++
		for i, p := range pods {
			out[i] += float64(s.Classes[p.Class].Requests.Get(resource)) / float64(all)
		}
	}
	for i := range out {
		if counted == 0 {
			out[i] = 1 / float64(len(out))
		} else {
			out[i] /= float64(counted)
		}
	}
	return out
}

// NewCosts reads a view.
func NewCosts(v *state.View, now time.Time) *Costs {
	c := &Costs{Type: TypeOf(KindCostList), At: now.UTC()}
	spaces, works := map[CostShare]*CostShare{}, map[CostShare]*CostShare{}
	for _, n := range v.Nodes {
		pods := n.World.Pods
		if len(pods) == 0 {
			c.Empty += n.World.Price
			continue
		}
		objects := make(map[string]*corev1.Pod, len(n.Pods))
		for _, p := range n.Pods {
			objects[cmp.Or(p.Namespace, corev1.NamespaceDefault)+"/"+p.Name] = p
		}
		for i, share := range Shares(v.World, pods) {
			space := v.World.Classes[pods[i].Class].Namespace
			kind, name := owner(objects[v.World.PodName(pods[i])], pods[i].Name)
			for _, x := range []struct {
				of  map[CostShare]*CostShare
				key CostShare
			}{{spaces, CostShare{Namespace: space}}, {works, CostShare{Namespace: space, Kind: kind, Name: name}}} {
				if x.of[x.key] == nil {
					one := x.key
					x.of[x.key] = &one
				}
				x.of[x.key].Pods++
				x.of[x.key].Price += share * n.World.Price
			}
		}
	}
	c.Namespaces, c.Workloads = dearest(spaces), dearest(works)
	return c
}

// owner is the workload that a pod belongs to. A Deployment owns pods through a ReplicaSet, whose name is its own and the hash of the
// template, which pods carry as a label.
func owner(p *corev1.Pod, podName string) (kind, name string) {
	if p == nil {
		return "Pod", podName
	}
	for i := range p.OwnerReferences {
		r := &p.OwnerReferences[i]
		if r.Controller == nil || !*r.Controller {
			continue
		}
		if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; r.Kind == "ReplicaSet" && hash != "" {
			if deployment, ok := strings.CutSuffix(r.Name, "-"+hash); ok {
				return "Deployment", deployment
			}
		}
		return r.Kind, r.Name
	}
	return "Pod", podName
}

func dearest(shares map[CostShare]*CostShare) []CostShare {
	out := make([]CostShare, 0, len(shares))
	for _, s := range shares {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b CostShare) int {
		return cmp.Or(cmp.Compare(b.Price, a.Price), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return out
}
