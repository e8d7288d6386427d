package state

import (
	"maps"
	"slices"
	"strings"

	"karpenter/api/convert"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/trim"
)

// typeList is what a class can launch, in the mirror's own numbering of resources. It does not change; a newer version is
// another typeList.
type typeList struct {
	version uint64
	list    []*world.InstanceType
	err     error
	source  []*world.InstanceType // what the provider returned
	// largest remembers the most that a claim may become.
	largest map[largestKey]world.Resources
}

// largestKey is what that depends on: the list as overlays correct it, and the claim's requirements.
type largestKey struct {
	list **world.InstanceType
	need string
}

// typesOf is what a class can launch; it is asked for on first use and from then on watched.
func (m *Mirror) typesOf(class string) *typeList {
	t, ok := m.types[class]
	if !ok {
		t = m.loadTypes(class, &typeList{})
		m.types[class] = t
	}
	return t
}

// loadTypes asks the provider. If it fails, what was known before still tells prices.
func (m *Mirror) loadTypes(class string, before *typeList) *typeList {
	if m.opt.Types == nil {
		return before
	}
	resources, list, version, err := m.opt.Types(class)
	if err != nil {
		if before.err != nil && before.err.Error() == err.Error() {
			return before
		}
		m.problem("NodeClass", class, "types", err)
		return &typeList{version: before.version, list: before.list, source: before.source, err: err, largest: map[largestKey]world.Resources{}}
	}
	if before.largest != nil && before.err == nil && before.version == version {
		return before
	}
	m.problem("NodeClass", class, "types", nil)
	return &typeList{version: version, list: m.translate(resources, list), source: list, largest: map[largestKey]world.Resources{}}
}

// translate writes the resource vectors of types in the mirror's numbering. Where both agree nothing is copied, and classes that
// share a list go on sharing it.
func (m *Mirror) translate(resources []string, list []*world.InstanceType) []*world.InstanceType {
	index, same := make([]int, len(resources)), true
	for i, name := range resources {
		index[i] = m.conv.Names.Index(name)
		same = same && index[i] == i
	}
	if same {
		return list
	}
	for _, class := range slices.Sorted(maps.Keys(m.types)) {
		if t := m.types[class]; len(list) > 0 && trim.SameSlice(t.source, list) {
			return t.list
		}
	}
	out := make([]*world.InstanceType, len(list))
	for i, t := range list {
		c := *t
		c.Capacity, c.Allocatable = reindex(t.Capacity, index), reindex(t.Allocatable, index)
		c.Offerings = slices.Clone(t.Offerings)
		for k := range c.Offerings {
			o := &c.Offerings[k]
			o.Capacity, o.Allocatable = reindex(o.Capacity, index), reindex(o.Allocatable, index)
		}
		out[i] = &c
	}
	return out
}

func reindex(r world.Resources, index []int) world.Resources {
	if r == nil {
		return nil
	}
	out := world.Resources{}
	for i, v := range r {
		if i < len(index) {
			out = out.Set(index[i], v)
		}
	}
	return out
}

// refreshTypes looks for newer versions. Only nodes whose price has changed, and claims that may become something else than
// before, are touched.
func (m *Mirror) refreshTypes() {
	for _, class := range slices.Sorted(maps.Keys(m.types)) {
		before := m.types[class]
		now := m.loadTypes(class, before)
		if now == before {
			continue
		}
		m.types[class] = now
		if !samePrices(before.list, now.list) {
			m.reprice = true
		}
		for _, c := range m.claims {
			if c.facts != nil && claimClass(c.obj) == class && len(c.obj.Status.Allocatable) == 0 {
				m.touchClaim(c)
			}
		}
	}
}

// repriceNodes touches the nodes whose price has changed.
func (m *Mirror) repriceNodes() {
	if !m.reprice {
		return
	}
	m.reprice = false
	for _, n := range m.nodes {
		if m.price(n.World, n.Claim).same(n.World) {
			continue
		}
		if n.World.InFlight {
			m.touchClaim(m.claims[n.World.Name])
		} else {
			m.touchHost(m.hosts[n.World.Name])
		}
	}
}

// samePrices says whether no node can have become cheaper or dearer.
func samePrices(a, b []*world.InstanceType) bool {
	return slices.EqualFunc(a, b, func(x, y *world.InstanceType) bool {
		return x == y || x.Name == y.Name && slices.EqualFunc(x.Offerings, y.Offerings, func(p, q world.Offering) bool {
			return p.Zone == q.Zone && p.CapacityType == q.CapacityType && p.Price == q.Price && p.ListPrice == q.ListPrice && p.PricedBy == q.PricedBy
		})
	})
}

// followPools watches the types of the classes that pools name, and no longer those that none names any more; a claim that still
// does asks again.
func (m *Mirror) followPools() {
	used := []string{""}
	for _, p := range m.pools {
		used = append(used, poolClass(p.obj))
	}
	slices.Sort(used)
	used = slices.Compact(used)
	if slices.Equal(used, m.poolClasses) {
		return
	}
	m.poolClasses, m.reprice = used, true
	for class := range m.types {
		if _, found := slices.BinarySearch(used, class); !found {
			delete(m.types, class)
			m.problem("NodeClass", class, "types", nil)
		}
	}
}

func claimClass(c *v1.NodeClaim) string {
	if c.Spec.NodeClassRef != nil {
		return ClassWith(c.Spec.NodeClassRef.Name, c.Annotations[convert.KubeletAnnotation])
	}
	return ""
}

// ClassWith names a class as it is for pools and claims with kubelet settings of their own (A68), in the text of
// convert.KubeletAnnotation: they decide how much room its instances have. MirrorOptions.Types is asked by that name.
func ClassWith(class, kubelet string) string {
	if kubelet == "" {
		return class
	}
	return class + " " + kubelet
}

// SplitClass takes such a name apart again. Names of classes have no blanks.
func SplitClass(name string) (class, kubelet string) {
	class, kubelet, _ = strings.Cut(name, " ")
	return class, kubelet
}

// cost is what a node costs, and by whose word; the zero value is not known.
type cost struct {
	price, list float64
	by          string
}

func (c cost) tell(n *world.Node) { n.Price, n.ListPrice, n.PricedBy = c.price, c.list, c.by }

func (c cost) same(n *world.Node) bool { return c == cost{n.Price, n.ListPrice, n.PricedBy} }

// price looks up what a node costs by its labels: in the types of its claim's class, or else in those of the pools.
func (m *Mirror) price(n *world.Node, claim *v1.NodeClaim) cost {
	if claim != nil {
		return priceIn(m.typesFor(claim), n, true)
	}
	for _, here := range []bool{true, false} { // a zone that no pool uses has the price of those that one does
		for _, class := range m.poolClasses {
			if t := m.types[class]; t != nil {
				if p := priceIn(t.list, n, here); p != (cost{}) {
					return p
				}
			}
		}
	}
	return cost{}
}

// attachFallback gives a node of a claim the volume limits of what was launched for it, where no driver has said its own.
func (m *Mirror) attachFallback(w *world.Node, claim *v1.NodeClaim) {
	if claim == nil {
		return
	}
	name, _ := w.Labels.Get(world.LabelInstanceType)
	if t := findType(m.typesOf(claimClass(claim)).list, name); t != nil {
		m.conv.AttachFallback(w, t)
	}
}

// priceIn is the price of what the node is, in its own zone or in any. Of several offerings that of its own reservation counts.
func priceIn(types []*world.InstanceType, n *world.Node, here bool) (found cost) {
	name, _ := n.Labels.Get(world.LabelInstanceType)
	zone, _ := n.Labels.Get(world.LabelZone)
	model := n.CapacityType()
	t := findType(types, name)
	if t == nil {
		return cost{}
	}
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.CapacityType != model || o.Zone != zone && here {
			continue
		}
		other := slices.ContainsFunc(o.Labels, func(l world.Label) bool {
			v, has := n.Labels.Get(l.Key)
			return has && v != l.Value
		})
		if !other {
			return cost{o.Price, o.ListPrice, o.PricedBy}
		}
		if found == (cost{}) {
			found = cost{o.Price, o.ListPrice, o.PricedBy}
		}
	}
	return found
}

// largest is, resource by resource, the most that a claim may become. Claims of one batch have equal requirements.
func (m *Mirror) largest(c *v1.NodeClaim) world.Resources {
	t := m.typesOf(claimClass(c))
	need := req.Set{}
	for _, r := range c.Spec.Requirements {
		if x, err := req.New(m.conv.Rules.Normalize(r.Key), req.Operator(r.Operator), r.Values...); err == nil {
			need = need.With(x)
		}
	}
	list := m.typesFor(c)
	if len(list) == 0 {
		return nil
	}
	key := largestKey{&list[0], string(need.AppendKey(nil))}
	if r, ok := t.largest[key]; ok {
		return r
	}
	var most world.Resources
	for _, x := range list {
		most = mostOf(most, x, need)
	}
	if t.largest != nil {
		t.largest[key] = most
	}
	return most
}

// mostOf raises most by what a type can be under the requirements. Keys that neither the type nor its offerings have are the
// node's own, and say nothing about it.
func mostOf(most world.Resources, t *world.InstanceType, need req.Set) world.Resources {
	var perOffering req.Set
	for _, r := range need {
		switch v, ok := t.Labels.Get(r.Key); {
		case r.Key == world.LabelInstanceType:
			if !r.Admits(t.Name, true) {
				return most
			}
		case ok && !r.Admits(v, true):
			return most
		case !ok:
			perOffering = append(perOffering, r)
		}
	}
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if slices.ContainsFunc(perOffering, func(r req.Requirement) bool {
			v, ok := offeringLabel(o, r.Key)
			return ok && !r.Admits(v, true)
		}) {
			continue
		}
		if o.Capacity != nil {
			most = most.Max(o.Capacity)
		} else {
			most = most.Max(t.Capacity)
		}
	}
	return most
}

func offeringLabel(o *world.Offering, key string) (string, bool) {
	switch key {
	case world.LabelZone:
		return o.Zone, o.Zone != ""
	case world.LabelCapacityType:
		return o.CapacityType, o.CapacityType != ""
	}
	return o.Labels.Get(key)
}
