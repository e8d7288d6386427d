package pack

import (
	"encoding/binary"
	"math"
	"slices"

	"karpenter/internal/engine/world"
)

// item is a number of equal things to pack: pods, or bundles of pods, that no rule tells apart.
type item struct {
	size  []int64
	n     int
	cells bitset
	host  []hostRef
	// most is how many may share a node, by the rules that the item has with its own kind.
	most  int
	ports []world.Port
	// once is taken on a node by the first of its kind only: attachments of volumes that they share.
	once []int64
	// demands are where the copies come from, in order.
	demands []*demand
}

// hostRef says how an item takes part in a host group.
type hostRef struct {
	group    int32
	own, sel int32
	kind     groupKind
	skew     int32
}

// problem is what is left when everything but price has been decided.
type problem struct {
	m      *Model
	cells  []cell
	dims   int
	items  []item
	hosts  int // number of host groups
	ledger *ledger
	// by is what nodes are bought by; costs are compared whatever it is.
	by       measure
	markets  int
	market   []bitset  // per market, its cells
	bargains [][]*cand // per market, the candidates that can set prices
	dimIndex []int     // the resource behind each dimension
	plain    bool      // no limits, reservations or minValues anywhere
	barred   bitset    // options that may not be launched in place of the chosen ones; nil for none
}

// problem turns the demands of a run into items.
func (r *run) problem(demands []*demand) *problem {
	p := &problem{m: r.m, cells: r.cells.cells, dims: len(r.cells.dims), dimIndex: r.cells.dims, ledger: r.ledger, by: byCost, markets: r.cells.markets, plain: true}
	for _, gs := range r.groups {
		p.hosts += boolInt(gs.g.host)
	}
	p.market = make([]bitset, p.markets)
	for k := range p.market {
		p.market[k] = newBitset(len(p.cells))
	}
	for i := range p.cells {
		p.market[p.cells[i].market].add(i)
	}
	p.findBargains()
	index := map[string]int{}
	for _, d := range demands {
		if d.copies() == 0 {
			continue
		}
		it := r.item(d)
		key := it.key()
		k, ok := index[key]
		if !ok || it.once != nil {
			k = len(p.items)
			index[key] = k
			p.items = append(p.items, it)
		} else {
			p.items[k].n += it.n
			p.items[k].demands = append(p.items[k].demands, d)
		}
	}
	used := newBitset(len(p.cells))
	for i := range p.items {
		used.or(p.items[i].cells)
	}
	for c := range used.each {
		for _, o := range p.cells[c].options {
			p.plain = p.plain && r.m.options[o].off.Reservation == "" && !special(r.m.variants[r.m.options[o].variant].pool)
		}
	}
	return p
}

func (r *run) item(d *demand) item {
	it := item{size: d.size, n: d.copies(), cells: d.cells, demands: []*demand{d}}
	byGroup := map[int32]*hostRef{}
	for _, x := range d.parts {
		pods := int32(1)
		if d.bundle {
			pods = int32(len(x.pods))
		}
		it.ports = append(it.ports, x.rc.c.Ports...)
		for range pods - 1 {
			it.ports = append(it.ports, x.rc.c.Ports...)
		}
		r.addShared(&it, x.rc)
		lv := &x.rc.info.levels[x.level]
		note := func(gs *groupState, own, sel int32) {
			ref, ok := byGroup[int32(gs.local)]
			if !ok {
				ref = &hostRef{group: int32(gs.local), kind: gs.g.kind, skew: gs.g.skew}
				byGroup[int32(gs.local)] = ref
			}
			ref.own += own
			ref.sel += sel
		}
		for _, gs := range x.rc.sel {
			if gs.g.host {
				note(gs, 0, pods)
			}
		}
		for _, g := range lv.refs {
			if g.host {
				note(r.index[g], pods, 0)
			}
		}
	}
	for _, ref := range byGroup {
		if ref.kind == affinityGroup {
			continue
		}
		it.host = append(it.host, *ref)
	}
	slices.SortFunc(it.host, func(a, b hostRef) int { return int(a.group) - int(b.group) })
	return it.limited()
}

// limited notes how many of the item may share a node.
func (it item) limited() item {
	it.most = math.MaxInt32
	for i := range it.host {
		it.most = min(it.most, it.host[i].selfLimit())
	}
	if portsConflict(it.ports, it.ports) {
		it.most = 1
	}
	return it
}

func (r *run) addShared(it *item, rc *runClass) {
	for _, s := range rc.c.Shared {
		if it.once == nil {
			it.once = make([]int64, len(r.cells.dims))
		}
		for k, d := range r.cells.dims {
			if d == s.Resource {
				it.once[k]++
			}
		}
	}
}

// key is equal for items that may be merged.
func (it *item) key() string {
	var b []byte
	for _, v := range it.size {
		b = binary.AppendVarint(b, v)
	}
	b = it.cells.appendKey(b)
	for _, h := range it.host {
		for _, v := range []int32{h.group, h.own, h.sel} {
			b = binary.AppendVarint(b, int64(v))
		}
	}
	for _, p := range it.ports {
		b = append(b, p.IP+p.Protocol...)
		b = binary.AppendVarint(b, int64(p.Port))
	}
	return string(b)
}

type port = world.Port

func portsConflict(a, b []port) bool { return world.PortsConflict(a, b) }

type pool = world.Pool

func (p *problem) poolOf(option int32) *pool { return p.m.variants[p.m.options[option].variant].pool }
