package state

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
)

// putInto adds an object. One of a kind that planning does not read is left out.
func putInto(o *dump.Objects, obj Object) {
	switch x := obj.(type) {
	case *corev1.Pod:
		o.Pods = append(o.Pods, x)
	case *corev1.Node:
		o.Nodes = append(o.Nodes, x)
	case *v1.NodeClaim:
		o.Claims = append(o.Claims, x)
	case *v1.NodePool:
		o.Pools = append(o.Pools, x)
	case *v1alpha1.NodeOverlay:
		o.Overlays = append(o.Overlays, x)
	case *appsv1.DaemonSet:
		o.DaemonSets = append(o.DaemonSets, x)
	case *policyv1.PodDisruptionBudget:
		o.Budgets = append(o.Budgets, x)
	case *corev1.PersistentVolumeClaim:
		o.VolumeUses = append(o.VolumeUses, x)
	case *corev1.PersistentVolume:
		o.Volumes = append(o.Volumes, x)
	case *storagev1.StorageClass:
		o.Storage = append(o.Storage, x)
	case *storagev1.CSINode:
		o.CSINodes = append(o.CSINodes, x)
	case *corev1.Namespace:
		o.Namespaces = append(o.Namespaces, x)
	case *corev1.Service:
		o.Services = append(o.Services, x)
	case *appsv1.ReplicaSet:
		o.ReplicaSets = append(o.ReplicaSets, x)
	case *appsv1.StatefulSet:
		o.StatefulSet = append(o.StatefulSet, x)
	}
}

// rebuilt builds everything anew from objects and says where the mirror differs.
func (m *Mirror) rebuilt(objects *dump.Objects) []Difference {
	other := NewMirror(MirrorOptions{Options: m.opt.Options, Types: m.opt.Types, Now: m.opt.Now})
	other.kins.remember(m.View().Shared())
	other.load(objects)
	return compare(newTeller(m.View().World), newTeller(other.View().World))
}

// compare tells both snapshots piece by piece.
func compare(ours, theirs *teller) []Difference {
	var out []Difference
	for _, piece := range []func(*teller, func(kind, name string, text func() string)){(*teller).nodes, (*teller).pending, (*teller).pools, (*teller).daemons} {
		have := map[[2]string]func() string{}
		piece(theirs, func(kind, name string, text func() string) { have[[2]string{kind, name}] = text })
		piece(ours, func(kind, name string, text func() string) {
			key := [2]string{kind, name}
			d := Difference{Kind: kind, Name: name, Mirror: text()}
			if other := have[key]; other != nil {
				d.API = other()
				delete(have, key)
			}
			if d.Mirror != d.API {
				out = append(out, d)
			}
		})
		for key, text := range have {
			out = append(out, Difference{Kind: key[0], Name: key[1], API: text()})
		}
	}
	slices.SortFunc(out, func(x, y Difference) int { return strings.Compare(x.Kind+"/"+x.Name, y.Kind+"/"+y.Name) })
	return out
}

func (t *teller) nodes(yield func(kind, name string, text func() string)) {
	for _, n := range t.s.Nodes {
		kind := "Node"
		if n.InFlight {
			kind = "NodeClaim"
		}
		yield(kind, n.Name, func() string { return t.node(n) })
	}
}

func (t *teller) pending(yield func(kind, name string, text func() string)) {
	for _, p := range t.s.Pending {
		yield("Pod", t.s.PodName(p), func() string { return t.pod(p) })
	}
}

func (t *teller) pools(yield func(kind, name string, text func() string)) {
	for _, p := range t.s.Pools {
		yield("NodePool", p.Name, func() string { return t.pool(p) })
	}
}

func (t *teller) daemons(yield func(kind, name string, text func() string)) {
	for _, d := range t.s.Daemons {
		yield("DaemonSet", d.Name, func() string { return t.class(d.Class) })
	}
}

func (t *teller) pool(p *world.Pool) string {
	var limits []string
	for _, l := range p.Limits {
		limits = append(limits, fmt.Sprintf("%s=%d", t.s.Resources[l.Resource], l.Max))
	}
	slices.Sort(limits)
	var b strings.Builder
	fmt.Fprintf(&b, "weight=%d need=%v labels=%v taints=%v provided=%v limits=%v nodes=%d node-cost=%g static=%t replicas=%d refused=%q", p.Weight, p.Need, p.Labels, p.Taints, p.Provided, limits, p.MaxNodes, p.NodeCost, p.Static, p.Replicas, p.Refused)
	for _, x := range p.Types {
		fmt.Fprintf(&b, "\n  %s capacity=%s allocatable=%s", x.Name, t.resources(x.Capacity), t.resources(x.Allocatable))
		for _, o := range x.Offerings {
			fmt.Fprintf(&b, " %s/%s=%g(%g %s)", o.Zone, o.CapacityType, o.Price, o.ListPrice, o.PricedBy)
		}
	}
	return b.String()
}
