package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
)

// tell writes down everything that a view means.
func tell(v *View) string {
	var b strings.Builder
	t := newTeller(v.World)
	for _, piece := range []func(*teller, func(kind, name string, text func() string)){(*teller).nodes, (*teller).pending, (*teller).pools, (*teller).daemons} {
		piece(t, func(kind, name string, text func() string) { fmt.Fprintf(&b, "%s %s %s\n", kind, name, text()) })
	}
	for _, o := range v.Overlays {
		fmt.Fprintf(&b, "NodeOverlay %s applied=%t %s\n", o.Object.Name, o.Applied(), o.Why())
	}
	for _, p := range v.Problems {
		fmt.Fprintf(&b, "! %s\n", p)
	}
	return b.String()
}

// sample types: one of each size, the larger with devices.
func sampleTypes(string) ([]string, []*world.InstanceType, uint64, error) {
	offers := []world.Offering{{Zone: "a", CapacityType: "spot", Price: 1, Available: true}, {Zone: "b", CapacityType: "on-demand", Price: 2, Available: true}}
	return []string{"cpu", "memory", "example.com/gpu", "pods"}, []*world.InstanceType{
		{Name: "large", Capacity: world.Resources{8000, 32 << 30, 2, 50}, Allocatable: world.Resources{7500, 30 << 30, 2, 50}, Offerings: offers},
		{Name: "small", Capacity: world.Resources{2000, 8 << 30, 0, 20}, Allocatable: world.Resources{1900, 7 << 30, 0, 20}, Offerings: offers},
	}, 1, nil
}

// objectsOf sorts objects into what Build reads.
func objectsOf(list map[string]Object) *dump.Objects {
	o := &dump.Objects{}
	for _, key := range slices.Sorted(maps.Keys(list)) {
		putInto(o, list[key])
	}
	return o
}

// event is what an informer says.
type event struct {
	obj  Object
	drop bool
}

// history is an API server whose watches, one for each kind, are behind and repeat themselves.
type history struct {
	t       *rapid.T
	m       *Mirror
	now     time.Time
	version int
	live    map[string]Object  // by kind and name
	late    map[string][]event // by kind
	seen    map[string]Object  // what the mirror was last told of each, nil if that it was gone
	old     []Object
}

func (h *history) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(h.t, label) }

func (h *history) chance(percent int) bool { return h.pick("chance", 100) < percent }

// change writes an object, new or again.
func (h *history) change() {
	kind := kinds[h.pick("kind", len(kinds))]
	key := fmt.Sprintf("%s/%d", kind, h.pick("name", 5))
	h.version++
	was := h.live[key]
	if was != nil && h.chance(25) {
		delete(h.live, key)
		if h.chance(80) { // or else nobody hears of it until a list shows that it is gone
			h.late[kind] = append(h.late[kind], event{was, true})
		}
		return
	}
	obj := h.object(kind, key)
	obj.SetResourceVersion(fmt.Sprint(h.version))
	obj.SetUID(types.UID(fmt.Sprintf("%s-%d", key, h.version)))
	if was != nil && h.chance(80) {
		obj.SetUID(was.GetUID())
		obj.SetCreationTimestamp(was.GetCreationTimestamp())
	}
	h.live[key] = obj
	h.late[kind] = append(h.late[kind], event{obj, false})
}

// hear delivers the next event of a kind to the mirror, maybe twice.
func (h *history) hear(kind string) {
	if len(h.late[kind]) == 0 {
		return
	}
	e := h.late[kind][0]
	h.late[kind] = h.late[kind][1:]
	key := h.key(kind, e.obj)
	for range 1 + h.pick("again", 2) {
		if e.drop {
			h.m.Drop(e.obj)
		} else {
			h.m.Put(e.obj)
		}
	}
	if !e.drop {
		h.seen[key] = e.obj
		h.old = append(h.old, e.obj)
	} else if s := h.seen[key]; s != nil && s.GetUID() == e.obj.GetUID() {
		h.seen[key] = nil
	}
}

func (h *history) key(kind string, obj Object) string {
	for i := range 5 {
		if key := fmt.Sprintf("%s/%d", kind, i); objectName(key) == obj.GetName() {
			return key
		}
	}
	return ""
}

// stale repeats an event of long ago, of an object that the mirror knows a later version of.
func (h *history) stale() {
	if len(h.old) == 0 {
		return
	}
	obj := h.old[h.pick("old", len(h.old))]
	for _, kind := range kinds {
		if key := h.key(kind, obj); key != "" && h.seen[key] != nil && fmt.Sprintf("%T", h.seen[key]) == fmt.Sprintf("%T", obj) {
			h.m.Put(obj)
		}
	}
}

// relist delivers everything that is late and then what lists show: what is there, and what is not any more.
func (h *history) relist() {
	for _, kind := range kinds {
		for len(h.late[kind]) > 0 {
			h.hear(kind)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(h.seen)) {
		if s := h.seen[key]; s != nil && h.live[key] == nil {
			h.m.Drop(s)
			h.seen[key] = nil
		}
	}
	for _, key := range slices.Sorted(maps.Keys(h.live)) {
		h.m.Put(h.live[key])
		h.seen[key] = h.live[key]
	}
}

func (h *history) step() {
	switch n := h.pick("step", 100); {
	case n < 45:
		h.change()
	case n < 80:
		h.hear(kinds[h.pick("kind", len(kinds))])
	case n < 88:
		h.stale()
	case n < 92:
		h.m.View()
	case n < 94:
		h.decide()
	case n < 96:
		h.now = h.now.Add(time.Duration(h.pick("seconds", 1200)) * time.Second)
	case n < 98:
		h.m.mu.Lock()
		h.m.renumber(h.chance(50))
		h.m.mu.Unlock()
	default:
		h.relist()
	}
}

// decide tells the mirror what we have done, before any event does.
func (h *history) decide() {
	for _, key := range slices.Sorted(maps.Keys(h.live)) {
		claim, ok := h.live[key].(*v1.NodeClaim)
		switch {
		case ok && h.chance(30):
			h.m.Leaving(claim.Name)
		case ok && h.chance(50):
			h.m.Assume(claim)
		case h.seen[key] != nil && h.seen[key].GetUID() == h.live[key].GetUID():
			h.m.Wrote(h.live[key])
		}
	}
}

// TestT17_MirrorEqualsRebuild feeds a mirror with events that are late, repeated, lost and out of order, and compares what it
// shows in the end with what one shows that is told the end only. Then everything goes, and nothing may be left.
func TestT17_MirrorEqualsRebuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{t: t, now: epoch, live: map[string]Object{}, late: map[string][]event{}, seen: map[string]Object{}}
		opt := MirrorOptions{Options: Options{NodeOverlays: true}, Types: sampleTypes, Now: func() time.Time { return h.now }}
		h.m = NewMirror(opt)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			h.step()
		}
		h.relist()
		h.now = h.now.Add(2 * assumeFor)
		other := NewMirror(opt)
		other.kins.remember(h.m.View().Shared())
		other.load(objectsOf(h.live))
		got, want := h.m.View(), other.View()
		if diff := cmp.Diff(tell(want), tell(got)); diff != "" {
			t.Fatalf("the mirror is not what it would be if it were built now (-want +got):\n%s", diff)
		}
		if d := h.m.rebuilt(objectsOf(h.live)); len(d) > 0 {
			t.Fatalf("the mirror and one built now differ: %v", d)
		}
		for last, begun := "", false; last != "" || !begun; begun = true {
			var d []Difference
			if d, last = h.m.Recheck(last, 2); len(d) > 0 {
				t.Fatalf("what was derived is not what is derived now: %v", d)
			}
		}
		checkView(t, got)
		for _, key := range slices.Sorted(maps.Keys(h.live)) {
			h.m.Drop(h.live[key])
		}
		if text := tell(h.m.View()); text != "" {
			t.Fatalf("left when everything is gone:\n%s", text)
		}
		checkEmpty(t, h.m)
	})
}

// checkView holds lookups against the lists.
func checkView(t *rapid.T, v *View) {
	if len(v.Nodes) != len(v.World.Nodes) {
		t.Fatalf("%d nodes beside %d", len(v.Nodes), len(v.World.Nodes))
	}
	for i, n := range v.Nodes {
		if n.World != v.World.Nodes[i] {
			t.Fatalf("node %d is %s beside %s", i, n.World.Name, v.World.Nodes[i].Name)
		}
		if !n.World.InFlight && v.Node(n.World.Name) != n {
			t.Fatalf("node %s is not found", n.World.Name)
		}
		if n.Claim != nil && v.Claim(n.Claim.Name) != n {
			t.Fatalf("claim %s is not found", n.Claim.Name)
		}
		for k, p := range n.Pods {
			if v.Pod(p.UID) != p || n.World.Pods[k].UID != string(p.UID) {
				t.Fatalf("pod %s is not found", p.Name)
			}
		}
	}
	for _, p := range v.World.Pending {
		if got := v.Pod(types.UID(p.UID)); got == nil || got.Name != p.Name {
			t.Fatalf("pending pod %s is not found", p.Name)
		}
	}
}

// checkEmpty looks for what an empty mirror still holds.
func checkEmpty(t *rapid.T, m *Mirror) {
	for what, n := range map[string]int{
		"classes": len(m.classes.index), "drafts": len(m.drafts.ByKey), "read labels": len(m.drafts.Reads), "drafts by namespace": m.drafts.Spaces,
		"hosts": len(m.hosts), "claims": len(m.claims), "pods": len(m.pods), "wakes": len(m.wakes), "users of volumes": len(m.volumes.users),
		"claim infos": len(m.volumes.info), "claims by volume": len(m.volumes.named), "hosts by instance": len(m.hostsBy), "claims by instance": len(m.claimsBy),
		"claims by node": len(m.claimsAt), "problems": len(m.problems), "budgets": len(m.budgets), "queue": len(m.queue),
		"overlays": len(m.overlays), "idle pods": len(m.idle), "objects set aside": len(m.unshown), "kin": len(m.kins.of),
	} {
		if n != 0 {
			t.Fatalf("%d %s are left", n, what)
		}
	}
	for _, part := range m.byUID.parts {
		if len(part) > 0 {
			t.Fatalf("pods are left: %v", part)
		}
	}
	for _, part := range m.byClaim.parts {
		if len(part) > 0 {
			t.Fatalf("claims are left: %v", part)
		}
	}
}
