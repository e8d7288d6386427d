package disrupt

import (
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// ledger holds moves together against what no single one of them can see: the limits of pools, and what is left of
// reservations.
type ledger struct {
	pools    map[string]*account
	reserved map[string]int // taken of each reservation
}

// account is what a pool has in use of what it limits.
type account struct {
	limits []world.Limit
	used   []int64
	most   int64 // nodes; -1 is no bound
	nodes  int64
}

// newLedger charges pools with their nodes, except those that are leaving.
func newLedger(pools []*world.Pool, nodes []*world.Node) *ledger {
	l := &ledger{pools: map[string]*account{}, reserved: map[string]int{}}
	for _, p := range pools {
		if !p.Static && (p.MaxNodes >= 0 || len(p.Limits) > 0) { // static pools count their nodes themselves
			l.pools[p.Name] = &account{limits: p.Limits, used: make([]int64, len(p.Limits)), most: p.MaxNodes}
		}
	}
	for _, n := range nodes {
		if n != nil && !n.Deleting {
			l.pools[n.Pool].charge(n.Capacity, 1)
		}
	}
	return l
}

func (a *account) charge(capacity world.Resources, sign int64) {
	if a == nil {
		return
	}
	a.nodes += sign
	for k, l := range a.limits {
		a.used[k] = world.AddSat(a.used[k], world.MulSat(capacity.Get(l.Resource), sign))
	}
}

func (a *account) exceeded() bool {
	if a == nil {
		return false
	}
	for k, l := range a.limits {
		if a.used[k] > l.Max {
			return true
		}
	}
	return a.most >= 0 && a.nodes > a.most
}

// try enters a move, or says what it would exceed.
func (l *ledger) try(d *decider, m *Move) (why.Reason, bool) {
	l.enter(d, m, 1)
	for _, n := range m.Add {
		if l.pools[n.Pool.Name].exceeded() {
			l.undo(d, m)
			return why.New(why.Limit, "together with the moves before it, it would exceed the limits of pool %s", n.Pool.Name), false
		}
		if o := n.Choices[0].Offering; o.Reservation != "" && l.reserved[o.Reservation] > o.Remaining {
			l.undo(d, m)
			return why.New(why.Limit, "reservation %s is used up by the moves before it", o.Reservation), false
		}
	}
	return why.Reason{}, true
}

func (l *ledger) undo(d *decider, m *Move) { l.enter(d, m, -1) }

func (l *ledger) enter(d *decider, m *Move, sign int) {
	for _, i := range m.Remove {
		if n := d.nodes[i]; !n.Deleting {
			l.pools[n.Pool].charge(n.Capacity, int64(-sign))
		}
	}
	for _, n := range m.Add {
		l.pools[n.Pool.Name].charge(planned(n).Capacity, int64(sign))
		l.reserve(n, sign)
	}
}

func (l *ledger) reserve(n *pack.NewNode, count int) {
	if o := n.Choices[0].Offering; o.Reservation != "" {
		l.reserved[o.Reservation] += count
	}
}
