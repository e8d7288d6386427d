package pack

import (
	"cmp"
	"slices"
	"strings"

	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// Solve plans the pending pods of a snapshot.
func Solve(s *world.Snapshot, opt Options) *Plan {
	return Prepare(s, opt).Solve(s.Over())
}

// Solve answers one question about the snapshot that the model was prepared from.
//
// Nodes that limits, reservations or minValues do not allow come to light only in packing, when other pods have been placed
// counting on them. Then everything is decided again with what was
// refused left out, until nothing is refused. The same goes for domains that turn out to exist.
func (m *Model) Solve(ov *world.Overlay) *Plan {
	plan := m.solve(ov)
	if plan.Placed == plan.Pods || plan.Spare == 0 {
		return plan
	}
	// Nodes that are opened for spare pods are domains that other pods have to reckon with. Nobody who exists waits for that.
	without := *ov
	without.Spare = nil
	alone := m.solve(&without)
	if alone.Placed <= plan.Placed {
		return plan
	}
	alone.refuseSpare(ov.Spare)
	return alone
}

// refuseSpare adds spare pods to a plan that has left them out.
func (p *Plan) refuseSpare(pods []*world.Pod) {
	p.Spare = len(pods)
	byClass := map[int32]*Unplaced{}
	for _, pod := range pods {
		u := byClass[pod.Class]
		if u == nil {
			u = &Unplaced{Reasons: []why.Reason{why.New(why.Spare, "room for it would leave pods that exist unschedulable")}}
			byClass[pod.Class] = u
			p.Unplaced = append(p.Unplaced, u)
		}
		u.Pods = append(u.Pods, pod)
	}
}

func (m *Model) solve(ov *world.Overlay) *Plan {
	best, run, outcomes := m.solvePreferring(ov, nil)
	if m.opt.Quick || len(best.Nodes) == 0 {
		return best
	}
	if best.Pods+best.Spare <= maxPreferringPods {
		for _, l := range run.preferredDomains() {
			if plan, r, o := m.solvePreferring(ov, &l); cheaperPlan(plan, best) {
				best, run, outcomes = plan, r, o
			}
		}
	}
	run.prove(best, outcomes)
	return best
}

// Pods that may choose their domain choose it before anything is packed. In a small batch, all of them in one domain can save a
// node, so each domain is tried as the one to prefer; in a large batch that makes no difference.
const (
	maxPreferringPods = 300
	maxPreferred      = 9
)

// preferredDomain is a domain to prefer where the rules leave a choice.
type preferredDomain struct{ key, domain string }

// cheaperPlan says whether a is better than b: more pods placed, or more spare pods kept, or the same for less.
func cheaperPlan(a, b *Plan) bool {
	if a.Placed != b.Placed {
		return a.Placed > b.Placed
	}
	if a.Kept != b.Kept {
		return a.Kept > b.Kept
	}
	return fewer(a.Price+a.NodeCost, b.Price+b.NodeCost, len(a.Nodes), len(b.Nodes))
}

// solvePreferring plans with a domain preferred.
func (m *Model) solvePreferring(ov *world.Overlay, prefer *preferredDomain) (*Plan, *run, []outcome) {
	l := &retryConstraints{quota: quotas{}, domains: map[domainKey]bool{}, hosts: map[int]bool{}, prefer: prefer}
	for round := 0; ; round++ {
		r := m.newRun(ov, l)
		r.assign()
		outcomes := r.pack()
		refused, surprised := r.refused(outcomes, round < gentleRounds), r.surprised(outcomes)
		if !refused && !surprised {
			return r.plan(outcomes), r, outcomes
		}
	}
}

// preferredDomains lists the domains that new nodes can have, by name.
func (r *run) preferredDomains() []preferredDomain {
	var out []preferredDomain
	seen := map[int]bool{}
	for _, gs := range r.groups {
		t := gs.g.topo
		if gs.g.host || seen[t.id] {
			continue
		}
		seen[t.id] = true
		for c := range r.cells.cells {
			if d := t.option[r.cells.cells[c].rep]; d >= 0 {
				out = append(out, preferredDomain{t.key, t.domains[d]})
			}
		}
	}
	slices.SortFunc(out, func(a, b preferredDomain) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.domain, b.domain))
	})
	out = slices.Compact(out)
	return out[:min(len(out), maxPreferred)]
}

// retryConstraints is what earlier rounds have shown.
type retryConstraints struct {
	quota quotas
	// domains holds those that other pods' nodes open: a spread takes its minimum over them too, though its own pods could not
	// have opened a node there.
	domains map[domainKey]bool
	// hosts holds the host spreads (by group) for which an empty node is opened.
	hosts  map[int]bool
	prefer *preferredDomain
}

type domainKey struct {
	class  int32
	group  int
	domain int32
}

// gentleRounds is how often a place that took some pods may take as many again; after that it takes none, so that the end is
// certain.
const gentleRounds = 6

// quotas bounds how many pods of a class may ask for new nodes in a place. What is not listed has no bound.
type quotas map[quotaKey]int

type quotaKey struct {
	class int32
	place string
}

// refused lowers the quotas to what was packed, and says whether something was not.
func (r *run) refused(outcomes []outcome, gentle bool) bool {
	any := false
	for _, o := range outcomes {
		for i, n := range o.left {
			demands := o.p.items[i].demands
			for k := len(demands) - 1; k >= 0 && n > 0; k-- {
				d := demands[k]
				back := min(n, d.copies())
				n -= back
				any = true
				for _, x := range d.parts {
					key := quotaKey{x.rc.c.ID, x.place}
					kept := x.rc.asked[x.place] - back
					if d.bundle {
						kept = x.rc.asked[x.place] - len(x.pods)
					}
					if old, ok := r.retry.quota[key]; (ok && kept >= old) || !gentle {
						kept = 0
					}
					r.retry.quota[key] = max(kept, 0)
				}
			}
		}
	}
	return any
}
