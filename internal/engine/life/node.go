package life

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// match tells the nodes that can be the claim's from those that only say so. A node object is written by its instance, so
// its provider ID may be somebody else's: one that was there before the claim, or that belongs to another claim, or that
// came after the claim was registered with a first one, changes nothing.
func match(c Claim, nodes []Node) (own []Node, strangers []string) {
	for _, n := range nodes {
		switch {
		case c.Registered.Status == True && c.NodeName != "" && n.Name != c.NodeName,
			c.Registered.Status != True && n.Created.Before(c.Created),
			n.Owner != "" && n.Owner != c.UID:
			strangers = append(strangers, n.Name)
		default:
			own = append(own, n)
		}
	}
	slices.SortFunc(own, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(strangers)
	return own, strangers
}

// register is the step of a launched claim that has no node on record. Once several nodes have claimed its instance it is
// not trusted any more and ends with its deadline (L12).
func register(c Claim, own []Node, limits Limits, now time.Time) Step {
	wait := Step{Do: Hold, Of: Registered}
	switch {
	case c.Registered.Status == False:
	case len(own) == 0:
		wait.Reason, wait.Message = NodeNotFound, "no node carries the instance's provider ID yet"
	case len(own) > 1:
		names := make([]string, len(own))
		for i, n := range own {
			names[i] = n.Name
		}
		wait.Status, wait.Reason = False, MultipleNodesFound
		wait.Message = "more than one node carries the instance's provider ID: " + first(names)
	default:
		return Step{Do: Register, Of: Registered, Node: own[0].Name}
	}
	return late(wait, c, limits, now)
}

// initialize is the step of a registered claim that cannot be used by its pods yet (L11).
func initialize(c Claim, own []Node) Step {
	wait := func(reason, format string, args ...any) Step {
		return Step{Do: Hold, Of: Initialized, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	if len(own) == 0 {
		return wait(NodeNotFound, "node %s does not exist", c.NodeName)
	}
	n := own[0]
	switch {
	case !n.Ready:
		return wait(NodeNotReady, "node %s is not Ready", n.Name)
	case len(common(c.StartupTaints, n.Taints)) > 0:
		return wait(StartupTaintsExist, "startup taints have not been removed: %s", first(common(c.StartupTaints, n.Taints)))
	case len(n.Ephemeral) > 0:
		return wait(KnownEphemeralTaintsExist, "taints of a starting node are still there: %s", first(n.Ephemeral))
	case len(missing(c.Requests, n.Allocatable)) > 0:
		return wait(ResourceNotRegistered, "the node does not offer yet what was asked for: %s", first(missing(c.Requests, n.Allocatable)))
	case len(missing(c.Drivers, n.Drivers)) > 0:
		return wait(DRADriverPoolsNotPublished, "device drivers have not published the node's devices: %s", first(missing(c.Drivers, n.Drivers)))
	}
	return Step{Do: Initialize, Of: Initialized, Node: n.Name}
}

// common are the taints of wanted that are on the node, by key and effect, as text.
func common(wanted, on []Taint) []string {
	var out []string
	for _, w := range wanted {
		if slices.ContainsFunc(on, func(t Taint) bool { return t.Key == w.Key && t.Effect == w.Effect }) {
			out = append(out, w.Key+":"+w.Effect)
		}
	}
	return out
}

func missing(wanted, there []string) []string {
	var out []string
	for _, w := range wanted {
		if !slices.Contains(there, w) {
			out = append(out, w)
		}
	}
	return out
}

// shown bounds how many names a message lists.
const shown = 5

// first prints the first names of a list and how many there are besides.
func first(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d other(s)", strings.Join(names[:shown], ", "), len(names)-shown)
}

// Slice is one part of what a device driver publishes of a node.
type Slice struct {
	Driver, Pool string
	Generation   int64
	// Count is how many slices the pool has in this generation.
	Count int64
}

// Published names the drivers that have at least one pool of which every slice of the newest generation is there (L25),
// sorted.
func Published(parts []Slice) []string {
	type pool struct{ driver, name string }
	type state struct{ generation, count, seen int64 }
	pools := map[pool]state{}
	for _, s := range parts {
		key := pool{s.Driver, s.Pool}
		now, ok := pools[key]
		switch {
		case !ok || s.Generation > now.generation:
			pools[key] = state{s.Generation, s.Count, 1}
		case s.Generation == now.generation:
			now.seen++
			pools[key] = now
		}
	}
	var out []string
	for key, s := range pools {
		if s.seen == s.count {
			out = append(out, key.driver)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
