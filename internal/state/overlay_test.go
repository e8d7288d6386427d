package state

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/engine/world"
)

// overlaidLab is a lab whose mirror reads overlays, with a pool and a node of it.
func overlaidLab(t *testing.T) (l *lab, pool *v1.NodePool, claim *v1.NodeClaim) {
	t.Helper()
	l = newLab()
	l.Mirror = NewMirror(MirrorOptions{Options: Options{NodeOverlays: true}, Types: sampleTypes, Now: l.Mirror.opt.Now})
	pool = &v1.NodePool{ObjectMeta: l.meta("general")}
	pool.Namespace = ""
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "g", Kind: "k", Name: "default"}
	claim = &v1.NodeClaim{ObjectMeta: l.meta("n1")}
	claim.Labels = map[string]string{v1.NodePoolLabelKey: "general", corev1.LabelInstanceTypeStable: "small", corev1.LabelTopologyZone: "a", v1.CapacityTypeLabelKey: "spot"}
	claim.Spec.NodeClassRef = &v1.NodeClassReference{Group: "g", Kind: "k", Name: "default"}
	claim.Status.ProviderID, claim.Status.Allocatable = "p/n1", amounts("2", "7Gi")
	claim.Status.Capacity = claim.Status.Allocatable
	l.Put(pool)
	l.Put(claim)
	return l, pool, claim
}

func (l *lab) overlay(name string, change func(*v1alpha1.NodeOverlaySpec)) *v1alpha1.NodeOverlay {
	o := &v1alpha1.NodeOverlay{ObjectMeta: l.meta(name)}
	change(&o.Spec)
	return o
}

func TestP92_P96_AChangeIsInTheNextView(t *testing.T) {
	l, pool, claim := overlaidLab(t)
	price := func() (float64, string) {
		n := l.View().Claim("n1").World
		return n.Price, n.PricedBy
	}
	if p, by := price(); p != 1 || by != "" {
		t.Errorf("without overlays %v by %q", p, by)
	}
	o := l.overlay("half", func(s *v1alpha1.NodeOverlaySpec) { s.PriceAdjustment = new("-50%") })
	l.Put(o)
	if p, by := price(); p != 0.5 || by != "half" || l.View().Pool("general").World.Types[0].Offerings[0].ListPrice != 1 {
		t.Errorf("with a discount %v by %q", p, by)
	}
	before := l.View()
	l.Put(again(l, o, func(o *v1alpha1.NodeOverlay) { o.Status.Conditions = []v1.Condition{{Type: "Ready"}} }))
	if after := l.View(); after.World != before.World || after.Overlays[0].Object == before.Overlays[0].Object {
		t.Error("a status makes decisions anew, or is not seen")
	}
	if claim := again(l, claim, func(c *v1.NodeClaim) { delete(c.Labels, v1.NodePoolLabelKey) }); true {
		l.Put(claim)
	}
	if p, _ := price(); p != 1 {
		t.Errorf("a stand-alone claim costs %v", p)
	}
	l.Put(again(l, claim, func(*v1.NodeClaim) {}))
	if p, _ := price(); p != 0.5 {
		t.Errorf("a claim with a pool costs %v", p)
	}
	l.Drop(pool)
	if p, _ := price(); p != 1 {
		t.Errorf("without its pool it costs %v", p)
	}
	l.Put(again(l, pool, func(*v1.NodePool) {}))
	l.Drop(o)
	if p, by := price(); p != 1 || by != "" || len(l.View().Overlays) != 0 {
		t.Errorf("in the end %v by %q", p, by)
	}
}

func TestA45_WhatAnInstanceHasWithOverlays(t *testing.T) {
	l, _, claim := overlaidLab(t)
	if _, _, ok := l.Overlaid(claim); ok {
		t.Error("overlaid without overlays")
	}
	l.Put(l.overlay("pages", func(s *v1alpha1.NodeOverlaySpec) {
		s.Requirements = []v1alpha1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: []string{"small"}}}
		s.Capacity = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("2Gi"), "example.com/fuse": resource.MustParse("3")}
	}))
	names, list, ok := l.Overlaid(claim)
	if small := findType(list, "small"); !ok || len(small.Added) != 2 || small.Allocatable.Get(world.Memory) != 5<<30 || names[small.Added[0].Resource] == "" {
		t.Fatalf("%v %+v", ok, small)
	}
	capacity, allocatable := l.Extended(claim, "small", claim.Status.Capacity, claim.Status.Allocatable)
	fuse, pages, memory, whole := capacity["example.com/fuse"], allocatable["hugepages-2Mi"], allocatable["memory"], capacity["memory"]
	if fuse.Value() != 3 || pages.String() != "2Gi" || memory.String() != "5Gi" || whole.String() != "7Gi" || len(claim.Status.Capacity) != 2 {
		t.Errorf("capacity %v, allocatable %v", capacity, allocatable)
	}
	if capacity, _ := l.Extended(claim, "large", claim.Status.Capacity, claim.Status.Allocatable); len(capacity) != 2 {
		t.Errorf("another type has %v", capacity)
	}
	claim = again(l, claim, func(c *v1.NodeClaim) { c.Spec.NodeClassRef.Name = "older" })
	if _, list, ok := l.Overlaid(claim); !ok || len(findType(list, "small").Added) != 2 {
		t.Error("a claim of the class that the pool had before has no overlays")
	}
}

func TestA47_OverlaysWithoutTheGateAreNotRead(t *testing.T) {
	l := newLab()
	l.Put(l.overlay("half", func(s *v1alpha1.NodeOverlaySpec) { s.PriceAdjustment = new("odd") }))
	if v := l.View(); len(v.Overlays)+len(v.Problems) > 0 {
		t.Errorf("%v %v", v.Overlays, v.Problems)
	}
}
