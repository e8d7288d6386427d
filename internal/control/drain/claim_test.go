package drain_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

func TestD59_DeletingEitherDeletesBoth(t *testing.T) {
	t.Run("node", func(t *testing.T) {
		w := newWorld(t)
		claim, node := w.pair("n")
		w.delete(node)
		w.finish(node, claim)
		if w.fleet.has(claim.Name) {
			t.Error("the instance is still there")
		}
	})
	t.Run("claim", func(t *testing.T) {
		w := newWorld(t)
		claim, node := w.pair("n")
		w.delete(claim)
		w.finish(node, claim)
		if w.fleet.has(claim.Name) {
			t.Error("the instance is still there")
		}
	})
}

func unregistered(c *karpv1.NodeClaim) {
	c.StatusConditions().SetUnknown(karpv1.ConditionRegistered, karpv1.ReasonNodeNotFound, "", time.Now())
	c.Status.NodeName = ""
}

func TestL21_UnregisteredNodesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	claim := w.claim("n", unregistered)
	node := w.node("n", func(n *corev1.Node) {
		n.Finalizers = nil
		delete(n.Labels, karpv1.NodeRegisteredLabelKey)
	})
	w.delete(claim)
	w.finish(claim)
	if !w.exists(node) {
		t.Error("the node was deleted")
	}
	if w.fleet.has(claim.Name) {
		t.Error("the instance is still there")
	}
}

func TestL21_ClaimsWithoutAnInstance(t *testing.T) {
	unlaunched := func(c *karpv1.NodeClaim) {
		unregistered(c)
		c.Status.ProviderID = ""
	}
	t.Run("never launched", func(t *testing.T) {
		w := newWorld(t)
		claim := w.claim("n", unlaunched)
		w.fleet.vanish(claim.Name)
		w.delete(claim)
		w.finish(claim)
		if len(w.fleet.deletes) != 0 {
			t.Error("something was ended")
		}
	})
	t.Run("launched by a process that could not write it down", func(t *testing.T) {
		w := newWorld(t)
		claim := w.claim("n", unlaunched)
		w.delete(claim)
		w.finish(claim)
		if w.fleet.has(claim.Name) {
			t.Error("S1: the instance is left behind")
		}
	})
	t.Run("launched with others by a process that could not write it down", func(t *testing.T) {
		w := newWorld(t)
		instance := func(n int) string { return fmt.Sprintf("%s-i%d", w.name, n) }
		var claims []*karpv1.NodeClaim
		for i, name := range []string{"stays", "first", "second"} {
			claim := w.claim(name, unlaunched, func(c *karpv1.NodeClaim) { c.Annotations = map[string]string{cloud.BatchAnnotationKey: w.name} })
			w.fleet.vanish(claim.Name)
			w.fleet.add(&cloud.Instance{ID: instance(i), ProviderID: "test:///" + instance(i), Batch: w.name, State: cloud.Running})
			claims = append(claims, claim)
		}
		w.delete(claims[1])
		w.delete(claims[2])
		w.finish(claims[1], claims[2])
		if !w.fleet.has(instance(0)) {
			t.Error("the instance that the other claim will be given was ended")
		}
		if w.fleet.has(instance(1)) || w.fleet.has(instance(2)) {
			t.Error("S1: an instance is left behind")
		}
	})
	t.Run("a cloud that does not answer holds them up for a while only", func(t *testing.T) {
		w := newWorld(t)
		claim := w.claim("n", unlaunched)
		w.fleet.set(func() { w.fleet.fail = errors.New("away") })
		w.delete(claim)
		w.await("event", func() bool { return w.events.Has(claim, "Warning FailedTermination") })
		if !w.exists(claim) {
			t.Error("the claim is gone without an answer")
		}
		w.clock.skip(5 * time.Minute)
		w.finish(claim)
	})
}

// later is a process that has just begun: what the one before it has launched need not show yet.
type later struct{ from time.Time }

func (l later) Ending(*karpv1.NodeClaim) (*cloud.Instance, time.Time, bool) { return nil, l.from, true }

// TestS1_WhatIsThereNeedsNoProof: a claim is deleted whose launch an earlier process could not write down. It stays until a list is proof that
// it has no instance, but an instance that shows before ends at once: the next process may live no longer than this one.
func TestS1_WhatIsThereNeedsNoProof(t *testing.T) {
	w := prepare(t)
	from := time.Now().Add(1000 * time.Hour)
	w.launches = later{from}
	w.start()
	unlaunched := func(c *karpv1.NodeClaim) {
		unregistered(c)
		c.Status.ProviderID = ""
	}
	batch := func(id string) func(c *karpv1.NodeClaim) {
		return func(c *karpv1.NodeClaim) { c.Annotations = map[string]string{cloud.BatchAnnotationKey: w.name + id} }
	}
	add := func(id, batch string) {
		w.fleet.add(&cloud.Instance{ID: id, ProviderID: "test:///" + id, Batch: w.name + batch, State: cloud.Running})
	}
	named, none := w.claim("named", unlaunched), w.claim("none", unlaunched)
	spare, waits, stays := w.claim("spare", unlaunched, batch("a")), w.claim("waits", unlaunched, batch("b")), w.claim("stays", unlaunched, batch("b"))
	for _, c := range []*karpv1.NodeClaim{none, spare, waits, stays} {
		w.fleet.vanish(c.Name)
	}
	for id, batch := range map[string]string{"a-0": "a", "b-0": "b", "b-1": "b"} {
		add(w.name+id, batch)
	}
	for _, c := range []*karpv1.NodeClaim{named, none, spare, waits} {
		w.delete(c)
	}
	for _, c := range []*karpv1.NodeClaim{named, spare} { // with a new list at every look, as when there are many claims or little CPU
		w.pass(20*time.Second, "the end of "+c.Name, func() bool { return !w.exists(c) })
	}
	if w.fleet.has(named.Name) || w.fleet.has(w.name+"a-0") {
		t.Error("S1: an instance is left behind")
	}
	listed := w.fleet.listed()
	w.pass(time.Second, "more lists", func() bool { return w.fleet.listed() > listed+2 })
	if !w.exists(none) {
		t.Error("the claim is gone although the instance of it may still show")
	}
	if !w.exists(waits) || !w.fleet.has(w.name+"b-0") || !w.fleet.has(w.name+"b-1") {
		t.Error("an instance has ended that the claim which stays may have got")
	}
	w.clock.skipTo(from.Add(time.Second))
	w.finish(none, waits)
	if !w.fleet.has(w.name+"b-0") || w.fleet.has(w.name+"b-1") {
		t.Error("of two instances, the first is the one of the claim that stays")
	}
}

// A false NotFound, and even two of them, end nothing.
func TestAbsenceNeedsProof(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n")
	w.claim("other") // so that the cloud lists something
	w.fleet.set(func() { w.fleet.hidden = map[string]bool{claim.Name: true} })
	w.delete(claim)
	w.pass(time.Second, "the cloud was asked often", func() bool { return w.fleet.deleted(claim.Name) > 30 })
	if !w.exists(claim) || !w.exists(node) {
		t.Fatal("S8: a finalizer is gone although the instance runs and is listed")
	}
	w.fleet.vanish(claim.Name)
	w.finish(node, claim)
}

// A cloud that still shows the instance, and shows it ended, needs no second look.
func TestAbsenceThatTheCloudShows(t *testing.T) {
	w := newWorld(t)
	w.fleet.set(func() { w.fleet.explicit = true })
	claim, node := w.pair("n")
	w.delete(claim)
	w.finish(node, claim)
	if got := w.fleet.listed(); got != 0 {
		t.Errorf("all instances were listed %d times", got)
	}
}

func TestL22_InstanceThatIsGoneUnderADeadNode(t *testing.T) {
	w := newWorld(t)
	w.claim("other")
	claim := w.claim("n")
	node := w.node("n", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
	w.pod("web", node, annotated("true"))
	w.hold("web")
	w.delete(node)
	w.pass(time.Second, "the cloud was asked", func() bool { return w.fleet.looks() > 3 })
	if !w.exists(node) {
		t.Fatal("the node is gone although its instance runs")
	}
	w.fleet.vanish(claim.Name)
	asked := w.fleet.looks()
	w.pass(100*time.Millisecond, "the instance is missed", func() bool { return w.fleet.looks() > asked })
	if !w.exists(node) {
		t.Error("one miss was taken for proof")
	}
	w.pass(time.Second, "the end of the node", func() bool { return !w.exists(node) })
	w.finish(claim)
	if w.read("web").DeletionTimestamp != nil {
		t.Error("a pod of a lost instance was told to go")
	}
}

func TestL22_NodeWithoutAClaim(t *testing.T) {
	w := newWorld(t)
	node := w.node("n")
	w.fleet.add(&cloud.Instance{ID: node.Name, State: cloud.Running})
	w.pod("web", node)
	w.delete(node)
	w.finish(node)
	if w.fleet.has(node.Name) || len(w.left()) != 1 {
		t.Errorf("instance there: %v, pods gone: %v", w.fleet.has(node.Name), w.left())
	}
}

// An instance that has joined under another name is not ended with its old node.
func TestL22_NodeThatIsNotTheClaims(t *testing.T) {
	w := newWorld(t)
	claim, _ := w.pair("n")
	old := w.node("old", func(n *corev1.Node) { n.Spec.ProviderID = claim.Status.ProviderID })
	w.pod("web", old)
	w.delete(old)
	w.finish(old)
	now := &karpv1.NodeClaim{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), now); err != nil || !now.DeletionTimestamp.IsZero() {
		t.Errorf("the claim was deleted too: %v", err)
	}
	if !w.fleet.has(claim.Name) || w.fleet.deleted(claim.Name) != 0 {
		t.Error("the instance was ended")
	}
}

func TestL20_OtherClassesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	foreign := w.claim("foreign", func(c *karpv1.NodeClaim) { c.Spec.NodeClassRef.Kind = "Other" + w.class.Kind })
	node := w.node("foreign", func(n *corev1.Node) {
		delete(n.Labels, karpv1.NodeClassLabelKey(karpv1.NodeClassReference{Group: w.class.Group, Kind: w.class.Kind}))
	})
	w.delete(foreign)
	w.delete(node)
	ours, own := w.pair("ours")
	w.delete(ours)
	w.finish(own, ours)
	if !w.exists(foreign) || !w.exists(node) || w.fleet.deleted(foreign.Name) != 0 {
		t.Error("another controller's claim or node was touched")
	}
	w.forget(foreign)
}

func TestD61_AnEarlierDeadlineStays(t *testing.T) {
	w := newWorld(t)
	at := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	claim, node := w.pair("n", grace(time.Hour), func(c *karpv1.NodeClaim) {
		c.Annotations = map[string]string{karpv1.TerminationTimestampAnnotationKey: at}
	})
	w.pod("web", node, annotated("true"))
	w.delete(claim)
	w.await("event", func() bool {
		return w.events.Has(node, "Warning TerminationGracePeriodExpiring: All pods will be deleted by "+at)
	})
	w.clock.skip(time.Minute)
	w.finish(node, claim)
}

func TestPoisonedProviderID(t *testing.T) {
	w := newWorld(t)
	bad := w.claim("bad", unregistered, func(c *karpv1.NodeClaim) { c.Status.ProviderID = "nonsense" + w.name })
	w.delete(bad)
	w.await("event", func() bool {
		return w.events.Has(bad, "Warning FailedTermination: Ending the instance failed, trying again: reading status.providerID")
	})
	good, node := w.pair("good")
	w.delete(good)
	w.finish(node, good)
	w.finish(bad)
}

// TestPoisonedProviderID_TheInstanceIsFoundByItsTags: a claim whose provider ID cannot be read takes its instance with it all the same.
func TestPoisonedProviderID_TheInstanceIsFoundByItsTags(t *testing.T) {
	w := newWorld(t)
	bad := w.claim("bad", unregistered, func(c *karpv1.NodeClaim) { c.Status.ProviderID = "nonsense" + w.name })
	w.fleet.add(&cloud.Instance{ID: "i-bad", ProviderID: "test:///i-bad", State: cloud.Running, Claim: bad.Name})
	w.delete(bad)
	w.finish(bad)
	if w.fleet.has("i-bad") {
		t.Error("the claim is gone and its instance is not")
	}
}

// TestPoisonedProviderID_NodesGo: nor does an id that cannot be read keep a node, with or without its claim.
func TestPoisonedProviderID_NodesGo(t *testing.T) {
	w := newWorld(t)
	nonsense := func(n *corev1.Node) { n.Spec.ProviderID = "nonsense" + n.Name }
	claim := w.claim("n", func(c *karpv1.NodeClaim) { c.Status.ProviderID = "nonsense" + c.Name })
	node, alone := w.node("n", nonsense), w.node("alone", nonsense)
	w.pod("web", node)
	w.delete(claim)
	w.delete(alone)
	w.finish(alone, node, claim)
	if w.fleet.has(claim.Name) || len(w.left()) != 1 {
		t.Errorf("instance there: %t, pods gone: %v", w.fleet.has(claim.Name), w.left())
	}
}

// TestL21_AnInstanceThatIsAnothersStays: if two claims have one instance on record, the one that its node is not registered with goes
// alone.
func TestL21_AnInstanceThatIsAnothersStays(t *testing.T) {
	w := newWorld(t)
	owner, node := w.pair("n")
	other := w.claim("second", unregistered, func(c *karpv1.NodeClaim) { c.Status.ProviderID = owner.Status.ProviderID })
	w.delete(other)
	w.await("the second claim is gone", func() bool { return !w.exists(other) })
	if !w.exists(owner) || !w.exists(node) || !w.fleet.has(owner.Name) {
		t.Errorf("claim there: %t, node: %t, instance: %t", w.exists(owner), w.exists(node), w.fleet.has(owner.Name))
	}
	w.delete(owner)
	w.finish(node, owner)
	if w.fleet.has(owner.Name) {
		t.Error("the instance is still there after its own claim has gone")
	}
}
