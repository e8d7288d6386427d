package provision

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// TestP71_PodsKeepTheirPlace: a pod that fits everywhere must not take the place of one that fits only there.
func TestP71_PodsKeepTheirPlace(t *testing.T) {
	s := newShelf(typesOf(twoZones, 2), newPool("places"))
	s.put(newPod("a", "50m"), newPod("b", "50m"), newPod("dear", "50m", selects(world.LabelCapacityType, "on-demand")))
	d := newDesk(t, s)
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

func TestP71_PlacesAreGivenUp(t *testing.T) {
	node := func(claim *karpv1.NodeClaim) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{
				corev1.LabelHostname: "n", world.LabelPool: "gives-up", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
			}},
			Spec: corev1.NodeSpec{ProviderID: claim.Status.ProviderID}, Status: corev1.NodeStatus{Allocatable: claim.Spec.Resources.Requests, Capacity: claim.Spec.Resources.Requests},
		}
	}
	launch := func(s *shelf, claim *karpv1.NodeClaim) *karpv1.NodeClaim {
		claim = claim.DeepCopy()
		claim.Status.ProviderID, claim.Status.Allocatable, claim.Status.Capacity = "aws:///a/i-1", claim.Spec.Resources.Requests, claim.Spec.Resources.Requests
		s.Wrote(claim)
		return claim
	}
	cases := []struct {
		name string
		then func(s *shelf, claim *karpv1.NodeClaim)
		kept int
	}{
		{"nothing happens", func(*shelf, *karpv1.NodeClaim) {}, 2},
		{"the claim goes", func(s *shelf, c *karpv1.NodeClaim) { s.Leaving(c.Name) }, 0},
		{"a pod is bound", func(s *shelf, _ *karpv1.NodeClaim) {
			bound := s.pods[0].DeepCopy()
			bound.Spec.NodeName = "other"
			s.Put(bound)
		}, 1},
		{"a pod is gone", func(s *shelf, _ *karpv1.NodeClaim) { s.Drop(s.pods[0]) }, 1},
		{"it takes for ever", func(s *shelf, c *karpv1.NodeClaim) {
			launch(s, c)
			s.clock.Step(maxPin)
		}, 0},
		{"the node has just come", func(s *shelf, c *karpv1.NodeClaim) { s.Put(node(launch(s, c))) }, 2},
		{"the room is taken", func(s *shelf, c *karpv1.NodeClaim) {
			s.Put(node(launch(s, c)))
			s.Put(newPod("quick", "1", func(p *corev1.Pod) { p.Spec.NodeName, p.Status = "n", corev1.PodStatus{Phase: corev1.PodRunning} }))
		}, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf(typesOf(twoZones, 4), newPool("gives-up"))
			s.put(newPod("a", "1"), newPod("b", "1"))
			cr := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
			list := plan(s, cr)
			cr.Create(t.Context(), list)
			c.then(s, list[0].Claim)
			if got := cr.pins.apply(s.View(), s.clock.Now()); got.Pods != c.kept || len(cr.pins.of) != c.kept {
				t.Errorf("%d pods keep their place and %d are remembered, want %d", got.Pods, len(cr.pins.of), c.kept)
			}
		})
	}
	t.Run("the node has been up for a while", func(t *testing.T) {
		s := newShelf(typesOf(twoZones, 4), newPool("gives-up"))
		s.put(newPod("a", "1"))
		cr := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
		list := plan(s, cr)
		cr.Create(t.Context(), list)
		s.Put(node(launch(s, list[0].Claim)))
		for i, want := range []int{1, 1, 0} {
			if got := cr.pins.apply(s.View(), s.clock.Now()).Pods; got != want {
				t.Errorf("look %d: %d pods keep their place, want %d", i, got, want)
			}
			s.clock.Step(pinAfterStart / 2)
		}
	})
}

// TestP10_PodsOfNodesThatGoKeepTheirPlace: a replacement is the place of the pods of the node that it replaces.
func TestP10_PodsOfNodesThatGoKeepTheirPlace(t *testing.T) {
	s := newShelf(typesOf(twoZones, 2), newPool("replaces"))
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

// TestRearrangedNodesAreCopiedWhole fails when a node gets a field that a rearranged one would lack.
func TestRearrangedNodesAreCopiedWhole(t *testing.T) {
	n := &world.Node{}
	v := reflect.ValueOf(n).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if !v.Type().Field(i).IsExported() {
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Float64:
			f.SetFloat(1)
		case reflect.Int64, reflect.Int32, reflect.Int:
			f.SetInt(1)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		default:
			t.Fatalf("field %s has a kind that this test does not know", v.Type().Field(i).Name)
		}
	}
	here, there := &world.Pod{UID: "here"}, &world.Pod{UID: "there"}
	n.Pods, n.Deleting = []*world.Pod{here}, true
	got, _ := rearranged(&world.Snapshot{Nodes: []*world.Node{n}, Pending: []*world.Pod{there}}, map[types.UID]bool{"there": true}, map[*world.Node][]*world.Pod{n: {there}})
	g := reflect.ValueOf(got.Nodes[0]).Elem()
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.IsExported() && field.Name != "Pods" && !reflect.DeepEqual(v.Field(i).Interface(), g.Field(i).Interface()) {
			t.Errorf("field %s is lost", field.Name)
		}
	}
	if len(got.Nodes[0].Pods) != 2 || len(got.Pending) != 0 {
		t.Errorf("%d pods on the node, %d waiting", len(got.Nodes[0].Pods), len(got.Pending))
	}
}
