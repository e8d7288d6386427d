package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// Overlay is a NodeOverlay with what has become of it.
type Overlay struct {
	Object *v1alpha1.NodeOverlay
	// Problem says which field cannot be used; empty if all can.
	Problem string
	// Conflict says with which other overlay it conflicts; nil if with none.
	Conflict *world.OverlayConflict
	// Unused says that it is applied and that nothing any pool could launch is what it asks for.
	Unused bool
}

// Applied says whether the overlay counts in decisions.
func (o *Overlay) Applied() bool { return o.Problem == "" && o.Conflict == nil }

// Why says in words why the overlay is not applied, or that it changes nothing; empty if it does.
func (o *Overlay) Why() string {
	switch {
	case o.Problem != "":
		return o.Problem
	case o.Conflict != nil:
		c := o.Conflict
		what, where := "the price of "+c.Type+" in "+c.Zone+", "+c.CapacityType+",", ""
		if c.Resource != "" {
			what = c.Resource + " of " + c.Type
		}
		if c.Pool != "" {
			where = " for NodePool " + c.Pool
		}
		return fmt.Sprintf("spec.weight: NodeOverlay %s has the same weight and changes %s%s too; give one of them another weight (the highest counts), or requirements that do not overlap", c.With, what, where)
	case o.Unused:
		return "spec.requirements: nothing that a NodePool could launch satisfies them, so that nothing is changed"
	}
	return ""
}

// overlayEntry is a NodeOverlay with its conversion.
type overlayEntry struct {
	obj   *v1alpha1.NodeOverlay
	world *world.NodeOverlay
	err   error
}

func (m *Mirror) putOverlay(o *v1alpha1.NodeOverlay) {
	e := m.overlays[o.Name]
	if !m.opt.NodeOverlays || e != nil && outdated(e.obj, o) {
		return
	}
	if e != nil && equality.Semantic.DeepEqual(e.obj.Spec, o.Spec) {
		e.obj, m.overlaysSeen = o, true
		return
	}
	e = &overlayEntry{obj: o}
	e.world, e.err = func() (w *world.NodeOverlay, err error) {
		defer recovered(&err)
		return m.conv.NodeOverlay(o)
	}()
	m.problem("NodeOverlay", o.Name, "", e.err)
	m.overlays[o.Name], m.overlaysChanged, m.overlaysSeen = e, true, true
}

func (m *Mirror) dropOverlay(o *v1alpha1.NodeOverlay) {
	if e := m.overlays[o.Name]; e != nil && sameUID(e.obj, o) {
		delete(m.overlays, o.Name)
		m.problem("NodeOverlay", o.Name, "", nil)
		m.problem("NodeOverlay", o.Name, conflictPart, nil)
		m.overlaysChanged, m.overlaysSeen = true, true
	}
}

// overlayPools gives every pool the types that overlays make of its class's. Pools and types that nothing has changed about cost
// nothing.
func (m *Mirror) overlayPools() {
	names := slices.Sorted(maps.Keys(m.pools))
	pools, lists := make([]*world.Pool, len(names)), make([][]*world.InstanceType, len(names))
	for i, name := range names {
		pools[i] = m.pools[name].plain
		lists[i] = pools[i].Types
	}
	if m.overlaysChanged {
		m.overlaid = m.newOverlays()
		for _, t := range m.types {
			if t.largest != nil {
				t.largest = map[largestKey]world.Resources{}
			}
		}
	}
	var conflicts []world.OverlayConflict
	if m.overlaid != nil {
		lists, conflicts = m.overlaid.Apply(pools)
	}
	for i, name := range names {
		m.setPoolTypes(name, m.pools[name], lists[i])
	}
	m.judgeOverlays(conflicts)
}

// newOverlays are the overlays that can be used; nil if there are none.
func (m *Mirror) newOverlays() *world.Overlays {
	var list []*world.NodeOverlay
	for _, name := range slices.Sorted(maps.Keys(m.overlays)) {
		if e := m.overlays[name]; e.err == nil {
			list = append(list, e.world)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return world.NewOverlays(list, m.conv.Names.Index)
}

// setPoolTypes makes the pool of the view. Its nodes are touched if they may cost something else now, claims if they may become
// something else.
func (m *Mirror) setPoolTypes(name string, e *poolEntry, list []*world.InstanceType) {
	if e.world != nil && e.from == e.plain && sameList(e.world.Types, list) {
		return
	}
	before := e.world
	e.from, e.world = e.plain, e.plain
	if !sameList(e.plain.Types, list) {
		e.world = e.plain.WithTypes(list)
	}
	m.poolsChanged, m.worldChanged = true, true
	switch {
	case before == nil:
		m.reprice = m.reprice || m.overlaid != nil
	case sameList(before.Types, list):
		return
	default:
		m.reprice = m.reprice || !samePrices(before.Types, list)
	}
	m.touchUnlaunched(name)
}

// touchUnlaunched looks again at the claims of a pool that may become something else than before.
func (m *Mirror) touchUnlaunched(pool string) {
	for _, c := range m.claims {
		if c.facts != nil && c.obj.Labels[v1.NodePoolLabelKey] == pool && len(c.obj.Status.Allocatable) == 0 {
			m.touchClaim(c)
		}
	}
}

func sameList(a, b []*world.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// judgeOverlays writes down what has become of each overlay.
func (m *Mirror) judgeOverlays(conflicts []world.OverlayConflict) {
	list := make([]*Overlay, 0, len(m.overlays))
	for _, name := range slices.Sorted(maps.Keys(m.overlays)) {
		e := m.overlays[name]
		o := &Overlay{Object: e.obj}
		if e.err != nil {
			o.Problem = e.err.Error()
		} else if at := slices.IndexFunc(conflicts, func(c world.OverlayConflict) bool { return c.Overlay == name }); at >= 0 {
			o.Conflict = &conflicts[at]
			m.problem("NodeOverlay", name, conflictPart, errors.New(o.Why()))
		} else {
			o.Unused = !m.overlaid.Selects(name)
		}
		if o.Conflict == nil {
			m.problem("NodeOverlay", name, conflictPart, nil)
		}
		list = append(list, o)
	}
	m.changed = m.changed || !slices.EqualFunc(list, m.overlayList, func(a, b *Overlay) bool {
		return a.Object == b.Object && a.Why() == b.Why()
	})
	m.overlayList, m.overlaysChanged, m.overlaysSeen = list, false, false
}

// conflictPart is the part of an overlay that is wrong where another is in its way.
const conflictPart = "conflict"

// typesFor is what instances of the claim's class are for its pool: what the class can launch, as overlays correct it. Claims
// without a pool have no overlays.
func (m *Mirror) typesFor(c *v1.NodeClaim) []*world.InstanceType {
	own := m.typesOf(claimClass(c)).list
	e := m.pools[c.Labels[v1.NodePoolLabelKey]]
	switch {
	case m.overlaid == nil || e == nil || e.world == nil:
		return own
	case sameList(e.plain.Types, own):
		return e.world.Types
	}
	return m.overlaid.Types(e.plain, own) // the pool has another class now
}

// Overlaid is what a claim may be launched as where overlays have a say in that; the names are those of the entries of resource
// vectors.
func (m *Mirror) Overlaid(c *v1.NodeClaim) (resources []string, list []*world.InstanceType, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.overlays) == 0 {
		return nil, nil, false
	}
	m.refresh()
	list = m.typesFor(c)
	return m.conv.Names.List(), list, !sameList(list, m.typesOf(claimClass(c)).list)
}

// Extended is the room of an instance of that type for a claim, with what overlays add to it.
func (m *Mirror) Extended(c *v1.NodeClaim, instanceType string, capacity, allocatable corev1.ResourceList) (_, _ corev1.ResourceList) {
	names, list, ok := m.Overlaid(c)
	t := findType(list, instanceType)
	if !ok || t == nil || len(t.Added) == 0 || capacity == nil || allocatable == nil { // of an instance of unknown size nothing is said
		return capacity, allocatable
	}
	capacity, allocatable = capacity.DeepCopy(), allocatable.DeepCopy()
	for _, a := range t.Added {
		name := corev1.ResourceName(names[a.Resource])
		amount := *toworld.Quantity(names[a.Resource], a.N)
		capacity[name], allocatable[name] = amount, amount
		if memory, has := allocatable[corev1.ResourceMemory]; has && strings.HasPrefix(names[a.Resource], world.HugePagesPrefix) {
			memory.Sub(amount)
			if memory.Sign() < 0 {
				memory.Set(0)
			}
			allocatable[corev1.ResourceMemory] = memory
		}
	}
	return capacity, allocatable
}

// findType finds a type in a list, which is in the order of names; nil if it is not there.
func findType(list []*world.InstanceType, name string) *world.InstanceType {
	i, ok := slices.BinarySearchFunc(list, name, func(t *world.InstanceType, s string) int { return strings.Compare(t.Name, s) })
	if !ok {
		return nil
	}
	return list[i]
}
