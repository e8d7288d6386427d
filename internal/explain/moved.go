package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/engine/why"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// maxMovedPods is how many moved pods an answer about a node names.
const maxMovedPods = 3

// movedPod says when and why a pod was last moved for its cost, and from when on it may be moved again.
func (c *Cluster) movedPod(a *Answer, obj *corev1.Pod) {
	if obj == nil || obj.Spec.NodeName == "" {
		return
	}
	m, ok := c.opt.Moved[string(obj.UID)]
	if !ok {
		return
	}
	text := c.moment(m.At)
	if m.Was != "" {
		text += ", in place of pod " + m.Was
	}
	if m.Times > 1 {
		text += fmt.Sprintf("; %s within a day", why.Count(m.Times, "move"))
	}
	a.fact("moved for cost", text)
	a.fact("may be moved again", c.again(m))
	a.Why = append(a.Why, c.movedBy(m, c.moves(m.Move)))
}

// again is from when on a moved pod may be moved again for its cost.
func (c *Cluster) again(m state.Moved) string {
	if !c.opt.Now.Before(m.Paid) {
		return "now: what it costs less has paid for the last move"
	}
	return c.moment(m.Paid)
}

// moves finds moves in the ledger by their ids.
func (c *Cluster) moves(ids ...string) map[string]*ledger.Entry {
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	if c.opt.Ledger == nil || len(ids) == 0 {
		return nil
	}
	out := map[string]*ledger.Entry{}
	for _, e := range c.opt.Ledger(ledger.Query{Kinds: []ledger.Kind{ledger.Move}, Limit: maxMoves}) {
		if slices.Contains(ids, e.Key) {
			out[e.Key] = e
		}
	}
	return out
}

// movedBy is why a pod was moved.
func (c *Cluster) movedBy(m state.Moved, known map[string]*ledger.Entry) why.Reason {
	switch e := known[m.Move]; {
	case e != nil:
		return why.Reason{Code: why.Chosen, Text: fmt.Sprintf("decision #%d moved it here for its cost: %s", e.ID, e.Summary), Because: e.Why}
	case m.Move != "":
		return why.New(why.Chosen, "move %s moved it here for its cost", m.Move)
	}
	return why.New(why.Chosen, "it replaced another pod shortly before the controller started, which counts as a move")
}

// movedTo names the pods that were moved to a node for their cost, with those that are to stay longest first.
func (c *Cluster) movedTo(a *Answer, n *state.Node) {
	var pods []*corev1.Pod
	for _, p := range n.Pods {
		if _, ok := c.opt.Moved[string(p.UID)]; ok && p.Spec.NodeName != "" {
			pods = append(pods, p)
		}
	}
	moved := func(p *corev1.Pod) state.Moved { return c.opt.Moved[string(p.UID)] }
	slices.SortFunc(pods, func(x, y *corev1.Pod) int {
		return cmp.Or(moved(y).Paid.Compare(moved(x).Paid), strings.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name))
	})
	shown := pods[:min(len(pods), maxMovedPods)]
	var ids []string
	for _, p := range shown {
		ids = append(ids, moved(p).Move)
	}
	known := c.moves(ids...)
	for _, p := range shown {
		m := moved(p)
		text := fmt.Sprintf("pod %s/%s, %s ago", cmp.Or(p.Namespace, corev1.NamespaceDefault), p.Name, span(c.opt.Now.Sub(m.At)))
		if e := known[m.Move]; e != nil {
			text += fmt.Sprintf(" (decision #%d)", e.ID)
		}
		a.fact("moved here", text+"; may be moved again "+c.again(m))
	}
	if more := len(pods) - len(shown); more > 0 {
		a.fact("moved here", why.Count(more, "other pod"))
	}
}
