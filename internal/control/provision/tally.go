package provision

import (
	"fmt"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// RefusedError says that a claim was not created because its pool does not take it now.
type RefusedError struct {
	Pool string
	// Why completes "pool x": "has no room for it: …".
	Why string
}

func (e *RefusedError) Error() string { return "pool " + e.Pool + " " + e.Why }

// charge is what something counts against the limits of a pool.
type charge struct {
	nodes     int64
	resources map[string]int64 // by name
}

func (c *charge) add(o charge, sign int64) {
	c.nodes += sign * o.nodes
	if c.resources == nil {
		c.resources = map[string]int64{}
	}
	for name, v := range o.resources {
		c.resources[name] = world.AddSat(c.resources[name], world.MulSat(sign, v))
	}
}

// chargeOf is what a draft counts against the pool's limits: of each limited resource the most that any of the types it may
// become has (P84).
func chargeOf(d *Draft, limited []string) charge {
	c := charge{nodes: 1, resources: map[string]int64{}}
	for i, name := range d.resources {
		for _, l := range limited {
			if l == name {
				c.resources[name] = mostOf(d.Node.Choices, i)
			}
		}
	}
	return c
}

func mostOf(choices []pack.Choice, resource int) int64 {
	var most int64
	for _, c := range choices {
		capacity := c.Offering.Capacity
		if capacity == nil {
			capacity = c.Type.Capacity
		}
		most = max(most, capacity.Get(resource))
	}
	return most
}

// tally is what pools have and what they may have, at the moment of acting.
type tally struct {
	pools map[string]*account
}

type account struct {
	pool    *world.Pool
	limited []string // names of the pool's limits, in their order
	used    charge
}

// newTally charges pools with their nodes, and with what others are creating right now. Nodes that are being deleted count in static pools
// only (P104).
func newTally(snap *world.Snapshot, underway map[string]*charge) *tally {
	l := &tally{pools: map[string]*account{}}
	for _, p := range snap.Pools {
		a := &account{pool: p, used: charge{resources: map[string]int64{}}}
		for _, limit := range p.Limits {
			a.limited = append(a.limited, snap.Resources[limit.Resource])
		}
		if c := underway[p.Name]; c != nil {
			a.used.add(*c, 1)
		}
		l.pools[p.Name] = a
	}
	for _, n := range snap.Nodes {
		a := l.pools[n.Pool]
		if a == nil || n.Deleting && !a.pool.Static { // a static pool's limit holds whatever state its nodes are in
			continue
		}
		a.used.nodes++
		for i, limit := range a.pool.Limits {
			a.used.resources[a.limited[i]] = world.AddSat(a.used.resources[a.limited[i]], n.Capacity.Get(limit.Resource))
		}
	}
	return l
}

// take enters a draft, or says why it may not be created: what is there plus what is being made never exceeds a limit (P86).
func (l *tally) take(d *Draft) (charge, error) {
	name := d.Node.Pool.Name
	a := l.pools[name]
	switch {
	case a == nil:
		return charge{}, &RefusedError{name, "is gone"}
	case a.pool.Refused != "":
		return charge{}, &RefusedError{name, a.pool.Refused}
	}
	c := chargeOf(d, a.limited)
	if a.pool.MaxNodes >= 0 && a.used.nodes+c.nodes > a.pool.MaxNodes {
		return charge{}, &RefusedError{name, fmt.Sprintf("has no room for it: %d of %d nodes are in use", a.used.nodes, a.pool.MaxNodes)}
	}
	for i, limit := range a.pool.Limits {
		resource := a.limited[i]
		used, more := a.used.resources[resource], c.resources[resource]
		if used > limit.Max || world.AddSat(used, more) > limit.Max {
			r := limit.Resource
			return charge{}, &RefusedError{name, fmt.Sprintf("has no room for it: of its limit of %s %s, %s are in use and the claim may take %s",
				quantity(r, limit.Max), resource, quantity(r, used), quantity(r, more))}
		}
	}
	a.used.add(c, 1)
	return c, nil
}
