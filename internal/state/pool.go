package state

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"karpenter/api/convert"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// poolClass names the class that says what the pool can launch, with the pool's own kubelet settings; see ClassWith.
func poolClass(p *v1.NodePool) string {
	if ref := p.Spec.Template.Spec.NodeClassRef; ref != nil {
		return ClassWith(ref.Name, p.Annotations[convert.KubeletAnnotation])
	}
	return ""
}

// The parts of a pool that wrong annotations are reported for; the rest of it is used.
const (
	nodeCostPart    = "node-cost"
	restartCostPart = "restart-cost"
)

// poolEntry is a pool with its conversion and the types that went into it.
type poolEntry struct {
	obj *v1.NodePool
	// plain is the pool with the types of its class, world the same with what overlays make of them, from which plain.
	plain, world, from *world.Pool
	types              *typeList
	dirty              bool
}

func (m *Mirror) putPool(p *v1.NodePool) {
	e := m.pools[p.Name]
	switch {
	case e == nil:
		m.pools[p.Name] = &poolEntry{obj: p, dirty: true}
	case outdated(e.obj, p):
		return
	default:
		e.dirty = e.dirty || !samePool(e.obj, p)
		e.obj = p
	}
	m.poolsChanged = true
}

func (m *Mirror) dropPool(p *v1.NodePool) {
	if e := m.pools[p.Name]; e != nil && sameUID(e.obj, p) {
		delete(m.pools, p.Name)
		m.problem("NodePool", p.Name, "", nil)
		m.problem("NodePool", p.Name, nodeCostPart, nil)
		m.problem("NodePool", p.Name, restartCostPart, nil)
		m.poolsChanged, m.worldChanged = true, true
		if m.overlaysSeen = true; m.overlaid != nil { // overlays may have counted for it alone
			m.reprice = true
			m.touchUnlaunched(p.Name)
		}
	}
}

// samePool says whether two versions of a pool mean the same to every decision.
func samePool(a, b *v1.NodePool) bool {
	as, am := toworld.PoolReady(a)
	bs, bm := toworld.PoolReady(b)
	return as == bs && am == bm && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		a.Annotations[convert.KubeletAnnotation] == b.Annotations[convert.KubeletAnnotation] &&
		a.Annotations[v1.NodeCostAnnotationKey] == b.Annotations[v1.NodeCostAnnotationKey] &&
		a.Annotations[v1.RestartCostAnnotationKey] == b.Annotations[v1.RestartCostAnnotationKey]
}

// refreshPools converts pools that have changed, or whose types have.
func (m *Mirror) refreshPools() {
	again := m.overlaysSeen || m.overlaysChanged
	for _, name := range slices.Sorted(maps.Keys(m.pools)) {
		e := m.pools[name]
		types := m.typesOf(poolClass(e.obj))
		if !e.dirty && e.plain != nil && e.types == types {
			continue
		}
		e.dirty, e.types = false, types
		e.plain, again = m.pool(e.obj, types), true
	}
	if again {
		m.overlayPools()
	}
	if !m.poolsChanged {
		return
	}
	m.poolsChanged, m.changed = false, true
	m.followPools()
	m.poolList, m.poolIndex = nil, make(map[string]*Pool, len(m.pools))
	for _, name := range slices.Sorted(maps.Keys(m.pools)) {
		e := m.pools[name]
		m.poolList = append(m.poolList, e.world)
		m.poolIndex[name] = &Pool{World: e.world, Object: e.obj}
	}
}

func (m *Mirror) pool(p *v1.NodePool, types *typeList) *world.Pool {
	w, err := func() (w *world.Pool, err error) {
		defer recovered(&err)
		return m.conv.Pool(p)
	}()
	m.problem("NodePool", p.Name, "", err)
	_, err = p.NodeCost()
	m.problem("NodePool", p.Name, nodeCostPart, err)
	_, _, err = v1.RestartCost(p.Annotations)
	m.problem("NodePool", p.Name, restartCostPart, err)
	if w == nil {
		w = &world.Pool{Name: p.Name, MaxNodes: -1, Refused: "cannot be read"}
	}
	w.Types = types.list
	if types.err != nil && w.Refused == "" {
		w.Refused = fmt.Sprintf("instance types of class %s: %v", poolClass(p), types.err)
	}
	return w
}
