package pack

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// sieve is one rule with the options and nodes that pass it.
type sieve struct {
	code    why.Code
	text    string
	options bitset
	nodes   bitset
	onNodes string // what to say about existing nodes, if not text
}

// explain says why pods of a class found no place: per pool, how many types each rule took out; what came nearest; and
// likely mistakes.
func (r *run) explain(rc *runClass) []why.Reason {
	if rc.c.Refused != "" {
		return []why.Reason{why.New(why.Refused, "%s", rc.c.Refused)}
	}
	sieves := r.sieves(rc)
	var out []why.Reason
	if n := r.explainNodes(sieves); n.Of > 0 {
		out = append(out, n)
	}
	pools := slices.Clone(r.m.snap.Pools)
	slices.SortFunc(pools, func(a, b *world.Pool) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range pools {
		switch {
		case p.Static:
			continue
		case p.Refused != "":
			out = append(out, why.New(why.NoPool, "pool %s %s", p.Name, p.Refused))
			continue
		}
		if turn, ok := r.m.laterTurn(p, rc.c); ok {
			out = append(out, turn)
			continue
		}
		out = append(out, r.explainPool(p, sieves)...)
	}
	if len(out) == 0 {
		out = append(out, why.New(why.NoPool, "no pool can make nodes"))
	}
	if miss, ok := r.nearestMiss(sieves); ok {
		out = append(out, miss)
	}
	return append(out, r.hints(rc)...)
}

// sieves lists the rules in the order in which they are tried, as they stand with every preference given up.
func (r *run) sieves(rc *runClass) []sieve {
	m, c := r.m, rc.c
	tol := m.toleration(c.Tolerations)
	out := []sieve{{code: why.Taint, text: "taints that are not tolerated", options: tol.options[hardOnly], nodes: tol.nodes[hardOnly]}}
	clauses := func(list []world.Clause, code why.Code) {
		for _, cl := range list {
			if len(cl.Terms) == 1 {
				for _, q := range cl.Terms[0] {
					cm := m.clause(world.Clause{Terms: []reqSet{{q}}})
					out = append(out, sieve{code: code, text: q.String() + " of " + cl.Source, options: cm.options, nodes: cm.nodes})
				}
				continue
			}
			cm := m.clause(cl)
			out = append(out, sieve{code: code, text: fmt.Sprintf("all %d terms of %s", len(cl.Terms), cl.Source), options: cm.options, nodes: cm.nodes})
		}
	}
	clauses(c.Needs, why.Requirement)
	clauses(c.Volumes, why.Volume)
	for d, v := range rc.info.size {
		if v > 0 {
			out = append(out, r.resourceSieve(d, v))
		}
	}
	if len(c.Ports) > 0 {
		out = append(out, r.portSieve(c))
	}
	out = append(out, r.groupSieves(rc)...)
	if full := m.full(); full != nil {
		out = append(out, sieve{code: why.Stock, text: "reservations that are full", options: full, nodes: fullBitset(len(m.nodes))})
	}
	out = append(out, sieve{code: why.Stock, text: "offerings that are out of stock", options: m.stock, nodes: fullBitset(len(m.nodes))})
	return append(out, sieve{code: why.Limit, text: "limits of the pool or of its reservations", options: r.withinLimits(), nodes: fullBitset(len(m.nodes))})
}

// withinLimits is the options of which one more node may be made when the plan is carried out.
func (r *run) withinLimits() bitset {
	if r.open == nil {
		r.open = newBitset(len(r.m.options))
		for i := range r.m.options {
			if r.ledger.room(r.m, &r.m.options[i], 1) > 0 {
				r.open.add(i)
			}
		}
	}
	return r.open
}

func (r *run) resourceSieve(d int, v int64) sieve {
	s := sieve{code: why.Resource, options: newBitset(len(r.m.options)), nodes: newBitset(len(r.m.nodes))}
	var most int64
	for i := range r.m.options {
		most = max(most, r.m.options[i].net[d])
		if r.m.options[i].net[d] >= v {
			s.options.add(i)
		}
	}
	for i := range r.m.nodes {
		have := r.m.nodes[i].free[d]
		if ns, ok := r.touched[int32(i)]; ok {
			have = ns.free[d]
		}
		if have >= v && r.m.nodes[i].target {
			s.nodes.add(i)
		}
	}
	s.onNodes = fmt.Sprintf("%s: %s is not free", r.m.snap.Resources[d], amountText(r.m.snap.Resources[d], v))
	s.text = fmt.Sprintf("%s: asks for %s, the largest type leaves %s", r.m.snap.Resources[d], amountText(r.m.snap.Resources[d], v), amountText(r.m.snap.Resources[d], most))
	return s
}

func (r *run) portSieve(c *world.Class) sieve {
	s := sieve{code: why.Port, text: "host ports that are taken", options: newBitset(len(r.m.options)), nodes: newBitset(len(r.m.nodes))}
	for i := range r.m.options {
		if !portsConflict(c.Ports, r.m.options[i].ports) {
			s.options.add(i)
		}
	}
	for i := range r.m.nodes {
		if !portsConflict(c.Ports, r.existing(int32(i)).ports) {
			s.nodes.add(i)
		}
	}
	return s
}

// amountText prints a quantity the way people write it.
func amountText(name string, v int64) string {
	switch {
	case v >= world.Unlimited:
		return "no end"
	case name == "cpu":
		return strconv.FormatFloat(float64(v)/1000, 'f', -1, 64)
	case world.InBytes(name):
		for _, u := range []struct {
			size int64
			name string
		}{{1 << 30, "Gi"}, {1 << 20, "Mi"}, {1 << 10, "Ki"}} {
			if v >= u.size {
				return strconv.FormatFloat(float64(v*100/u.size)/100, 'f', -1, 64) + u.name
			}
		}
	}
	return strconv.FormatInt(v, 10)
}

// groupSieves says which places the pods that are there already, or planned, rule out.
func (r *run) groupSieves(rc *runClass) []sieve {
	var out []sieve
	p := r.newPlacer(rc, len(rc.info.levels)-1)
	if p == nil {
		return nil
	}
	add := func(u groupUse, code why.Code, text string, onNew bool) {
		s := sieve{code: code, text: text, options: newBitset(len(r.m.options)), nodes: newBitset(len(r.m.nodes))}
		for i := range r.m.options {
			if onNew && (u.gs.g.host || p.may(&u, u.gs.g.topo.option[i])) {
				s.options.add(i)
			}
		}
		for i, d := range u.gs.g.topo.node {
			if p.may(&u, d) {
				s.nodes.add(i)
			}
		}
		out = append(out, s)
	}
	for _, u := range p.dom {
		anti, text := u.gs.g.kind == antiGroup, "anti-affinity of other pods over "+u.gs.g.key
		if u.owned {
			own := u
			own.self = u.self && !anti
			code, text := groupText(u.gs.g)
			if u.gs.g.kind == spreadGroup {
				text += u.gs.tooFew(u.over)
			}
			add(own, code, text, true)
		}
		if u.self && anti && u.gs.g.hard {
			u.owned = false
			add(u, why.AntiAffinity, text, true)
		}
	}
	for _, u := range p.host {
		code, text := groupText(u.gs.g)
		add(u, code, text, !u.owned || u.gs.g.kind != affinityGroup || (u.self && u.gs.total == 0))
	}
	return out
}

func groupText(g *group) (why.Code, string) {
	switch g.kind {
	case spreadGroup:
		return why.Spread, fmt.Sprintf("topology spread over %s with maxSkew %d", g.key, g.skew)
	case affinityGroup:
		return why.Affinity, "pod affinity over " + g.key
	case antiGroup:
	}
	return why.AntiAffinity, "pod anti-affinity over " + g.key
}

// tooFew says that minDomains is why a spread takes its minimum to be zero, if it is.
func (gs *groupState) tooFew(domains []int32) string {
	have, need := int32(len(domains)), gs.g.least
	if have == 0 || have >= need || slices.ContainsFunc(domains, func(d int32) bool { return gs.sel[d] == 0 }) {
		return ""
	}
	return fmt.Sprintf(", as minDomains asks for %d domains and there %s %d", need, are(int(have)), have)
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// explainNodes counts which rule took out how many existing nodes.
func (r *run) explainNodes(sieves []sieve) why.Reason {
	left := newBitset(len(r.m.nodes))
	for i := range r.m.nodes {
		if r.m.nodes[i].target && !r.ov.Shut(int32(i)) {
			left.add(i)
		}
	}
	total := left.count()
	out := why.Counted(why.Resource, total, total, fmt.Sprintf("none of %s that exist", why.Count(total, "node")))
	for _, s := range sieves {
		before := left.count()
		left.and(s.nodes)
		if gone := before - left.count(); gone > 0 {
			text := s.text
			if s.onNodes != "" {
				text = s.onNodes
			}
			out.Because = append(out.Because, why.Counted(s.code, gone, total, fmt.Sprintf("%d by %s", gone, text)))
		}
	}
	if n := left.count(); n > 0 {
		out.Because = append(out.Because, why.Counted(why.Port, n, total, fmt.Sprintf("%d by volumes that they share or the pods beside them", n)))
	}
	return out
}

// explainPool counts which rule took out how many types of a pool.
func (r *run) explainPool(p *world.Pool, sieves []sieve) []why.Reason {
	left := newBitset(len(r.m.options))
	for i := range r.m.options {
		if r.m.variants[r.m.options[i].variant].pool == p {
			left.add(i)
		}
	}
	total := r.typesIn(left)
	if total == 0 {
		return []why.Reason{why.New(why.NoPool, "pool %s: none of its %s satisfies its own requirements", p.Name, why.Count(len(p.Types), "type"))}
	}
	out := why.Counted(why.Requirement, total, total, fmt.Sprintf("none of %s of pool %s", why.Count(total, "type"), p.Name))
	for _, s := range sieves {
		before := r.typesIn(left)
		left.and(s.options)
		gone := before - r.typesIn(left)
		if gone == 0 {
			continue
		}
		text := s.text
		if s.code == why.Taint {
			text = "taint " + firstTaint(p)
		}
		out.Because = append(out.Because, why.Counted(s.code, gone, total, fmt.Sprintf("%d by %s", gone, text)))
	}
	if n := r.typesIn(left); n > 0 && hasMinValues(p) {
		out.Because = append(out.Because, why.Counted(why.MinValues, n, total, fmt.Sprintf("%d by minValues: too few distinct values are left", n)))
	} else if n > 0 {
		out.Because = append(out.Because, why.Counted(why.Limit, n, total, fmt.Sprintf("%d by limits or by pods that must share the node", n)))
	}
	return []why.Reason{out}
}

func firstTaint(p *world.Pool) string {
	for _, t := range p.Taints {
		if t.Effect != world.PreferNoSchedule {
			return t.String()
		}
	}
	return "that is not tolerated"
}

// typesIn counts the instance types among options.
func (r *run) typesIn(b bitset) int {
	if r.stamp == nil {
		r.stamp = make([]int32, len(r.m.typeIDs))
	}
	r.stamps++
	n := 0
	for i := range b.each {
		if id := r.m.options[i].typeID; r.stamp[id] != r.stamps {
			r.stamp[id] = r.stamps
			n++
		}
	}
	return n
}

// nearestMiss finds the one rule without which most types would do.
func (r *run) nearestMiss(sieves []sieve) (why.Reason, bool) {
	all := fullBitset(len(r.m.options))
	for _, s := range sieves {
		all.and(s.options)
	}
	bestCount, bestAt := r.typesIn(all), -1 // a rule that takes nothing out is no miss
	var bestLeft bitset
	for k := range sieves {
		left := fullBitset(len(r.m.options))
		for j, s := range sieves {
			if j != k {
				left.and(s.options)
			}
		}
		if n := r.typesIn(left); n > bestCount {
			bestCount, bestAt, bestLeft = n, k, left
		}
	}
	if bestAt < 0 {
		return why.Reason{}, false
	}
	var pools []string
	for i := range bestLeft.each {
		if n := r.m.variants[r.m.options[i].variant].pool.Name; !slices.Contains(pools, n) {
			pools = append(pools, n)
		}
	}
	text := fmt.Sprintf("nearest miss: fits %s of pool %s but for %s", why.Count(bestCount, "type"), pools[0], sieves[bestAt].text)
	if len(pools) > 1 {
		text = fmt.Sprintf("nearest miss: fits %s of %s but for %s", why.Count(bestCount, "type"), why.Count(len(pools), "pool"), sieves[bestAt].text)
	}
	return why.Counted(why.NearestMiss, bestCount, 0, text), true
}

// full is every option that is not a reservation with nothing left; nil if there is none of these.
func (m *Model) full() bitset {
	var out bitset
	for i := range m.options {
		if off := m.options[i].off; off.Available && off.Full() {
			if out == nil {
				out = fullBitset(len(m.options))
			}
			out.drop(i)
		}
	}
	return out
}
