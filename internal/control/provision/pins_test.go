package provision

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// TestP71_PodsKeepTheirPlace: a pod that fits everywhere must not take the place of one that fits only there.
func TestP71_PodsKeepTheirPlace(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("places"))
	s.put(newPod("a", "50m"), newPod("b", "50m"), newPod("dear", "50m", selects(world.LabelCapacityType, "on-demand")))
	d := newRunner(t, s)
	d.pass()
	if n := len(stored(t, "places")); n != 1 && n != 2 {
		t.Fatalf("%d claims", n)
	}
	made := len(stored(t, "places"))
	for range 5 {
		d.clock.Step(retry)
		s.nudge()
		d.pass()
	}
	if n := len(stored(t, "places")); n != made {
		t.Errorf("%d claims after a while, %d at first", n, made)
	}
}

// TestP71_ARestartPlansNothingTwice: a process that takes over between the creation of claims and the binding of their pods finds
// on the claims which pods they are for.
func TestP71_ARestartPlansNothingTwice(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("taken-over"))
	s.put(pods(3, "900m")...)
	s.put(newPod("dear", "900m", selects(world.LabelCapacityType, "on-demand")))
	first := newRunner(t, s)
	first.pass()
	made := stored(t, "taken-over")
	if len(made) < 2 {
		t.Fatalf("%d claims", len(made))
	}
	for range 3 {
		s.clock.Step(retry)
		s.nudge()
		next := newRunner(t, s)
		next.pass()
		if n := len(stored(t, "taken-over")); n != len(made) {
			t.Fatalf("%d claims after a restart, %d before", n, len(made))
		}
		if n := next.Creator.pins.apply(look{view: s.View(), now: s.clock.Now(), pins: math.MaxUint64}).Pods; n != 4 {
			t.Errorf("%d pods are expected on claims, want 4", n)
		}
	}
	t.Run("not for ever", func(t *testing.T) {
		s.clock.Step(maxPin)
		if n := newRunner(t, s).Creator.pins.apply(look{view: s.View(), now: s.clock.Now(), pins: math.MaxUint64}).Pods; n != 0 {
			t.Errorf("%d pods are expected on claims that have come to nothing", n)
		}
	})
}

// TestP71_TheLaterClaimCounts: a pod that was planned anew is expected where it was planned last.
func TestP71_TheLaterClaimCounts(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("twice"))
	s.put(newPod("a", "1"))
	cr := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
	early, late := plan(s, cr)[0], plan(s, cr)[0]
	early.Claim.CreationTimestamp, late.Claim.CreationTimestamp = metav1.NewTime(s.clock.Now()), metav1.NewTime(s.clock.Now().Add(time.Second))
	s.Assume(late.Claim, early.Claim)
	anew := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
	if got := anew.pins.apply(look{view: s.View(), now: s.clock.Now(), pins: math.MaxUint64}); len(got.Claims) != 1 || got.Claims[0] != late.Claim.Name {
		t.Errorf("expected on %v, want %s", got.Claims, late.Claim.Name)
	}
}

func TestP71_PlacesAreGivenUp(t *testing.T) {
	node := func(claim *karpv1.NodeClaim) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{
				corev1.LabelHostname: "n", world.LabelPool: "gives-up", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
			}},
			Spec: corev1.NodeSpec{ProviderID: claim.Status.ProviderID}, Status: corev1.NodeStatus{Allocatable: claim.Spec.Resources.Requests, Capacity: claim.Spec.Resources.Requests},
		}
	}
	launch := func(s *fixture, claim *karpv1.NodeClaim) *karpv1.NodeClaim {
		claim = claim.DeepCopy()
		claim.Status.ProviderID, claim.Status.Allocatable, claim.Status.Capacity = "aws:///a/i-1", claim.Spec.Resources.Requests, claim.Spec.Resources.Requests
		s.Wrote(claim)
		return claim
	}
	cases := []struct {
		name string
		then func(s *fixture, claim *karpv1.NodeClaim)
		kept int
	}{
		{"nothing happens", func(*fixture, *karpv1.NodeClaim) {}, 2},
		{"the claim goes", func(s *fixture, c *karpv1.NodeClaim) { s.Leaving(c.Name) }, 0},
		{"a pod is bound", func(s *fixture, _ *karpv1.NodeClaim) {
			bound := s.pods[0].DeepCopy()
			bound.Spec.NodeName = "other"
			s.Put(bound)
		}, 1},
		{"a pod is gone", func(s *fixture, _ *karpv1.NodeClaim) { s.Drop(s.pods[0]) }, 1},
		{"it takes for ever", func(s *fixture, c *karpv1.NodeClaim) {
			launch(s, c)
			s.clock.Step(maxPin)
		}, 0},
		{"the node has just come", func(s *fixture, c *karpv1.NodeClaim) { s.Put(node(launch(s, c))) }, 2},
		{"the room has just been taken", func(s *fixture, c *karpv1.NodeClaim) {
			s.Put(node(launch(s, c)))
			s.Put(newPod("quick", "1", func(p *corev1.Pod) { p.Spec.NodeName, p.Status = "n", corev1.PodStatus{Phase: corev1.PodRunning} }))
		}, 2}, // whoever took it may have left room elsewhere
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(typesOf(twoZones, 4), newPool("gives-up"))
			s.put(newPod("a", "1"), newPod("b", "1"))
			cr := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
			list := plan(s, cr)
			cr.Create(t.Context(), list)
			c.then(s, list[0].Claim)
			if got := cr.pins.apply(look{view: s.View(), now: s.clock.Now(), pins: math.MaxUint64}); got.Pods != c.kept || len(cr.pins.of) != c.kept {
				t.Errorf("%d pods keep their place and %d are remembered, want %d", got.Pods, len(cr.pins.of), c.kept)
			}
		})
	}
	up := func(t *testing.T) (*fixture, *Creator) {
		s := newFixture(typesOf(twoZones, 4), newPool("gives-up"))
		s.put(newPod("a", "1"), newPod("b", "1"))
		cr := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
		list := plan(s, cr)
		cr.Create(t.Context(), list)
		s.Put(node(launch(s, list[0].Claim)))
		cr.pins.apply(look{view: s.View(), now: s.clock.Now(), pins: math.MaxUint64})
		return s, cr
	}
	keep := func(t *testing.T, s *fixture, cr *Creator, want int) {
		t.Helper()
		if got := cr.pins.apply(look{view: s.View(), now: s.clock.Now(), pins: math.MaxUint64}).Pods; got != want {
			t.Errorf("%d pods keep their place, want %d", got, want)
		}
	}
	t.Run("the room is taken for good", func(t *testing.T) {
		s, cr := up(t)
		s.Put(newPod("quick", "1", func(p *corev1.Pod) { p.Spec.NodeName, p.Status = "n", corev1.PodStatus{Phase: corev1.PodRunning} }))
		s.clock.Step(settled / 2)
		cr.pins.bind(s.clock.Now()) // the scheduler is at work
		s.clock.Step(settled / 2)
		keep(t, s, cr, 2)
		s.clock.Step(settled / 2)
		keep(t, s, cr, 1)
	})
	t.Run("the room is taken while pods keep coming", func(t *testing.T) {
		s, cr := up(t)
		s.Put(newPod("quick", "1", func(p *corev1.Pod) { p.Spec.NodeName, p.Status = "n", corev1.PodStatus{Phase: corev1.PodRunning} }))
		s.clock.Step(seatWait / 2)
		cr.pins.bind(s.clock.Now())
		keep(t, s, cr, 2)
		if next := cr.pins.next(s.clock.Now(), time.Minute); next != seatWait/2+gather {
			t.Errorf("looked at again after %s", next)
		}
		s.clock.Step(seatWait / 2)
		cr.pins.bind(s.clock.Now())
		keep(t, s, cr, 1)
	})
	t.Run("the scheduler has refused a pod", func(t *testing.T) {
		s, cr := up(t)
		if next := cr.pins.next(s.clock.Now(), time.Minute); next != pinAfterStart+gather {
			t.Errorf("looked at again after %s", next)
		}
		s.clock.Step(settled)
		cr.pins.refuse("pod-a", s.clock.Now())
		s.clock.Step(settled / 2)
		cr.pins.bind(s.clock.Now())
		s.clock.Step(settled / 2)
		keep(t, s, cr, 2)
		if next := cr.pins.next(s.clock.Now(), time.Minute); next != settled/2+gather {
			t.Errorf("looked at again after %s", next)
		}
		s.clock.Step(settled / 2)
		keep(t, s, cr, 1)
	})
	t.Run("the node has been up for a while", func(t *testing.T) {
		s := newFixture(typesOf(twoZones, 4), newPool("gives-up"))
		s.put(newPod("a", "1"))
		cr := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
		list := plan(s, cr)
		cr.Create(t.Context(), list)
		s.Put(node(launch(s, list[0].Claim)))
		for i, want := range []int{1, 1, 0} {
			if got := cr.pins.apply(look{view: s.View(), now: s.clock.Now(), pins: math.MaxUint64}).Pods; got != want {
				t.Errorf("look %d: %d pods keep their place, want %d", i, got, want)
			}
			s.clock.Step(pinAfterStart / 2)
		}
	})
}

// TestP10_PodsOfNodesThatGoKeepTheirPlace: a replacement is the place of the pods of the node that it replaces.
func TestP10_PodsOfNodesThatGoKeepTheirPlace(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("replaces"))
	s.put(newPod("moves", "1"))
	cr := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
	list := plan(s, cr)
	cr.Create(t.Context(), list)
	old := newPod("moves", "1", func(p *corev1.Pod) { p.Spec.NodeName, p.Status = "old", corev1.PodStatus{Phase: corev1.PodRunning} })
	s.Put(old) // as if it had been on a node that goes
	gone := metav1.Time{Time: epoch}
	s.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old", UID: "old", DeletionTimestamp: &gone, Finalizers: []string{"x"}}})
	if n := len(s.View().World.Over().Wanting()); n != 1 {
		t.Fatalf("%d pods want a place", n)
	}
	snap := cr.World(s.View())
	if n := len(snap.Over().Wanting()); n != 0 {
		t.Errorf("%d pods want a place although a claim is made for them", n)
	}
	if p := pack.Solve(snap, pack.Options{}); len(p.Nodes) > 0 {
		t.Errorf("%d more nodes", len(p.Nodes))
	}
	at := map[string]int{}
	for _, n := range snap.Nodes {
		at[n.Name] = len(n.Pods)
	}
	if at["old"] != 0 || at[list[0].Claim.Name] != 1 {
		t.Errorf("pods by node: %v", at)
	}
}

// TestP71_ReadingForgetsNothing: whoever shows the cluster, from whatever view, changes no decision.
func TestP71_ReadingForgetsNothing(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("shown"))
	s.put(newPod("a", "1"))
	cr := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
	old := s.View()
	cr.pins.apply(look{view: old, now: s.clock.Now()}) // so that nothing is read from claims any more
	cr.Create(t.Context(), plan(s, cr))
	if got := cr.Expected(old); len(got) > 0 {
		t.Errorf("a view without the claim expects pods on it: %v", got)
	}
	if got := cr.Expected(s.View()); len(got) != 1 {
		t.Errorf("after a look at an old view %v are expected, want one pod", got)
	}
	if got := cr.pins.apply(look{view: old, now: s.clock.Now()}); got.Pods != 0 || len(cr.pins.of) != 1 {
		t.Errorf("a plan over a view from before the claim has forgotten it: %d pods expected, %d remembered", got.Pods, len(cr.pins.of))
	}
}

// TestD52_PodsOfHalfAMoveStay: a move that is slow to begin holds up no other pod, and its own get no second set of nodes.
func TestD52_PodsOfHalfAMoveStay(t *testing.T) {
	s := newFixture(typesOf(twoZones, 4), newPool("half"))
	s.put(newPod("moves", "1"))
	d := newRunner(t, s)
	d.pass()
	claim := s.inFlight()[0].DeepCopy()
	claim.Status.ProviderID, claim.Status.NodeName = "aws:///a/i-1", "n"
	claim.Status.Allocatable, claim.Status.Capacity = claim.Spec.Resources.Requests, claim.Spec.Resources.Requests
	s.Put(claim)
	s.Put(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{world.LabelPool: "half", karpv1.NodeInitializedLabelKey: "true", karpv1.NodeRegisteredLabelKey: "true"}},
		Spec:       corev1.NodeSpec{ProviderID: claim.Status.ProviderID, Taints: []corev1.Taint{karpv1.DisruptedTaint()}},
		Status:     corev1.NodeStatus{Allocatable: claim.Spec.Resources.Requests, Capacity: claim.Spec.Resources.Requests},
	})
	s.Put(newPod("moves", "1", func(p *corev1.Pod) { p.Spec.NodeName, p.Status = "n", corev1.PodStatus{Phase: corev1.PodRunning} }))
	s.put(newPod("new", "3"))
	half := map[string]bool{claim.Name: true}
	d.Look = func() (*state.View, map[string]bool) { return s.View(), half }
	if n := len(s.View().World.Over().Wanting()); n != 2 {
		t.Fatalf("%d pods want a place", n)
	}
	_, lines := d.pass()
	want(t, 1, lines, `msg="created nodeclaim"`, "pod-count=1", "cpu:3")
	half = nil // it was undone, and the node is shut for another reason
	s.nudge()
	_, lines = d.pass()
	want(t, 1, lines, `msg="created nodeclaim"`, "pod-count=1", "cpu:1")
}
