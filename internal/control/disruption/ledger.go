package disruption

import (
	"fmt"
	"slices"
	"strings"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// ledgerRecorder keeps what is decided in the ledger: each move from its beginning to its end, and of the nodes that stay a summary, whenever
// that changes.
type ledgerRecorder struct {
	ledger *ledger.Ledger
	// stay is the entry about nodes that stay, with what it is about and says.
	stay       uint64
	kinds, sum string
}

// decided keeps what a decision came to, with what it was made from if that is news.
func (b *ledgerRecorder) decided(p *plan, d *disrupt.Decision, m ledger.Moment) {
	if b.ledger == nil {
		return
	}
	e, kinds := refusal(p.in, d)
	news := e != nil && kinds != b.kinds
	if len(d.Moves) > 0 || news {
		m.Answer = &ledger.Answer{Decision: ledger.NewDecisionAnswer(p.in, d)}
		p.input = b.ledger.Record(m)
	}
	switch {
	case e == nil:
		b.kinds, b.sum = "", ""
	case news:
		e.Input, e.Recorded = p.input, p.input != ""
		b.stay, b.kinds, b.sum = b.ledger.Add(*e), kinds, e.Summary
	case e.Summary != b.sum:
		b.ledger.Change(b.stay, func(old *ledger.Entry) { old.Summary, old.Why = e.Summary, e.Why })
		b.sum = e.Summary
	}
}

// refusal sums up why nodes stay that are to go sooner or later; nil if there are none. kinds changes when there is another reason.
func refusal(in *disrupt.Input, d *disrupt.Decision) (e *ledger.Entry, kinds string) {
	type group struct {
		code  why.Code
		count int
		first why.Reason
		node  string
	}
	var groups []*group
	byCode := map[why.Code]*group{}
	total := 0
	for _, k := range d.Kept {
		facts := &in.Nodes[k.Node]
		if facts.Fixed != "" || !facts.Consolidatable && facts.Drift == "" && facts.Illness == nil {
			continue
		}
		total++
		g := byCode[k.Why.Code]
		if g == nil {
			g = &group{code: k.Why.Code, first: k.Why, node: in.World.Nodes[k.Node].Name}
			byCode[k.Why.Code] = g
			groups = append(groups, g)
		}
		g.count++
	}
	if total == 0 {
		return nil, ""
	}
	slices.SortFunc(groups, func(a, b *group) int { return strings.Compare(string(a.code), string(b.code)) })
	e = &ledger.Entry{Kind: ledger.Refusal, Reason: "Unconsolidatable", Outcome: ledger.Noted}
	var parts []string
	for _, g := range groups {
		kinds += string(g.code) + " "
		parts = append(parts, fmt.Sprintf("%d such as %s: %s", g.count, g.node, g.first.Line()))
		e.Why = append(e.Why, why.Counted(g.code, g.count, total, "node "+g.node+" and others like it: "+g.first.Line()))
		e.About = append(e.About, ledger.Ref{Kind: "Node", Name: g.node})
	}
	verb := "stay"
	if total == 1 {
		verb = "stays"
	}
	e.Summary = fmt.Sprintf("%s that could be removed %s; %s", why.Count(total, "node"), verb, strings.Join(parts, "; "))
	return e, kinds
}

// words is what a summary calls nodes that go for a reason.
var words = map[disrupt.Reason]string{disrupt.Empty: "empty", disrupt.Drifted: "drifted", disrupt.Underutilized: "underused", disrupt.Unhealthy: "unhealthy"}

// begun keeps a move that has begun.
func (b *ledgerRecorder) begun(s *start) {
	if b.ledger == nil {
		return
	}
	e := ledger.Entry{
		Kind: ledger.Move, Reason: string(s.reason), Key: s.id, Why: []why.Reason{s.move.Why}, Evicts: s.move.Evicts, Saves: s.move.Saves,
		Input: s.plan.input, Recorded: s.plan.input != "", Outcome: ledger.Open,
	}
	snap := s.plan.in.World
	for _, n := range s.nodes {
		e.Remove = append(e.Remove, leaves(n))
	}
	for i, n := range s.move.Add {
		m := model.NewNode(snap, n)
		if i < len(s.to) {
			m.Claim = s.to[i]
		}
		if s.first {
			break // it is planned when there is room for it
		}
		e.Add = append(e.Add, m)
	}
	e.Summary = ledger.MoveSummary(words[s.reason], &e)
	if s.reboot {
		e.Summary, e.Remove = fmt.Sprintf("%s is rebooted: %s", why.List(nodeNames(s.nodes), 1), s.move.Why.Line()), nil
		for _, n := range s.nodes {
			e.About = append(e.About, ledger.Ref{Kind: "Node", Name: n.World.Name})
		}
	}
	b.ledger.Add(e)
}

// leaves is a node that goes, with the pods that have to move.
func leaves(n *state.Node) model.Node {
	m := model.NodeOf(n.World)
	for i, p := range n.Pods {
		if len(n.World.Pods) == len(n.Pods) && !n.World.Pods[i].Movable {
			continue
		}
		m.Pods = append(m.Pods, p.Namespace+"/"+p.Name)
	}
	return m
}

// ended says what became of a move. One that never began has no entry.
func (b *ledgerRecorder) ended(id string, outcome ledger.Outcome, result string) {
	if e := b.ledger.FindOpen(ledger.Move, id); e != nil {
		b.ledger.Settle(e.ID, outcome, result)
	}
}
