package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// Node says why a node is still there, or how it goes, and what would let it go.
func (c *Cluster) Node(name string) (*Answer, error) {
	at := slices.IndexFunc(c.view.Nodes, func(n *state.Node) bool { return n.World.Name == name && !n.World.InFlight })
	ref := ledger.Ref{Kind: "Node", Name: name}
	if at < 0 {
		if n := c.view.Claim(name); n != nil && n.Object == nil {
			a, err := c.Claim(name)
			if err == nil {
				a.Why = append([]why.Reason{why.New(why.Hint, "there is no Node %s yet: this is its NodeClaim", name)}, a.Why...)
			}
			return a, err
		}
		return nil, c.noNode(name)
	}
	a := &Answer{Subject: ref}
	n := c.view.Nodes[at]
	switch {
	case n.Claim == nil && n.World.Pool == "":
		a.Verdict = "is not Karpenter's: Karpenter did not launch it and does not remove it"
		a.Why = []why.Reason{why.New(why.Refused, "no NodeClaim stands behind it, and it has no label %s; pods are placed on it all the same", v1.NodePoolLabelKey)}
	case n.World.Deleting:
		c.leavingNode(a, n)
	case n.Claim != nil && n.Claim.Annotations[v1.MoveAnnotationKey] != "":
		c.movingNode(a, n)
	case !n.World.Initialized && n.Claim != nil:
		l := c.lifeOf(n.Claim)
		a.Verdict = "is starting: " + l.short
		a.Why = l.why
	default:
		c.stayingNode(a, int32(at), n)
	}
	c.nodeFacts(a, n, c.in.Nodes[at].Drift)
	if held := c.Decision().Spares[int32(at)]; held != nil {
		a.fact("spare", "holds "+world.HeldWords(held))
	}
	a.Node = model.NewNodeDetail(n)
	a.remember(c.history(ref))
	return a, nil
}

func (c *Cluster) noNode(name string) error {
	var names []string
	for _, n := range c.view.Nodes {
		names = append(names, n.World.Name)
	}
	strays, _ := c.view.Strays()
	for _, n := range strays {
		if n.Name == name {
			return &NotFound{Kind: "node", Name: name, Note: "its Node object is there, but no node of the plan stands for it: it has just appeared or cannot be read"}
		}
	}
	return &NotFound{Kind: "node", Name: name, Similar: why.Similar(name, names)}
}

// stayingNode is about a node that is up: a move removes it, or something keeps it.
func (c *Cluster) stayingNode(a *Answer, at int32, n *state.Node) {
	d := c.Decision()
	for _, m := range d.Moves {
		if slices.Contains(m.Remove, at) {
			c.goingNode(a, at, m)
			return
		}
	}
	for _, k := range d.Kept {
		if k.Node == at {
			a.Why = append(a.Why, k.Why)
		}
	}
	q := c.askAbout(at)
	alone := q.alone()
	switch {
	case len(a.Why) == 0:
		a.Why = append(a.Why, alone.Why)
	case alone.Goes:
		a.Why = append(a.Why, why.New(why.Hint, "looked at alone it could be removed (%s): a later look may do so", strings.TrimPrefix(alone.Move.Why.Text, n.World.Name+" ")))
	case !strings.Contains(a.Why[0].Line(), alone.Why.Text):
		a.Why = append(a.Why, why.Reason{Code: alone.Why.Code, Text: "besides: " + alone.Why.Text, Because: alone.Why.Because})
	}
	a.Verdict = "stays: " + model.Headline(a.Why[0])
	if a.Why[0].Code == why.Limit {
		a.Why = append(a.Why, c.budgetReasons(n.World.Pool, func(r disrupt.Reason) bool { return q.concerns(r) })...)
	}
	if m := alone.Move; m != nil {
		a.Nearest = nearest(m)
	}
	if c.hopeless(at) {
		return
	}
	q.keep(q.nodeTweaks(n))
	q.base = alone.Why.Text
	if a.Change, a.Tried = q.search(); len(a.Change) > 0 {
		return
	}
	if a.Nearest != nil {
		a.Verdict += "; the cheapest alternative is " + a.Nearest.Text
	}
	if len(q.tweaks) > 0 {
		a.Tried = append(a.Tried, why.New(why.NextBest, "no one or two changes would let it be removed"))
	}
}

// hopeless says that nothing that could be changed lets the node go: its pool is gone or keeps a fixed number.
func (c *Cluster) hopeless(at int32) bool {
	pool := c.world.Nodes[at].Pool
	i := slices.IndexFunc(c.in.Pools, func(p disrupt.Pool) bool { return p.Name == pool })
	return i < 0 || c.in.Pools[i].Static
}

// goingNode is about a node that a move takes away.
func (c *Cluster) goingNode(a *Answer, at int32, m *disrupt.Move) {
	verb := "removed"
	if m.Reboot {
		verb = "rebooted"
	}
	a.Verdict = fmt.Sprintf("is to be %s (%s): %s", verb, m.Reason, m.Why.Text)
	a.Why = []why.Reason{m.Why}
	for _, n := range m.Add {
		r := why.New(why.Chosen, "%s takes %s", alternative(n.Pool.Name, n.Choices[0]).Text, why.Count(len(n.Pods), "pod"))
		r.Because = n.Why
		a.Why = append(a.Why, r)
	}
	for _, f := range m.Filled {
		a.Why = append(a.Why, why.New(why.Chosen, "node %s takes %s", f.Node.Name, why.Count(len(f.Pods), "pod")))
	}
	if others := len(m.Remove) - 1; others > 0 {
		var names []string
		for _, i := range m.Remove {
			if i != at {
				names = append(names, c.world.Nodes[i].Name)
			}
		}
		a.Why = append(a.Why, why.New(why.Chosen, "it is removed together with %s", why.List(names, maxNamed)))
	}
}

// nearest is what a move would put in place of what it removes.
func nearest(m *disrupt.Move) *Alternative {
	if len(m.Add) == 0 {
		return &Alternative{Text: fmt.Sprintf("room on %s, saving %s", why.Count(len(m.Filled), "other node"), why.Money(m.Saves))}
	}
	dearest := m.Add[0]
	total := 0.0
	for _, n := range m.Add {
		total += n.Price()
	}
	a := alternative(dearest.Pool.Name, dearest.Choices[0])
	if len(m.Add) > 1 {
		a.Text = additions(m)
	}
	a.Price = total
	if same(m.Saves) {
		a.Text += ", which would save nothing"
	} else if m.Saves > 0 {
		a.Text += fmt.Sprintf(", which would save %s", why.Money(m.Saves))
	} else {
		a.Text += fmt.Sprintf(", which would cost %s more", why.Money(-m.Saves))
	}
	return a
}

// movingNode is about a node that a move is about to take away.
func (c *Cluster) movingNode(a *Answer, n *state.Node) {
	m, _ := readMark(n.Claim.Annotations[v1.MoveAnnotationKey])
	a.Verdict = fmt.Sprintf("is to be removed (%s): move %s is under way", m.reason, m.id)
	var waits []string
	for _, name := range m.to {
		if r := c.view.Claim(name); r != nil && r.Claim != nil {
			l := c.lifeOf(r.Claim)
			reason := why.New(why.Chosen, "NodeClaim %s (%s), which replaces it: %s", name, instance(r.World), l.short)
			reason.Because = l.why
			a.Why = append(a.Why, reason)
			if !l.up {
				waits = append(waits, name)
			}
		}
	}
	if len(waits) > 0 {
		a.Verdict += " and waits for " + why.List(waits, maxNamed)
	}
	c.moveNote(a, n.Claim)
}

// leavingNode is about a node that is being removed: what it waits for.
func (c *Cluster) leavingNode(a *Answer, n *state.Node) {
	a.Verdict = "is being deleted"
	if n.Claim == nil {
		a.Why = []why.Reason{why.New(why.Refused, "its Node object is being deleted, and no NodeClaim stands behind it")}
		return
	}
	c.moveNote(a, n.Claim)
	deadline := deadlineOf(n.Claim)
	facts := make([]life.Pod, len(n.Pods))
	for i, p := range n.Pods {
		facts[i] = state.Leaving(p)
	}
	plan := life.Drain(facts, deadline, c.opt.Now)
	guards := map[string]string{}
	var tweaks []nodeTweak
	blockers := c.view.Blockers(n, c.opt.Now)
	for _, b := range blockers {
		if !b.Protected {
			guards[string(b.Pod.UID)+b.Pod.Name] = b.Text
		}
	}
	var stuck []string
	for i, step := range plan.Steps {
		p := n.Pods[i]
		text := step.Why
		if guard := guards[string(p.UID)+p.Name]; guard != "" && step.Do == life.Evict {
			text = guard
		}
		if step.Do == life.Skip {
			continue
		}
		name := cmp.Or(p.Namespace, corev1.NamespaceDefault) + "/" + p.Name
		a.Why = append(a.Why, why.New(why.Refused, "pod %s: %s", name, text))
		if step.Protected || guards[string(p.UID)+p.Name] != "" && step.Do == life.Evict {
			stuck = append(stuck, name)
		}
	}
	switch {
	case len(stuck) > 0:
		a.Verdict += fmt.Sprintf(", but held up by %s: %s", why.Count(len(stuck), "pod"), why.List(stuck, maxNamed))
		tweaks = blockerTweaks(blockers)
	case plan.Waiting > 0:
		a.Verdict += fmt.Sprintf(": %s must still be evicted", why.Count(plan.Waiting, "pod"))
	default:
		a.Verdict += ": its pods are gone"
	}
	for _, w := range tweaks {
		a.Change = append(a.Change, Change{Text: sentence(w.what + " would let the drain go on, which frees " + freed(n.World)), Frees: typeOf(n.World)})
	}
	c.endNotes(a, n.Claim)
	if !deadline.IsZero() {
		a.Why = append(a.Why, why.New(why.Chosen, "terminationGracePeriod ends all waiting at %s", c.moment(deadline)))
	} else if len(stuck) > 0 {
		a.Why = append(a.Why, why.New(why.Hint, "it has no terminationGracePeriod, so that it waits for as long as it takes"))
	}
}

// nodeFacts lists what is known of a node.
func (c *Cluster) nodeFacts(a *Answer, n *state.Node, drift string) {
	w := n.World
	a.fact("type", instance(w))
	if w.PricedBy != "" {
		a.fact("price", fmt.Sprintf("%s, by NodeOverlay %s; the list price is %s", why.Money(w.Price), w.PricedBy, why.Money(w.ListPrice)))
	}
	a.fact("pool", w.Pool)
	a.fact("claim", w.Claim)
	if n.Object != nil && n.Object.CreationTimestamp.Unix() > 0 {
		a.fact("age", span(c.opt.Now.Sub(n.Object.CreationTimestamp.Time)))
	}
	movable := 0
	for _, p := range w.Pods {
		if p.Movable && !p.Terminating {
			movable++
		}
	}
	a.fact("pods", fmt.Sprintf("%d, of which %d would move", len(w.Pods), movable))
	load := w.Load(c.world.Classes)
	for _, d := range []int{world.CPU, world.Memory} {
		if x := (model.Amount{Requested: load.Requests.Get(d), Allocatable: w.Allocatable.Get(d)}); x.Allocatable > 0 {
			a.fact(c.world.Resources[d], fmt.Sprintf("%s of %s requested (%s)", c.amount(d, x.Requested), c.amount(d, x.Allocatable), why.Percent(x.Share())))
		}
	}
	a.fact("drifted", drift)
	c.movedTo(a, n)
	if n.Claim != nil && n.World.Initialized {
		c.expiry(a, n.Claim)
		if since := c.view.QuietSince(n); !since.IsZero() && since.Unix() > 0 {
			a.fact("quiet for", span(c.opt.Now.Sub(since)))
		}
	}
}
