package disruption

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

var monday = time.Date(2026, 8, 3, 6, 0, 0, 0, time.UTC)

// A pool is left alone until it has been at rest for a while, and where it never is, it gets a turn now and then.
func TestCalmHoldsPoolsUntilTheyAreAtRest(t *testing.T) {
	c := &calm{}
	in := func(hold string, turn bool) *disrupt.Input {
		return &disrupt.Input{Pools: []disrupt.Pool{{Name: "a", Hold: hold, Turn: turn}, {Name: "b"}}}
	}
	moving := map[string]string{"a": "1 pod is to be placed"}
	hold := func(after time.Duration, held, turn bool) {
		t.Helper()
		why, got := c.hold("a", monday.Add(after))
		if (why != "") != held || got != turn {
			t.Errorf("after %s: %q, turn %v", after, why, got)
		}
	}
	hold(0, false, false)
	if c.note(in("", false), nil, monday) {
		t.Error("all pools are at rest, but are to be looked at again")
	}
	if !c.note(in("", false), moving, monday) {
		t.Error("a pool in motion is not looked at again")
	}
	hold(stillFor-1, true, false)
	hold(stillFor, false, false)
	if why, _ := c.hold("b", monday); why != "" {
		t.Errorf("another pool is held: %s", why)
	}
	// That it has not been at rest for long enough is no motion of its own.
	if !c.note(in("it was in motion 4s ago", false), nil, monday.Add(stillFor-1)) {
		t.Error("a pool that is held is not looked at again")
	}
	hold(stillFor, false, false)
	c.note(in("", false), nil, monday.Add(stillFor))
	hold(time.Hour, false, false)

	// In motion again and again, it gets a turn.
	const began = time.Hour
	for at := time.Duration(0); at < maxWait; at += 2 * time.Second {
		hold(began+at, at > 0, false)
		c.note(in("", false), moving, monday.Add(began+at))
	}
	hold(began+maxWait, false, true)
	c.note(in("", true), moving, monday.Add(began+maxWait))
	hold(began+maxWait, true, false)
	hold(began+2*maxWait-1, false, false)
	hold(began+2*maxWait, false, true)
	// At rest once, it has not waited at all.
	c.note(in("", false), nil, monday.Add(began+2*maxWait))
	c.note(in("", false), moving, monday.Add(began+2*maxWait))
	hold(began+2*maxWait+stillFor, false, false)
	c.note(&disrupt.Input{}, nil, monday.Add(began+2*maxWait))
	if len(c.pools) != 0 {
		t.Error("pools that are gone are remembered")
	}
}

// What keeps a pool held by other means than its own memory counts as motion.
func TestCalmCountsWhatIsKnownToCome(t *testing.T) {
	c := &calm{}
	in := &disrupt.Input{Pools: []disrupt.Pool{{Name: "a", Hold: "3 pods are just created"}}}
	c.note(in, nil, monday)
	if why, _ := c.hold("a", monday.Add(stillFor-1)); why == "" {
		t.Error("it is not held")
	}
	for at := time.Duration(0); at < maxWait; at += stillFor {
		c.note(in, nil, monday.Add(at))
	}
	if _, turn := c.hold("a", monday.Add(maxWait)); !turn {
		t.Error("it never gets a turn")
	}
}

// fleet is a mirror of a pool with nodes that have been quiet for so long each.
func fleet(after *karpv1.NillableDuration, quiet ...time.Duration) *state.Mirror {
	some := []*world.InstanceType{{Name: "m5.large", Offerings: []world.Offering{{Zone: "a", CapacityType: world.CapacityOnDemand, Price: 0.1, Available: true}}}}
	m := state.NewMirror(state.MirrorOptions{Now: func() time.Time { return monday }, Types: func(string) ([]string, []*world.InstanceType, uint64, error) { return nil, some, 1, nil }})
	m.Put(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "general"}, Spec: karpv1.NodePoolSpec{
		Disruption: karpv1.Disruption{ConsolidateAfter: *after}, Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{NodeClassRef: &karpv1.NodeClassReference{Name: "default"}}},
	}})
	for i, d := range quiet {
		name, labels := fmt.Sprintf("n%02d", i), map[string]string{karpv1.NodePoolLabelKey: "general"}
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("claim-" + name), Labels: labels}}
		c.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
		c.Status.ProviderID, c.Status.NodeName = "aws:///a/"+name, name
		c.Status.LastPodEventTime = metav1.Time{Time: monday.Add(-d)}
		m.Put(c)
		m.Put(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: map[string]string{karpv1.NodePoolLabelKey: "general", karpv1.NodeInitializedLabelKey: "true"}},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///a/" + name},
		})
	}
	return m
}

func TestPoolsWhosePodsComeAndGoOnManyNodesAreInMotion(t *testing.T) {
	nodes := func(quiet, stirred int, ago time.Duration) (out []time.Duration) {
		for i := range quiet + stirred {
			if i < stirred {
				out = append(out, ago)
			} else {
				out = append(out, time.Hour)
			}
		}
		return out
	}
	after, never := karpv1.NewNillableDuration(0), karpv1.NeverDuration()
	half, long := karpv1.NewNillableDuration(30*time.Second), karpv1.NewNillableDuration(time.Hour)
	for _, c := range []struct {
		name  string
		after karpv1.NillableDuration
		quiet []time.Duration
		want  string
	}{
		{"all quiet", after, nodes(40, 0, 0), ""},
		{"one in twenty", after, nodes(38, 2, time.Second), ""},
		{"more", after, nodes(37, 3, time.Second), "3 of its 40 nodes"},
		{"one of few", after, nodes(3, 1, time.Second), "1 of its 4 nodes"},
		{"long enough ago", after, nodes(3, 1, stillFor), ""},
		{"consolidateAfter", half, nodes(3, 1, 30*time.Second-1), "1 of its 4 nodes"},
		{"after consolidateAfter", half, nodes(3, 1, 30*time.Second), ""},
		{"a long consolidateAfter", long, nodes(3, 1, maxStir-1), "1 of its 4 nodes"},
		{"after a minute", long, nodes(3, 1, maxStir), ""},
		{"Never", never, nodes(3, 1, stillFor), ""},
	} {
		if got := stirring(fleet(&c.after, c.quiet...).View(), nil, monday)["general"]; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What a move itself has brought about does not hold the next one up.
func TestNodesThatMovedPodsCameToDoNotHoldTheirPool(t *testing.T) {
	after := karpv1.NewNillableDuration(30 * time.Second)
	mirror := fleet(&after, 10*time.Second, time.Hour, time.Hour)
	mirror.Put(owned("a", "web", monday.Add(-15*time.Second)))
	for _, c := range []struct {
		name  string
		moved map[string]state.Moved
		holds bool
	}{
		{"a new pod", nil, true},
		{"a moved pod", map[string]state.Moved{"a": {At: monday.Add(-15 * time.Second)}}, false},
		{"one that was moved long ago", map[string]state.Moved{"a": {At: monday.Add(-time.Minute)}}, true},
	} {
		if got := stirring(mirror.View(), c.moved, monday)["general"]; (got != "") != c.holds {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// A node that pods are about to come to is not taken for one that nothing needs, though its pool may be in motion.
func TestD20_NodesOnWhichPodsAreExpectedStay(t *testing.T) {
	after := karpv1.NewNillableDuration(0)
	facts := ledger.Facts{Expected: map[string]string{"a": "n00"}}
	for i, n := range facts.Input(fleet(&after, time.Hour, time.Hour).View(), monday).Nodes {
		if stays := strings.Contains(n.Fixed, "are expected on it"); stays != (i == 0) {
			t.Errorf("node %d: %q", i, n.Fixed)
		}
	}
}

// owned is a pod of a ReplicaSet on the first node of a fleet.
func owned(name, owner string, created time.Time) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.Time{Time: created},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: "n00", Containers: []corev1.Container{{Name: "c"}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// moving is a move that restarts pods for what they save an hour.
func moving(view *state.View, restart, saves float64, pods ...string) *start {
	s := &start{plan: &plan{view: view, in: &disrupt.Input{Nodes: []disrupt.Node{{Restart: restart}}}}, move: &disrupt.Move{Remove: []int32{0}, Saves: saves}}
	for _, p := range pods {
		s.move.Order = append(s.move.Order, &world.Pod{UID: p})
	}
	return s
}

// begunAt is the move as it begins at a time, whose pods are evicted at once.
func begunAt(s *start, at time.Time) *start {
	s.began = at
	return s
}

func unknown(types.UID) time.Time { return time.Time{} }

// What is known of a moved pod goes to the next one that its owner creates, and to one only.
func TestMovedPodsAreKnownUnderTheirNewName(t *testing.T) {
	after, m := karpv1.NewNillableDuration(0), &movedPods{}
	mirror := fleet(&after, time.Hour)
	mirror.Put(owned("a", "web", monday.Add(-time.Hour)))
	if got := m.refresh(mirror.View(), monday, unknown); len(got) != 0 {
		t.Errorf("nothing has been moved: %v", got)
	}
	m.begin(begunAt(moving(mirror.View(), 0.1, 1, "a", "gone"), monday))
	mirror.Put(owned("other", "db", monday.Add(time.Second)))
	mirror.Put(owned("elder", "web", monday.Add(-time.Second)))
	if got := m.refresh(mirror.View(), monday.Add(time.Second), unknown); len(got) != 0 {
		t.Errorf("none of them was moved: %v", got)
	}
	mirror.Drop(owned("a", "web", monday.Add(-time.Hour)))
	mirror.Put(owned("b", "web", monday.Add(2*time.Second)))
	mirror.Put(owned("c", "web", monday.Add(2*time.Second)))
	got := m.refresh(mirror.View(), monday.Add(3*time.Second), unknown)
	want := state.Moved{Times: 1, At: monday.Add(2 * time.Second), Paid: monday.Add(leastPayback), Was: "default/a"}
	if len(got) != 1 || got["b"] != want {
		t.Fatalf("%+v, want b: %+v", got, want)
	}
	// Moved again, it has been moved twice.
	m.begin(begunAt(moving(mirror.View(), 0.1, 1, "b"), monday.Add(time.Hour)))
	mirror.Drop(owned("b", "web", monday))
	mirror.Put(owned("d", "web", monday.Add(time.Hour)))
	if got := m.refresh(mirror.View(), monday.Add(time.Hour), unknown); len(got) != 1 || got["d"].Times != 2 {
		t.Errorf("moved twice: %+v", got)
	}
	if got := m.refresh(mirror.View(), monday.Add(time.Hour+recently), unknown); len(got)+len(m.pods)+len(m.due) != 0 {
		t.Errorf("a day later: %+v", got)
	}
}

// Nothing is inherited from a move of long ago, whose pods have not come back.
func TestMovesAreNotInheritedForEver(t *testing.T) {
	after, m := karpv1.NewNillableDuration(0), &movedPods{}
	mirror := fleet(&after, time.Hour)
	mirror.Put(owned("a", "web", monday.Add(-time.Hour)))
	m.refresh(mirror.View(), monday, unknown)
	m.begin(begunAt(moving(mirror.View(), 0.1, 1, "a"), monday))
	mirror.Drop(owned("a", "web", monday))
	m.refresh(mirror.View(), monday.Add(dueFor), unknown)
	mirror.Put(owned("b", "web", monday.Add(dueFor)))
	if got := m.refresh(mirror.View(), monday.Add(dueFor+time.Second), unknown); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// A pod is left alone until what its move saves has paid for the restarts, within bounds.
func TestMovedPodsPayForTheirMove(t *testing.T) {
	after := karpv1.NewNillableDuration(0)
	for _, c := range []struct {
		restart, saves float64
		want           time.Duration
	}{
		{0.01, 1, leastPayback},
		{0.5, 1, 30 * time.Minute},
		{100, 1, time.Duration(disrupt.DefaultHorizon * float64(time.Hour))},
		{100, 0, leastPayback},
	} {
		m, mirror := &movedPods{}, fleet(&after, time.Hour)
		mirror.Put(owned("a", "web", monday))
		m.begin(begunAt(moving(mirror.View(), c.restart, c.saves, "a"), monday))
		if got := m.due["web"][0].Paid.Sub(monday); got != c.want {
			t.Errorf("restarts for $%.2f that save $%.2f/h: %s, want %s", c.restart, c.saves, got, c.want)
		}
	}
}

// A process that starts anew does not know which pods were moved: those that are a good deal younger than their ReplicaSet and not old
// count as such.
func TestTheFirstLookTakesReplacedPodsForMoved(t *testing.T) {
	after, m := karpv1.NewNillableDuration(0), &movedPods{}
	mirror := fleet(&after, time.Hour)
	mirror.Put(owned("first", "web", monday.Add(-24*time.Hour+time.Second)))
	mirror.Put(owned("replaced", "web", monday.Add(-10*time.Minute)))
	mirror.Put(owned("long-ago", "web", monday.Add(-inherited)))
	mirror.Put(owned("rollout", "young", monday.Add(-10*time.Minute)))
	mirror.Put(owned("unknown", "unknown", monday.Add(-10*time.Minute)))
	created := func(owner types.UID) time.Time {
		return map[types.UID]time.Time{"web": monday.Add(-24 * time.Hour), "young": monday.Add(-10*time.Minute - replacedAfter + time.Second)}[owner]
	}
	got := m.refresh(mirror.View(), monday, created)
	if len(got) != 1 || !got["replaced"].Paid.Equal(monday.Add(-10*time.Minute+inherited)) {
		t.Errorf("%+v", got)
	}
	mirror.Put(owned("later", "web", monday.Add(time.Minute)))
	if got := m.refresh(mirror.View(), monday.Add(time.Minute), created); len(got) != 1 || got["later"].Times != 0 {
		t.Errorf("a later look: %+v", got)
	}
}

// What a moved pod makes of its node: it stays until the pod has paid, and every move doubles what the next one costs.
func TestMovedPodsMakeTheirNodeDearer(t *testing.T) {
	after := karpv1.NewNillableDuration(0)
	mirror := fleet(&after, time.Hour)
	mirror.Put(owned("a", "web", monday.Add(-time.Hour)))
	cost := func(times int, paid time.Time) (float64, string) {
		in := mirror.View().Disruption(state.DisruptionOptions{Moved: func(string) (state.Moved, bool) { return state.Moved{Times: times, At: monday, Paid: paid}, times > 0 }}, monday)
		return in.Nodes[0].Restart, in.Nodes[0].Unpaid
	}
	base, unpaid := cost(0, time.Time{})
	if base < 0.9*disrupt.DefaultRestartCost || base > 1.1*disrupt.DefaultRestartCost || unpaid != "" {
		t.Fatalf("a restart costs $%.4f, %q", base, unpaid)
	}
	for times, want := range map[int]float64{1: 2, 2: 4, 10: 1024, 50: 1024} {
		if got, _ := cost(times, monday); got != want*base {
			t.Errorf("moved %d times: $%.4f, want %.0f × $%.4f", times, got, want, base)
		}
	}
	if _, unpaid := cost(1, monday.Add(time.Second)); !strings.Contains(unpaid, "default/a") {
		t.Errorf("unpaid %q", unpaid)
	}
	if _, unpaid := cost(1, monday); unpaid != "" {
		t.Errorf("paid, but %q", unpaid)
	}
}
