package state

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestP1_WhatTheSchedulerFoundOfOnePodGoesForItsKin: pods that one owner has made alike need nodes once the scheduler has refused one of
// them, although it has not come to the others.
func TestP1_WhatTheSchedulerFoundOfOnePodGoesForItsKin(t *testing.T) {
	l := newLab()
	of := func(p *corev1.Pod, owner string) *corev1.Pod {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: &yes}}
		return p
	}
	unseen := func(p *corev1.Pod) *corev1.Pod { p.Status.Conditions = nil; return p }
	larger := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Containers[0].Resources.Requests = amounts("2", "1Gi")
		return p
	}
	a, b := of(l.pod("a", ""), "web"), unseen(of(l.pod("b", ""), "web"))
	check(t, l.put(unseen(a.DeepCopy()), b), "")
	if n := len(l.View().Idle()); n != 2 {
		t.Errorf("%d pods that take no part, want 2", n)
	}
	a = again(l, a, func(p *corev1.Pod) { p.Status = l.pod("", "").Status })
	gated := unseen(of(l.pod("gated", ""), "web"))
	gated.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: corev1.PodReasonSchedulingGated}}
	leaving := unseen(of(l.pod("leaving", ""), "web"))
	gone := at(0)
	leaving.DeletionTimestamp = &gone
	check(t, l.put(a, gated, leaving, larger(unseen(of(l.pod("larger", ""), "web"))), unseen(of(l.pod("other", ""), "api")), unseen(l.pod("nobodys", ""))), "pending a; pending b")
	c := unseen(of(l.pod("c", ""), "web"))
	check(t, l.put(c), "pending a; pending b; pending c")

	// One that is bound says nothing of the others, and is no more in need itself.
	check(t, l.put(again(l, c, func(p *corev1.Pod) { p.Spec.NodeName = "host-1" }), l.roomy("host-1", "cloud/1")), "host-1 c; pending a; pending b")
	check(t, l.put(again(l, b, func(p *corev1.Pod) { p.Status.NominatedNodeName = "host-1" })), "host-1 b c; pending a")
	check(t, l.put(again(l, b, func(*corev1.Pod) {})), "host-1 c; pending a; pending b")
	if n := len(l.View().Idle()); n != 5 {
		t.Errorf("%d pods that take no part, want 5", n)
	}
	// The verdict outlives the one that was refused, also in a view that is made again, until the scheduler has come to the others.
	l.Drop(a)
	check(t, l.View(), "host-1 c; pending b")
	v := l.View()
	again1, _ := Rebuild(v.Objects(), Record{Shared: v.Shared(), Now: l.now})
	check(t, again1, "host-1 c; pending b")
	l.Drop(b)
	check(t, l.View(), "host-1 c")
	check(t, l.put(unseen(of(l.pod("later", ""), "web"))), "host-1 c")
	if len(l.kins.of) != 3 { // later, larger, other
		t.Errorf("%d kin are remembered", len(l.kins.of))
	}
}
