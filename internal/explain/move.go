package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/ledger"
)

// mark is what a move has written on a claim that it takes away.
type mark struct {
	id     string
	reason disrupt.Reason
	began  time.Time
	to     []string
}

// readMark reads "id=… reason=… began=… to=a,b"; ok is false if it is none.
func readMark(text string) (m mark, ok bool) {
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "id":
			m.id = value
		case "reason":
			m.reason = disrupt.Reason(value)
		case "began":
			m.began, _ = time.Parse(time.RFC3339, value)
		case "to":
			if value != "" {
				m.to = strings.Split(value, ",")
			}
		}
	}
	return m, m.id != ""
}

// moveNote says which move takes a claim away, or has made it.
func (c *Cluster) moveNote(a *Answer, cl *v1.NodeClaim) {
	if m, ok := readMark(cl.Annotations[v1.MoveAnnotationKey]); ok {
		text := fmt.Sprintf("move %s takes it away (%s)", m.id, m.reason)
		if !m.began.IsZero() {
			text += ", begun " + span(c.opt.Now.Sub(m.began)) + " ago"
		}
		if len(m.to) > 0 {
			text += "; replaced by " + list(m.to)
		}
		a.Why = append(a.Why, why.New(why.Chosen, "%s", text))
	}
	if m, ok := readMark(cl.Annotations[v1.MovedFromAnnotationKey]); ok {
		text := fmt.Sprintf("move %s made it", m.id)
		if _, from, found := strings.Cut(cl.Annotations[v1.MovedFromAnnotationKey], "from="); found && from != "" {
			text += " to replace " + strings.ReplaceAll(strings.Fields(from)[0], ",", ", ")
		}
		a.Why = append(a.Why, why.New(why.Chosen, "%s", text))
	}
}

// Move says what came of a move: by the number of its decision, or by the id that it writes on claims.
func (c *Cluster) Move(id string) (*Answer, error) {
	id = strings.TrimPrefix(id, "#")
	var known []string
	if c.opt.Ledger != nil {
		for _, e := range c.opt.Ledger(ledger.Query{Kinds: []ledger.Kind{ledger.Move, ledger.Removal}}) {
			if strconv.FormatUint(e.ID, 10) == id {
				return c.entryMove(e), nil
			}
			known = append(known, strconv.FormatUint(e.ID, 10))
		}
	}
	a := &Answer{Subject: ledger.Ref{Kind: "Move", Name: id}}
	var going, made []string
	var first mark
	for _, n := range c.view.Nodes {
		if n.Claim == nil {
			continue
		}
		if m, ok := readMark(n.Claim.Annotations[v1.MoveAnnotationKey]); ok {
			known = append(known, m.id)
			if m.id == id {
				going, first = append(going, n.Claim.Name), m
			}
		}
		if m, ok := readMark(n.Claim.Annotations[v1.MovedFromAnnotationKey]); ok {
			known = append(known, m.id)
			if m.id == id {
				made = append(made, n.Claim.Name)
			}
		}
	}
	if len(going)+len(made) == 0 {
		slices.Sort(known)
		known = slices.Compact(known)
		e := &NotFound{Kind: "move", Name: id, Similar: why.Similar(id, known)}
		if len(known) > 0 {
			e.Note = "moves that are known: " + list(known)
		} else {
			e.Note = "no move is known here"
		}
		return nil, e
	}
	c.markedMove(a, first, going, made)
	return a, nil
}

// markedMove is about a move as it stands on claims.
func (c *Cluster) markedMove(a *Answer, m mark, going, made []string) {
	if len(going) == 0 {
		a.Verdict = fmt.Sprintf("is over: what it took away is gone; it made %s", list(made))
	} else {
		a.Verdict = fmt.Sprintf("is under way (%s): takes away %s", m.reason, list(going))
		if len(m.to) > 0 {
			a.Verdict += ", replaced by " + list(m.to)
		}
	}
	for _, name := range slices.Concat(going, made) {
		if n := c.view.Claim(name); n != nil && n.Claim != nil {
			l := c.lifeOf(n.Claim)
			r := why.New(why.Chosen, "NodeClaim %s (%s): %s", name, machine(n.World), l.short)
			r.Because = l.why
			a.Why = append(a.Why, r)
		}
	}
	if !m.began.IsZero() {
		a.fact("begun", c.moment(m.began))
	}
}

// entryMove is about a move as it stands in the ledger.
func (c *Cluster) entryMove(e *ledger.Entry) *Answer {
	a := &Answer{Subject: ledger.Ref{Kind: "Move", Name: strconv.FormatUint(e.ID, 10)}, Why: e.Why, History: []*ledger.Entry{e}}
	state := map[ledger.Outcome]string{ledger.Open: "is under way", ledger.Done: "was carried out", ledger.Failed: "was given up", ledger.Noted: "was noted"}[e.Outcome]
	a.Verdict = fmt.Sprintf("%s: %s", state, e.Summary)
	if e.Result != "" {
		a.Verdict += "; " + e.Result
	}
	for _, x := range []struct {
		name string
		list []ledger.Machine
	}{{"removes", e.Remove}, {"adds", e.Add}} {
		for _, m := range x.list {
			var parts []string
			for _, s := range []string{m.Node, m.Claim, m.Type, m.Zone, m.CapacityType} {
				if s != "" && !slices.Contains(parts, s) {
					parts = append(parts, s)
				}
			}
			if m.Price > 0 {
				parts = append(parts, money(m.Price))
			}
			a.fact(x.name, strings.Join(parts, ", "))
		}
	}
	a.fact("restarts", strconv.Itoa(e.Evicts))
	if e.Saves != 0 {
		a.fact("saves", money(e.Saves))
	}
	a.fact("decided", c.moment(e.At))
	if e.OutcomeAt != nil {
		a.fact("over", c.moment(*e.OutcomeAt))
	}
	return a
}
