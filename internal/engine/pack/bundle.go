package pack

import (
	"slices"

	"karpenter/internal/engine/world"
)

// inBundle adds a pod that must share its node with others to a bundle that holds them, makes a bundle around a pod that it
// may join, or starts a bundle of its own kind.
func (p *placer) inBundle(pod *world.Pod) bool {
	for _, d := range p.r.demands {
		if d.bundle && p.join(d, pod) {
			return true
		}
	}
	for _, d := range p.r.demands {
		if !d.bundle && d.copies() > 0 && p.carve(d, pod) {
			return true
		}
	}
	for _, h := range p.host {
		if h.owned && h.gs.g.kind == affinityGroup && (!h.self || h.gs.total > 0) {
			return false
		}
	}
	t := p.bestCells()
	if t == nil {
		return false
	}
	p.r.demands = append(p.r.demands, &demand{
		parts: []part{{rc: p.rc, level: p.l, pods: []*world.Pod{pod}, place: t.place}}, cells: t.cells.clone(), weight: t.weight,
		size: slices.Clone(p.size), bundle: true,
	})
	p.ask(t)
	return true
}

// join adds the pod to a bundle if everything allows it.
func (p *placer) join(d *demand, pod *world.Pod) bool {
	for i := range p.host {
		if !p.bundleMay(&p.host[i], d) {
			return false
		}
	}
	for _, x := range d.parts {
		if world.PortsConflict(x.rc.c.Ports, p.rc.c.Ports) {
			return false
		}
	}
	size := slices.Clone(d.size)
	addTo(size, p.size)
	for _, t := range p.cells {
		if t.weight != d.weight || !p.legal(t.doms) || p.room(t) == 0 {
			continue
		}
		both := d.cells.clone().and(t.cells)
		for c := range both.each {
			if !p.r.cells.cells[c].takes(size) {
				both.drop(c)
			}
		}
		if both.empty() {
			continue
		}
		d.cells, d.size = both, size
		p.addPart(d, pod, t)
		p.ask(t)
		return true
	}
	return false
}

func (p *placer) addPart(d *demand, pod *world.Pod, t *cellTuple) {
	for i := range d.parts {
		if x := &d.parts[i]; x.rc == p.rc && x.level == p.l && x.place == t.place {
			x.pods = append(x.pods, pod)
			return
		}
	}
	d.parts = append(d.parts, part{rc: p.rc, level: p.l, pods: []*world.Pod{pod}, place: t.place})
}

// bundleMay checks one host group of the class against the pods of a bundle.
func (p *placer) bundleMay(h *groupUse, d *demand) bool {
	var sel, own int32
	for _, x := range d.parts {
		if h.gs.g.selected.has(int(x.rc.c.ID)) {
			sel += int32(len(x.pods))
		}
		if slices.Contains(x.rc.info.levels[x.level].refs, h.gs.g) {
			own += int32(len(x.pods))
		}
	}
	g := h.gs.g
	if g.kind == affinityGroup {
		return !h.owned || sel > 0
	}
	if !g.hard {
		own = 0 // what others prefer does not keep ours away
	}
	return g.kind.together(g.skew, int32(boolInt(h.owned)), int32(boolInt(h.self)), own, sel)
}

// carve takes one pod out of a plain demand as the seed of a bundle, if ours can join it there.
func (p *placer) carve(d *demand, pod *world.Pod) bool {
	from := &d.parts[0]
	last := len(from.pods) - 1
	b := &demand{
		parts: []part{{rc: from.rc, level: from.level, pods: []*world.Pod{from.pods[last]}, place: from.place}},
		cells: d.cells.clone(), weight: d.weight, size: slices.Clone(d.size), bundle: true,
	}
	if !p.join(b, pod) {
		return false
	}
	from.pods = from.pods[:last]
	p.r.demands = append(p.r.demands, b)
	return true
}
