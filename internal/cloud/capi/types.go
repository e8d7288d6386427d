package capi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
	"karpenter/internal/engine/world"
)

// classTypes is what was worked out for a class last.
type classTypes struct {
	mu  sync.Mutex // held while building, so that a change is worked out once
	now atomic.Pointer[view]
}

// view is what a class can launch. It never changes.
type view struct {
	from   inputs
	shapes []shape // by type, zone, capacity type, price and name
	// problems are about scalable resources that are selected and left out.
	problems []v1alpha1.Problem
	selected int
	types    *cloud.Types
	// keys are the labels that types have.
	keys map[string]bool
}

// inputs is everything that types are made of. Two inputs that are equal give equal types.
type inputs struct {
	class   *v1alpha1.ClusterAPINodeClass
	version uint64
	stock   *kit.StockView
	// classes and taints sum up the other classes and the taints of the class's pools.
	classes, taints string
}

// Types implements cloud.Catalogue. It allocates little while nothing has changed.
func (p *Provider) Types(class string) (*cloud.Types, error) {
	v, err := p.view(class)
	if err != nil {
		return nil, err
	}
	return v.types, nil
}

// Forget drops what is kept for a class that is gone.
func (p *Provider) Forget(class string) { p.classes.Delete(class) }

// view returns what the class can launch now.
func (p *Provider) view(name string) (*view, error) {
	op := "list instance types of class " + name
	class := p.opt.Class(name)
	if class == nil {
		return nil, &cloud.Error{Class: cloud.NotReady, Op: op, Reason: "NodeClassNotFound"}
	}
	if !p.store.ready() {
		return nil, &cloud.Error{Class: cloud.Transient, Op: op, Reason: cloud.ReasonNotLoaded, Err: errUnread}
	}
	in := inputs{class: class, version: p.store.version.Load(), stock: p.stock.Look(), classes: p.others(), taints: p.taintsOf(name)}
	found, ok := p.classes.Load(name)
	if !ok {
		found, _ = p.classes.LoadOrStore(name, &classTypes{})
	}
	entry := found.(*classTypes)
	if v := entry.now.Load(); v != nil && v.from == in {
		return v, nil
	}
	entry.mu.Lock()
	defer entry.mu.Unlock()
	if v := entry.now.Load(); v != nil && v.from == in {
		return v, nil
	}
	v := p.build(in)
	entry.now.Store(v)
	return v, nil
}

// others sums up the classes there are.
func (p *Provider) others() string {
	var b strings.Builder
	for _, c := range p.byAge() {
		fmt.Fprintf(&b, "%s/%d ", c.UID, c.Generation)
	}
	return b.String()
}

// byAge are the classes that are not being deleted, oldest first.
func (p *Provider) byAge() []*v1alpha1.ClusterAPINodeClass {
	list := slices.DeleteFunc(slices.Clone(p.opt.Classes()), func(c *v1alpha1.ClusterAPINodeClass) bool { return !c.DeletionTimestamp.IsZero() })
	slices.SortFunc(list, func(a, b *v1alpha1.ClusterAPINodeClass) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return list
}

// pools are those of a class, by name.
func (p *Provider) pools(class string) []*karpv1.NodePool {
	if p.opt.Pools == nil {
		return nil
	}
	list := p.opt.Pools(class)
	slices.SortFunc(list, func(a, b *karpv1.NodePool) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// taintsOf sums up the taints of the class's pools.
func (p *Provider) taintsOf(class string) string {
	var b strings.Builder
	for _, pool := range p.pools(class) {
		spec := &pool.Spec.Template.Spec
		fmt.Fprintf(&b, "%s %v %v ", pool.Name, spec.Taints, spec.StartupTaints)
	}
	return b.String()
}

// selector is what a class selects by.
func selector(class *v1alpha1.ClusterAPINodeClass) (labels.Selector, error) {
	if class.Spec.ScalableResourceSelector == nil {
		return labels.Everything(), nil
	}
	s, err := metav1.LabelSelectorAsSelector(class.Spec.ScalableResourceSelector)
	if err != nil {
		return nil, fmt.Errorf("spec.scalableResourceSelector: %w", err)
	}
	return s, nil
}

// selects says whether a class selects a scalable resource.
func (p *Provider) selects(class *v1alpha1.ClusterAPINodeClass, k key) bool {
	o := p.store.resource(k)
	if o == nil || !p.mine(k) {
		return false
	}
	_, member := o.Labels[v1alpha1.LabelMember]
	s, err := selector(class)
	return member && err == nil && s.Matches(labels.Set(o.Labels))
}

// mine says whether a scalable resource is in the namespace and of the cluster that this provider serves.
func (p *Provider) mine(k key) bool {
	o := p.store.resource(k)
	return o != nil && (p.opt.Namespace == "" || k.namespace == p.opt.Namespace) && (p.opt.Cluster == "" || o.Spec.ClusterName == p.opt.Cluster)
}

// build works out what a class can launch.
func (p *Provider) build(in inputs) *view {
	v := &view{from: in, keys: map[string]bool{}}
	for _, k := range p.store.members() {
		if !p.selects(in.class, k) {
			continue
		}
		v.selected++
		s, err := p.shape(in.class, k)
		if err != nil {
			v.problems = append(v.problems, v1alpha1.Problem{Resource: k.String(), Message: err.Error()})
			continue
		}
		v.shapes = append(v.shapes, s)
	}
	named(v.shapes)
	v.types = &cloud.Types{Resources: names(v.shapes), Version: p.versions.Add(1)}
	v.types.List = offer(v.shapes, v.types.Resources, in.stock)
	for _, t := range v.types.List {
		for _, l := range t.Labels {
			v.keys[l.Key] = true
		}
	}
	return v
}

// shape reads a scalable resource that a class selects. An error says why it is left out.
func (p *Provider) shape(class *v1alpha1.ClusterAPINodeClass, k key) (shape, error) {
	o := p.store.resource(k)
	if err := usable(o, p.store.cluster(o.Namespace, o.Spec.ClusterName)); err != nil {
		return shape{}, err
	}
	if _, _, err := recordOf(o); err != nil {
		return shape{}, err
	}
	for _, other := range p.byAge() {
		if other.Name == class.Name {
			break
		}
		if p.selects(other, k) {
			return shape{}, fmt.Errorf("the older ClusterAPINodeClass %s selects it too; change spec.scalableResourceSelector of one, so that it belongs to one class", other.Name)
		}
	}
	p.store.mu.RLock()
	template := p.store.templates[templateOf(o)]
	p.store.mu.RUnlock()
	s, err := read(k, o, template, p.opt.Prices)
	if err != nil {
		return s, err
	}
	for _, t := range s.hard() {
		for _, pool := range p.pools(class.Name) {
			if spec := &pool.Spec.Template.Spec; !declares(spec.Taints, t) && !declares(spec.StartupTaints, t) {
				return s, fmt.Errorf("its nodes have the taint %s, and NodePool %s has not; add it to spec.template.spec.taints of the pool, or give the pool another class", t.ToString(), pool.Name)
			}
		}
	}
	return s, nil
}

// declares says whether a pool or claim has a taint.
func declares(list []karpv1.Taint, t corev1.Taint) bool {
	return slices.ContainsFunc(list, func(have karpv1.Taint) bool {
		return have.Key == t.Key && have.Value == t.Value && have.Effect == t.Effect
	})
}

// named sorts shapes. Those of one name are one instance type, in other zones or of other purchase; one that differs from the first of
// its name is named after its scalable resource instead.
func named(shapes []shape) {
	first := map[string]*shape{}
	for i := range shapes {
		s := &shapes[i]
		like, known := first[s.name]
		if known && !alike(like, s) {
			s.name = labelValue(s.key.namespace + "." + s.key.name)
			s.labels[corev1.LabelInstanceTypeStable] = s.name
			_, known = first[s.name]
		}
		if !known {
			first[s.name] = s
		}
	}
	slices.SortStableFunc(shapes, func(a, b shape) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.zone, b.zone), strings.Compare(a.purchase, b.purchase), cmp.Compare(a.price, b.price), compareKeys(a.key, b.key))
	})
}

// alike says whether nodes of both differ in nothing but where they are and what they cost.
func alike(a, b *shape) bool {
	same := len(a.capacity) == len(b.capacity) && len(a.taints) == len(b.taints) && maps.Equal(a.labels, b.labels) && maps.Equal(a.attach, b.attach)
	for name, q := range a.capacity {
		other, ok := b.capacity[name]
		same = same && ok && q.Cmp(other) == 0
	}
	for _, t := range a.taints {
		same = same && slices.Contains(b.taints, t)
	}
	return same
}

// pool is where instances of a shape come from.
func (s *shape) pool() kit.Pool {
	return kit.Pool{CapacityType: s.purchase, Type: s.name, Zone: s.zone, Group: s.key.String()}
}

// offer makes instance types of shapes, which are sorted.
func offer(shapes []shape, names []string, stock *kit.StockView) (list []*world.InstanceType) {
	for i := range shapes {
		s := &shapes[i]
		if len(list) == 0 || list[len(list)-1].Name != s.name {
			t := &world.InstanceType{Name: s.name, Labels: world.NewLabels(s.labels)}
			t.Capacity, t.Allocatable = s.vectors(names)
			list = append(list, t)
		}
		t := list[len(list)-1]
		here := world.Offering{Zone: s.zone, CapacityType: s.purchase, Price: s.price, Estimated: s.priceSource == v1alpha1.PriceEstimated, Available: !s.full && !stock.Out[s.pool()]}
		if n := len(t.Offerings); n > 0 && t.Offerings[n-1].Zone == here.Zone && t.Offerings[n-1].CapacityType == here.CapacityType {
			if last := &t.Offerings[n-1]; !last.Available { // of several scalable resources in one place, the cheapest that has some
				*last = here
			}
			continue
		}
		t.Offerings = append(t.Offerings, here)
	}
	return list
}
