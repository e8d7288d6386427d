package state

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
)

func TestP114_JoinByInstance(t *testing.T) {
	l := newLab()
	c := l.launched(l.claim("general-1"), "cloud/1")
	check(t, l.put(c), "general-1(general-1) in flight")
	check(t, l.put(l.node("host-1", "cloud/1"), l.pod("p", "host-1")), "host-1(general-1) p")
	v := l.View()
	if n := v.Node("host-1"); n == nil || n != v.Claim("general-1") || n.Object.Name != "host-1" || len(n.Pods) != 1 || v.Pod("uid-p") != n.Pods[0] {
		t.Errorf("lookups give %+v", n)
	}
	if v.Node("general-1") != nil || v.Claim("host-1") != nil || v.Pod("nobody") != nil || v.Pool("none") != nil {
		t.Error("something is found that is not there")
	}
	l.Drop(c)
	check(t, l.View(), "host-1 p")
	l.Drop(l.node("host-1", "cloud/1"))
	check(t, l.View(), "! Node host-1")
	if text := l.View().Problems[0].Text; !strings.Contains(text, "pods are bound to it (1)") {
		t.Error(text)
	}
}

func TestP115_OurNodesWithoutIdentityWait(t *testing.T) {
	l := newLab()
	label := func(n *corev1.Node) { n.Labels = map[string]string{v1.NodePoolLabelKey: "general"} }
	c := l.claim("general-1")
	check(t, l.put(c, again(l, l.node("host-1", ""), label)), "general-1(general-1) in flight")
	check(t, l.put(again(l, l.node("host-1", "cloud/1"), label)), "general-1(general-1) in flight") // no instance type yet
	check(t, l.put(l.launched(c, "cloud/1")), "host-1(general-1)")
	check(t, l.put(l.node("foreign", "")), "foreign; host-1(general-1)")
}

func TestP116_W1_NothingHoldsEverythingUp(t *testing.T) {
	l := newLab()
	if l.Synced() {
		t.Error("synced before anything was said")
	}
	l.SetSynced()
	v := l.put(l.claim("stuck"), l.pod("p", ""), l.node("host-1", "cloud/1"))
	if !l.Synced() {
		t.Error("a claim without an instance holds everything up")
	}
	check(t, v, "host-1; stuck(stuck) in flight; pending p")
}

func TestP116_WriteFence(t *testing.T) {
	l := newLab()
	before := l.node("host-1", "cloud/1")
	l.put(before, l.launched(l.claim("general-1"), "cloud/1"))
	late := again(l, before, func(n *corev1.Node) { n.Labels = map[string]string{"by": "kubelet"} })
	written := again(l, late, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{v1.DisruptedTaint()} })
	l.Wrote(written)
	written.Spec.Taints = nil // by whoever owns the object
	check(t, l.View(), "host-1(general-1) leaving")
	check(t, l.put(late), "host-1(general-1) leaving")
	check(t, l.put(again(l, late, func(*corev1.Node) {})), "host-1(general-1)")
	// What the mirror does not know may have been seen to go: a write does not bring it back.
	l.Wrote(l.node("ghost", "cloud/9"))
	l.Wrote(l.claim("ghost"))
	l.Wrote(l.pod("ghost", ""))
	check(t, l.View(), "host-1(general-1)")
	// A claim that was created and written to before any watch has shown it is still only assumed.
	c := l.claim("general-2")
	l.Assume(c)
	l.Wrote(l.launched(c, "cloud/2"))
	check(t, l.put(c), "host-1(general-1); general-2(general-2) in flight")
	if n := l.View().Claim("general-2"); n.Assumed || n.Claim.Status.ProviderID != "cloud/2" {
		t.Error("an older version has won")
	}
}

func TestP116_WhatComesBackTakesTheCopysPlace(t *testing.T) {
	l := newLab()
	node, c := l.node("host-1", "cloud/1"), l.launched(l.claim("general-1"), "cloud/1")
	l.put(node, c)
	node = again(l, node, func(n *corev1.Node) { n.Labels = map[string]string{"by": "us"} })
	c = again(l, c, func(c *v1.NodeClaim) { c.Status.NodeName = "host-1" })
	l.Wrote(node)
	l.Wrote(c)
	before := l.View()
	if n := before.Node("host-1"); n.Object == node || n.Claim == c {
		t.Error("what was written is not copied")
	}
	after := l.put(node, c)
	if n := after.Node("host-1"); n.Object != node || n.Claim != c || after.Claim("general-1") != n {
		t.Error("the copies of what the informer has shown are kept")
	}
	if after.World != before.World {
		t.Error("decisions would be made again")
	}
	if l.put(node, c) != after {
		t.Error("the same again is news")
	}
	// One that was assumed until then.
	c = l.claim("general-2")
	l.Assume(c)
	if n := l.put(c).Claim("general-2"); n.Claim != c || n.Assumed {
		t.Error("the copy of what was assumed is kept")
	}
}

func TestP117_PodsUnderOneName(t *testing.T) {
	l := newLab()
	l.put(l.node("host-1", ""), l.node("host-2", ""))
	old := l.pod("p", "host-1")
	check(t, l.put(old), "host-1 p; host-2")
	young := again(l, old, func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "other", "host-2" })
	check(t, l.put(young), "host-1; host-2 p") // and nobody said that the first had gone
	l.Drop(old)
	check(t, l.put(old), "host-1; host-2 p")
	v := l.View()
	if v.Pod(old.UID) != nil || v.Pod("other") == nil {
		t.Error("the pods are mixed up")
	}
	l.Drop(young)
	check(t, l.View(), "host-1; host-2")
	check(t, l.put(young), "host-1; host-2 p") // a list that was behind has taken it away by mistake
}

func TestP117_InstancesAndNames(t *testing.T) {
	t.Run("a node that shows another claim's instance is not joined", func(t *testing.T) {
		l := newLab()
		c := l.launched(l.claim("general-1"), "cloud/1")
		c.Status.NodeName = "host-1"
		l.put(c, l.node("host-1", "cloud/1"))
		liar := again(l, l.node("aaa", "cloud/1"), func(n *corev1.Node) {
			n.Labels = map[string]string{v1.NodePoolLabelKey: "general", v1.NodeInitializedLabelKey: "true"}
		})
		v := l.put(liar)
		check(t, v, "aaa; host-1(general-1); ! Node aaa")
		if v.Node("aaa").World.Pool != "" || v.Usage("general").Nodes != 1 {
			t.Error("the pool is charged for the liar")
		}
		l.Drop(liar)
		check(t, l.View(), "host-1(general-1)")
	})
	t.Run("of two nodes with one instance the older is joined", func(t *testing.T) {
		l := newLab()
		old, young := l.node("zzz", "cloud/1"), l.node("aaa", "cloud/1")
		young.CreationTimestamp = at(5)
		check(t, l.put(young, old, l.launched(l.claim("general-1"), "cloud/1")), "aaa; zzz(general-1); ! Node aaa")
		l.Drop(old)
		check(t, l.View(), "aaa(general-1)")
	})
	t.Run("of two claims with one instance the older counts", func(t *testing.T) {
		l := newLab()
		young := l.launched(l.claim("aaa"), "cloud/1")
		young.CreationTimestamp = at(5)
		old := l.launched(l.claim("zzz"), "cloud/1")
		check(t, l.put(young, old, l.node("host-1", "cloud/1")), "host-1(zzz); ! NodeClaim aaa")
		l.Drop(old)
		check(t, l.View(), "host-1(aaa)")
	})
	t.Run("an instance that changes", func(t *testing.T) {
		l := newLab()
		c := l.launched(l.claim("general-1"), "cloud/1")
		check(t, l.put(l.node("host-1", "cloud/1"), l.node("host-2", "cloud/2"), c), "host-1(general-1); host-2")
		check(t, l.put(l.launched(c, "cloud/2")), "host-1; host-2(general-1)")
		check(t, l.put(again(l, l.node("host-2", "cloud/3"), func(*corev1.Node) {})), "host-1; host-2; general-1(general-1) in flight")
	})
	t.Run("a node and a claim of one name", func(t *testing.T) {
		l := newLab()
		v := l.put(l.node("same", ""), l.claim("same"))
		check(t, v, "same; same(same) in flight")
		if v.Node("same").Claim != nil || v.Claim("same").Object != nil {
			t.Error("they are mixed up")
		}
	})
	t.Run("a node that is late has its pods on the claim", func(t *testing.T) {
		l := newLab()
		c := l.launched(l.claim("general-1"), "cloud/1")
		c.Status.NodeName = "host-1"
		check(t, l.put(c, l.pod("p", "host-1")), "general-1(general-1) in flight p")
		check(t, l.put(l.node("host-1", "cloud/1")), "host-1(general-1) p")
	})
}
