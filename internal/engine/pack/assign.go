package pack

// assign gives every pod that it can a place on an existing node, or a demand for a new one in a topology domain that is
// allowed. Classes that wait for others to be placed first (affinity) are tried again until nothing moves.
func (r *run) assign() {
	waiting := true
	for {
		progress := false
		for _, rc := range r.classes {
			if rc.done == len(rc.pods) || rc.c.Refused != "" || (waiting && r.waits(rc)) {
				continue
			}
			if r.place(rc) > 0 {
				progress = true
			}
		}
		if !progress {
			if !waiting {
				return
			}
			waiting = false
		}
	}
}

// waits says whether the class has affinity to pods that have no place yet but may get one.
func (r *run) waits(rc *runClass) bool {
	for _, g := range rc.info.levels[0].refs {
		gs := r.index[g]
		if g.kind != affinityGroup || gs.total > 0 || g.selected.has(int(rc.c.ID)) {
			continue
		}
		for _, other := range r.classes {
			if other != rc && other.done < len(other.pods) && other.c.Refused == "" && g.selected.has(int(other.c.ID)) {
				return true
			}
		}
	}
	return false
}

// place tries the pods of a class that are left, giving up preferences one by one only for pods that cannot be placed with
// them.
func (r *run) place(rc *runClass) int {
	start := rc.done
	for l := range rc.info.levels {
		if rc.done == len(rc.pods) {
			break
		}
		p := r.newPlacer(rc, l)
		if p == nil {
			continue
		}
		p.place()
	}
	return rc.done - start
}

// placer places pods of one class at one level.
type placer struct {
	r    *run
	rc   *runClass
	lv   *level
	l    int
	size []int64
	// dom and host are the groups that constrain or count the class: host those in which each node is a domain of its own.
	dom, host []groupUse
	// together says that host affinity ties the class to other pods on the same node.
	together bool
	nodes    []*nodeTuple
	cells    []*cellTuple
	// parked nodes were refused for the pods beside them, which may change once more pods are bound.
	parked []parkedNode
	moved  bool
}

// newPlacer is nil when the class has nowhere to go at this level.
func (r *run) newPlacer(rc *runClass, l int) *placer {
	p := &placer{r: r, rc: rc, lv: &rc.info.levels[l], l: l, size: project(rc.info.size, r.cells.dims)}
	for _, gs := range rc.sel {
		p.note(gs, false, true)
	}
	for _, g := range p.lv.refs {
		p.note(r.index[g], true, g.selected.has(int(rc.c.ID)))
	}
	p.splitNodes()
	if !r.settling {
		p.splitCells()
	}
	if len(p.nodes) == 0 && len(p.cells) == 0 {
		return nil
	}
	for i := range p.dom {
		if u := &p.dom[i]; u.owned && u.gs.g.kind == spreadGroup {
			u.over = p.universe(u.gs)
		}
	}
	return p
}

// place places as many pods as it can.
func (p *placer) place() {
	if len(p.dom) == 0 && len(p.host) == 0 && len(p.nodes) == 0 && len(p.rc.c.Ports) == 0 {
		t := p.bestCells()
		if t == nil {
			return
		}
		d := p.demandOf(t)
		some := p.rc.pods[p.rc.done:]
		some = some[:min(len(some), p.room(t))]
		d.parts[0].pods = append(d.parts[0].pods, some...)
		p.r.decided = append(p.r.decided, some...)
		p.rc.asked[t.place] += len(some)
		p.rc.done += len(some)
		if p.rc.done == len(p.rc.pods) {
			return
		}
	}
	for p.rc.done < len(p.rc.pods) {
		pod := p.rc.pods[p.rc.done]
		if !p.onNode(pod) && !p.onNew(pod) {
			return
		}
		p.r.decided = append(p.r.decided, pod)
		p.rc.done++
	}
}
