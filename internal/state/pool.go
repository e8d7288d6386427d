package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"karpenter/api/convert"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// pool converts a pool. One that cannot be used is kept with the reason, so that plans can name it.
func (b *converter) pool(p *v1.NodePool) (w *world.Pool, err error) {
	cost, _ := p.NodeCost()
	w = &world.Pool{Name: p.Name, MaxNodes: -1, NodeCost: cost, Static: p.Spec.Replicas != nil}
	if p.Spec.Weight != nil {
		w.Weight = *p.Spec.Weight
	}
	if err = b.poolSpec(w, p); err != nil {
		w.Refused = err.Error()
	}
	if status, message := poolReady(p); status != "" && status != metav1.ConditionTrue && w.Refused == "" {
		w.Refused = "is not ready"
		if message != "" {
			w.Refused += ": " + message
		}
	}
	if p.DeletionTimestamp != nil {
		w.Refused = "is being deleted"
	}
	return w, err
}

func poolReady(p *v1.NodePool) (metav1.ConditionStatus, string) {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.ConditionReady {
			return c.Status, c.Message
		}
	}
	return "", ""
}

// poolClass names the class that says what the pool can launch, with the pool's own kubelet settings; see ClassWith.
func poolClass(p *v1.NodePool) string {
	if ref := p.Spec.Template.Spec.NodeClassRef; ref != nil {
		return ClassWith(ref.Name, p.Annotations[convert.KubeletAnnotation])
	}
	return ""
}

func (b *converter) poolSpec(w *world.Pool, p *v1.NodePool) error {
	t := &p.Spec.Template
	need := req.NewSet(req.Is(v1.NodePoolLabelKey, p.Name))
	labels := map[string]string{v1.NodePoolLabelKey: p.Name}
	for _, l := range world.NewLabels(t.Labels) {
		if err := b.templateLabel(l.Key); err != nil {
			return fmt.Errorf("template label: %w", err)
		}
		labels[b.rules.Normalize(l.Key)] = l.Value
	}
	if ref := t.Spec.NodeClassRef; ref != nil && ref.Group != "" {
		labels[v1.NodeClassLabelKey(*ref)] = ref.Name
	}
	w.Labels = world.NewLabels(labels)
	for _, l := range w.Labels {
		need = need.With(req.Is(l.Key, l.Value))
	}
	for _, r := range t.Spec.Requirements {
		if err := b.templateLabel(r.Key); err != nil {
			return fmt.Errorf("requirement: %w", err)
		}
		x, err := req.New(b.rules.Normalize(r.Key), req.Operator(r.Operator), r.Values...)
		if err != nil {
			return err
		}
		if r.MinValues != nil {
			x.MinValues = *r.MinValues
		}
		need = need.With(x)
	}
	for _, r := range need {
		if r.Impossible() {
			return fmt.Errorf("requirements on %s contradict each other", r.Key)
		}
	}
	w.Need = need
	for _, r := range need {
		if b.provided(r.Key) {
			w.Provided = append(w.Provided, r.Key)
		}
	}
	for _, x := range t.Spec.Taints {
		w.Taints = append(w.Taints, world.Taint{Key: x.Key, Value: x.Value, Effect: world.Effect(x.Effect)})
	}
	return b.poolLimits(w, corev1.ResourceList(p.Spec.Limits))
}

// provided says whether only the provider gives values to a label.
func (b *converter) provided(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return slices.Contains(b.opt.WellKnown, key) || slices.ContainsFunc(b.opt.ProviderDomains, func(d string) bool {
		return domain == d || strings.HasSuffix(domain, "."+d)
	})
}

func (b *converter) templateLabel(key string) error {
	if key == v1.NodePoolLabelKey || b.rules.IsRestricted(key) {
		return fmt.Errorf("label %s is restricted; use a well-known label or one of your own domain", key)
	}
	return nil
}

func (b *converter) poolLimits(w *world.Pool, limits corev1.ResourceList) error {
	nodes, ok := limits["nodes"]
	if ok {
		w.MaxNodes = max(0, nodes.Value())
		limits = limits.DeepCopy()
		delete(limits, "nodes")
	}
	sums, err := toworld.Resources(b.names, limits)
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	for i, name := range b.names.List() {
		if _, set := limits[corev1.ResourceName(name)]; set {
			w.Limits = append(w.Limits, world.Limit{Resource: i, Max: sums.Get(i)})
		}
	}
	return nil
}

// The parts of a pool that wrong annotations are reported for; the rest of it is used.
const (
	nodeCostPart    = "node-cost"
	restartCostPart = "restart-cost"
)

// poolEntry is a pool with its conversion and the types that went into it.
type poolEntry struct {
	obj   *v1.NodePool
	world *world.Pool
	types *typeList
	dirty bool
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
	}
}

// samePool says whether two versions of a pool mean the same to every decision.
func samePool(a, b *v1.NodePool) bool {
	as, am := poolReady(a)
	bs, bm := poolReady(b)
	return as == bs && am == bm && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		a.Annotations[convert.KubeletAnnotation] == b.Annotations[convert.KubeletAnnotation] &&
		a.Annotations[v1.NodeCostAnnotationKey] == b.Annotations[v1.NodeCostAnnotationKey] &&
		a.Annotations[v1.RestartCostAnnotationKey] == b.Annotations[v1.RestartCostAnnotationKey]
}

// refreshPools converts pools that have changed, or whose types have.
func (m *Mirror) refreshPools() {
	for _, name := range slices.Sorted(maps.Keys(m.pools)) {
		e := m.pools[name]
		types := m.typesOf(poolClass(e.obj))
		if !e.dirty && e.world != nil && e.types == types {
			continue
		}
		e.dirty, e.types = false, types
		e.world = m.pool(e.obj, types)
		m.poolsChanged, m.worldChanged = true, true
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
		return m.conv.pool(p)
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
