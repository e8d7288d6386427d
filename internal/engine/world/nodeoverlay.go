package world

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"karpenter/internal/engine/req"
)

// NodeOverlay corrects what is known about instance types: what their offerings cost, and which extended resources they have.
type NodeOverlay struct {
	Name   string
	Weight int32
	// Need selects offerings by the labels that a node of a pool will carry if it is launched from them.
	Need req.Set
	// Price changes the price of the offerings; nil leaves it.
	Price *PriceChange
	// Capacity is what types of which an offering is selected have, by the name of the resource, each once.
	Capacity []Amount
}

// Amount is so much of a resource.
type Amount struct {
	Resource string
	N        int64
}

// PriceChange says what becomes of a price: it is replaced by Amount dollars an hour (Absolute), changed by that many, or changed by
// so many per cent of itself (Percent).
type PriceChange struct {
	Amount            float64
	Absolute, Percent bool
}

const (
	// freePrice is what costs nothing: a node with a price of zero is one whose price is not known.
	freePrice = 1e-9
	// priceCeiling keeps what somebody has made dear to avoid it among what can be bought.
	priceCeiling = 1e9
)

// Of is the price that the change makes of one.
func (c *PriceChange) Of(price float64) float64 {
	switch {
	case c.Absolute:
		price = c.Amount
	case c.Percent:
		price += price * c.Amount / 100
	default:
		price += c.Amount
	}
	if math.IsNaN(price) {
		return priceCeiling
	}
	return min(max(price, freePrice), priceCeiling)
}

// Added is an extended resource that a type has from an overlay.
type Added struct {
	Resource int
	N        int64
	Overlay  string
}

// OverlayConflict says why an overlay is not applied: another of the same weight, With, changes the same and comes before it.
type OverlayConflict struct {
	Overlay, With string
	// Resource is what both change; empty is the price.
	Resource string
	// Pool, Type, Zone and CapacityType are an example of where. Of a resource only the type is known.
	Pool, Type, Zone, CapacityType string
}

// Overlays are the overlays of a cluster, in the order in which they are applied: by weight, the highest first, then by name, the last
// first. They remember what they have made of types, so that what has not changed costs nothing; one goroutine at a time may use them.
type Overlays struct {
	list []*NodeOverlay
	// adds is the capacity of each overlay with numbers for names; huge says which numbers are huge pages.
	adds [][]Added
	huge map[int]bool
	// groups are what the last calls were answered with, used those of the current one.
	groups, used map[groupKey]*overlayGroup
	keys         map[listKey]map[string]bool
	// rejected and conflicts are what was found among the groups of last, with an example from their pools.
	rejected  []bool
	conflicts []OverlayConflict
	last      []*overlayGroup
	pools     []string
}

// NewOverlays orders overlays. index numbers resources as the types do that they will be applied to.
func NewOverlays(list []*NodeOverlay, index func(resource string) int) *Overlays {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *NodeOverlay) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(b.Name, a.Name))
	})
	o := &Overlays{list: list, adds: make([][]Added, len(list)), huge: map[int]bool{}, groups: map[groupKey]*overlayGroup{}, keys: map[listKey]map[string]bool{}, rejected: make([]bool, len(list))}
	for i, x := range list {
		for _, m := range x.Capacity {
			r := index(m.Resource)
			o.adds[i] = append(o.adds[i], Added{r, m.N, x.Name})
			if strings.HasPrefix(m.Resource, HugePagesPrefix) {
				o.huge[r] = true
			}
		}
	}
	return o
}

// listKey tells lists of types apart.
type listKey struct {
	at **InstanceType
	n  int
}

func keyOfList(types []*InstanceType) listKey {
	if len(types) == 0 {
		return listKey{}
	}
	return listKey{&types[0], len(types)}
}

// groupKey tells apart what overlays can make different: a list of types and, of each overlay, what the pool leaves open of it.
type groupKey struct {
	list listKey
	sign string
}

// overlayGroup is a list of types for pools that overlays treat alike.
type overlayGroup struct {
	pool  *Pool // one of them
	types []*InstanceType
	// touches says for each type which overlays select which of its offerings, in the order of overlays.
	touches [][]touch
	selects []bool // whether an overlay is in any of them
	// out is the types with the overlays applied that by has not rejected.
	out []*InstanceType
	by  []bool
}

// touch is an overlay that selects offerings of a type.
type touch struct {
	overlay   int32
	offerings []int32
}

// Apply is what overlays make of the types of each pool, in the order of the pools, and which overlays are not applied because they
// conflict with others, in the order of overlays. An overlay that conflicts anywhere is applied nowhere. Lists and types that nothing
// changes are returned as they are.
func (o *Overlays) Apply(pools []*Pool) (types [][]*InstanceType, conflicts []OverlayConflict) {
	o.used = map[groupKey]*overlayGroup{}
	groups, seen, names := make([]*overlayGroup, len(pools)), []*overlayGroup{}, []string{}
	for i, p := range pools {
		groups[i] = o.group(p, p.Types)
		if !slices.Contains(seen, groups[i]) {
			seen, names = append(seen, groups[i]), append(names, p.Name)
		}
	}
	if o.last == nil || !slices.Equal(seen, o.last) || !slices.Equal(names, o.pools) {
		o.conflicts, o.last, o.pools = o.reject(seen), seen, names
	}
	types = make([][]*InstanceType, len(pools))
	for i, g := range groups {
		types[i] = o.applied(g)
	}
	o.groups = o.used
	for key := range o.keys {
		if !slices.ContainsFunc(pools, func(p *Pool) bool { return keyOfList(p.Types) == key }) {
			delete(o.keys, key)
		}
	}
	return types, o.conflicts
}

// Types is what overlays make of other types for nodes of a pool, with those that conflicted when they were last applied left out.
func (o *Overlays) Types(p *Pool, types []*InstanceType) []*InstanceType {
	if o.used == nil {
		o.used = o.groups
	}
	return o.applied(o.group(p, types))
}

// Selects says whether an overlay selects anything that pools could launch, by its name, as of the last call of Apply.
func (o *Overlays) Selects(name string) bool {
	at := slices.IndexFunc(o.list, func(x *NodeOverlay) bool { return x.Name == name })
	for _, g := range o.groups {
		if at >= 0 && g.selects[at] {
			return true
		}
	}
	return false
}

// group finds what is known of a list for pools like this one, or finds it out.
func (o *Overlays) group(p *Pool, types []*InstanceType) *overlayGroup {
	list := keyOfList(types)
	perOffering := o.offeringKeys(list, types)
	open := make([]openNeed, len(o.list))
	sign := make([]byte, 0, 4*len(o.list))
	for i, x := range o.list {
		if open[i], sign = openNeeds(p, x.Need, perOffering, sign); open[i].refused {
			sign = append(sign, '-')
		}
		sign = append(sign, ';')
	}
	key := groupKey{list, string(sign)}
	if g := o.used[key]; g != nil {
		return g
	}
	g := o.groups[key]
	if g == nil {
		g = &overlayGroup{pool: p, types: types, touches: make([][]touch, len(types)), selects: make([]bool, len(o.list))}
		for i, t := range types {
			g.touches[i] = match(p, t, open)
			for _, x := range g.touches[i] {
				g.selects[x.overlay] = true
			}
		}
	}
	g.pool = p
	o.used[key] = g
	return g
}

// openNeed is what of an overlay's requirements a pool leaves open.
type openNeed struct {
	// refused says that the overlay is not for the pool.
	refused bool
	// types is for types, and offerings for their offerings.
	types, offerings req.Set
}

// openNeeds is what of the requirements the pool's own labels do not settle. The numbers of what is left are added to sign. What
// offerings say goes before what pools do.
func openNeeds(p *Pool, need req.Set, perOffering map[string]bool, sign []byte) (open openNeed, signed []byte) {
	start := len(sign)
	for i, r := range need {
		v, fixed := p.Labels.Get(r.Key)
		if r.Key == LabelPool {
			v, fixed = p.Name, true
		}
		switch {
		case !fixed || r.Key == LabelInstanceType || perOffering[r.Key]:
			if perOffering[r.Key] {
				open.offerings = append(open.offerings, r)
			} else {
				open.types = append(open.types, r)
			}
			sign = append(strconv.AppendInt(sign, int64(i), 36), ',')
			if fixed { // what an offering leaves out the pool may still say
				sign = strconv.AppendQuote(sign, v)
			}
		case !r.Admits(v, true):
			return openNeed{refused: true}, sign[:start]
		}
	}
	return open, sign
}

// offeringKeys are the labels that differ between the offerings of a type.
func (o *Overlays) offeringKeys(key listKey, types []*InstanceType) map[string]bool {
	if keys, ok := o.keys[key]; ok {
		return keys
	}
	keys := map[string]bool{LabelZone: true, LabelCapacityType: true}
	for _, t := range types {
		for i := range t.Offerings {
			for _, l := range t.Offerings[i].Labels {
				keys[l.Key] = true
			}
		}
	}
	o.keys[key] = keys
	return keys
}

// match says which overlays select which offerings of a type; open is what of their requirements is left to look at.
func match(p *Pool, t *InstanceType, open []openNeed) (out []touch) {
overlays:
	for i := range open {
		need := &open[i]
		if need.refused {
			continue
		}
		for k := range need.types {
			if v, ok := p.NodeLabel(t, nil, need.types[k].Key); !need.types[k].Admits(v, ok) {
				continue overlays
			}
		}
		var selected []int32
		for k := range t.Offerings {
			if need.offerings.Admits(func(key string) (string, bool) { return p.NodeLabel(t, &t.Offerings[k], key) }) {
				selected = append(selected, int32(k))
			}
		}
		if len(selected) > 0 {
			out = append(out, touch{int32(i), selected})
		}
	}
	return out
}

// reject finds the overlays that conflict with one that comes before them and is applied.
func (o *Overlays) reject(groups []*overlayGroup) (conflicts []OverlayConflict) {
	found := map[[2]int32]OverlayConflict{} // by the earlier and the later of the two
	for _, g := range groups {
		for i, t := range g.types {
			o.compare(g, t, g.touches[i], found)
		}
	}
	o.rejected = make([]bool, len(o.list))
	for later := range o.list {
		for earlier := range later {
			c, is := found[[2]int32{int32(earlier), int32(later)}]
			if is && !o.rejected[earlier] {
				o.rejected[later] = true
				conflicts = append(conflicts, c)
				break
			}
		}
	}
	return conflicts
}

// compare looks for conflicts between the overlays that select a type.
func (o *Overlays) compare(g *overlayGroup, t *InstanceType, touches []touch, found map[[2]int32]OverlayConflict) {
	for k, b := range touches {
		for _, a := range touches[:k] {
			x, y := o.list[a.overlay], o.list[b.overlay]
			pair := [2]int32{a.overlay, b.overlay}
			if _, known := found[pair]; known || x.Weight != y.Weight {
				continue
			}
			c := OverlayConflict{Overlay: y.Name, With: x.Name, Pool: g.pool.Name, Type: t.Name}
			if x.Price != nil && y.Price != nil {
				if at, shared := firstShared(a.offerings, b.offerings); shared {
					c.Zone, c.CapacityType = t.Offerings[at].Zone, t.Offerings[at].CapacityType
					found[pair] = c
					continue
				}
			}
			for _, m := range y.Capacity {
				if slices.ContainsFunc(x.Capacity, func(n Amount) bool { return n.Resource == m.Resource && n.N != m.N }) {
					c.Resource = m.Resource
					found[pair] = c
					break
				}
			}
		}
	}
}

// firstShared is the first number that is in both lists, which are sorted.
func firstShared(a, b []int32) (int32, bool) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			return a[0], true
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return 0, false
}

// applied is the group's types with the overlays applied.
func (o *Overlays) applied(g *overlayGroup) []*InstanceType {
	if g.by != nil && slices.Equal(g.by, o.rejected) {
		return g.out
	}
	g.by, g.out = o.rejected, g.types
	for i, t := range g.types {
		changed := o.change(t, g.touches[i])
		if changed == t {
			continue
		}
		if keyOfList(g.out) == keyOfList(g.types) {
			g.out = slices.Clone(g.types)
		}
		g.out[i] = changed
	}
	return g.out
}

// change is the type as overlays make it; the type itself if none does anything.
func (o *Overlays) change(t *InstanceType, touches []touch) *InstanceType {
	out := t
	own := func() {
		if out == t {
			c := *t
			c.Offerings, c.Added = slices.Clone(t.Offerings), nil
			out = &c
		}
	}
	priced := make([]bool, len(t.Offerings))
	for _, x := range touches {
		overlay := o.list[x.overlay]
		if o.rejected[x.overlay] {
			continue
		}
		for _, k := range x.offerings {
			if overlay.Price == nil || priced[k] {
				continue
			}
			own()
			priced[k] = true
			f := &out.Offerings[k]
			f.ListPrice, f.PricedBy = f.Price, overlay.Name
			f.Price = overlay.Price.Of(f.Price)
			f.Estimated = f.Estimated && !overlay.Price.Absolute
		}
		for _, m := range o.adds[x.overlay] {
			own()
			if !slices.ContainsFunc(out.Added, func(a Added) bool { return a.Resource == m.Resource }) {
				out.Added = append(out.Added, m)
			}
		}
	}
	if out != t && len(out.Added) > 0 {
		o.extend(out)
	}
	return out
}

// extend gives a type and its offerings the resources that were added. Huge pages are set aside from memory, which pods then cannot
// have.
func (o *Overlays) extend(t *InstanceType) {
	slices.SortFunc(t.Added, func(a, b Added) int { return cmp.Compare(a.Resource, b.Resource) })
	t.Capacity, t.Allocatable = extended(t.Capacity, t.Added, nil), extended(t.Allocatable, t.Added, o.huge)
	for k := range t.Offerings {
		f := &t.Offerings[k]
		if f.Capacity != nil {
			f.Capacity = extended(f.Capacity, t.Added, nil)
		}
		if f.Allocatable != nil {
			f.Allocatable = extended(f.Allocatable, t.Added, o.huge)
		}
	}
}

// extended is resources with others set. What is set of huge pages is taken from memory.
func extended(r Resources, added []Added, huge map[int]bool) Resources {
	r = slices.Clone(r)
	for _, a := range added {
		if huge[a.Resource] {
			r = r.Set(Memory, max(0, AddSat(r.Get(Memory), AddSat(r.Get(a.Resource), -a.N))))
		}
		r = r.Set(a.Resource, a.N)
	}
	return r
}
