package disruption

import (
	"slices"
	"strings"
	"time"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state"
)

// command is a move that has begun, as the objects show it.
type command struct {
	record
	// stay are its nodes that have not been deleted yet, going those that have, by us or by others.
	stay, going []*state.Node
	// made are the claims that replace them and are there; lost names those that are not, or are being deleted.
	made []*state.Node
	lost []string
	// late says that what replaces the nodes has had its time.
	late bool
	// forbidden is why its nodes must not be deleted although what replaces them is up, and unknown why that could not be found out.
	forbidden string
	unknown   error
	// looked is when that was asked.
	looked time.Time
}

// kind is what metrics call the type of a consolidation.
func (c *command) kind() string { return kindOf(c.reason, len(c.stay)+len(c.going)) }

// done says whether nothing is left to be decided: every node of the move has been deleted.
func (c *command) done() bool { return len(c.stay) == 0 }

// up says whether everything that replaces the nodes is usable.
func (c *command) up() bool {
	return len(c.lost) == 0 && !slices.ContainsFunc(c.made, func(n *state.Node) bool { return !initialized(n.Claim) })
}

// read finds the moves that have begun, in the order of their ids, and the nodes that look like part of one although no move
// is written on them (D2).
func read(view *state.View) (list []*command, stale []*state.Node) {
	byID := map[string]*command{}
	for _, n := range view.Nodes {
		if n.Claim == nil {
			continue
		}
		going := deleted(n)
		r, ok := recordOf(n.Claim)
		if !ok {
			_, marked := n.Claim.Annotations[karpv1.MoveAnnotationKey]
			if !going && !rebooting(n.Claim) && (marked || tainted(n.Object) || n.Claim.StatusConditions().Get(karpv1.ConditionDisruptionReason) != nil) {
				stale = append(stale, n)
			}
			continue
		}
		c := byID[r.id]
		if c == nil {
			c = &command{record: r}
			byID[r.id] = c
			list = append(list, c)
		}
		if going {
			c.going = append(c.going, n)
		} else {
			c.stay = append(c.stay, n)
		}
	}
	for _, c := range list {
		for _, name := range c.to {
			if n := view.Claim(name); n != nil && !deleted(n) {
				c.made = append(c.made, n)
			} else {
				c.lost = append(c.lost, name)
			}
		}
	}
	slices.SortFunc(list, func(a, b *command) int { return strings.Compare(a.id, b.id) })
	return list, stale
}

// recordOf is what is written on a claim about the move that removes it.
func recordOf(claim *karpv1.NodeClaim) (record, bool) {
	text, marked := claim.Annotations[karpv1.MoveAnnotationKey]
	if !marked {
		return record{}, false
	}
	r, err := parseRecord(text)
	return r, err == nil
}

// deleted says whether the claim or its node has been deleted. A node that goes takes its claim with it.
func deleted(n *state.Node) bool {
	return !n.Claim.DeletionTimestamp.IsZero() || n.Object != nil && !n.Object.DeletionTimestamp.IsZero()
}

// rebooting says whether a claim's instance is being rebooted, which package drain does.
func rebooting(claim *karpv1.NodeClaim) bool {
	return claim.StatusConditions().IsTrue(karpv1.ConditionRebooting)
}

func initialized(claim *karpv1.NodeClaim) bool {
	return claim.StatusConditions().IsTrue(karpv1.ConditionInitialized)
}

// nodeNames lists what the nodes are called.
func nodeNames(nodes []*state.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.World.Name
	}
	return out
}

func poolOf(claim *karpv1.NodeClaim) string { return claim.Labels[karpv1.NodePoolLabelKey] }
