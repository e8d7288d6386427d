package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
)

// mark is what a move has written on a claim that it takes away, or on one that it has made.
type mark struct {
	id     string
	reason disrupt.Reason
	began  time.Time
	to     []string
	// from is what is replaced, as pool/type/zone/capacity type.
	from []string
}

// readMark reads "id=… reason=… began=… to=a,b" or "id=… from=a,b"; ok is false if it is neither.
func readMark(text string) (m mark, ok bool) {
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case value == "":
		case key == "id":
			m.id = value
		case key == "reason":
			m.reason = disrupt.Reason(value)
		case key == "began":
			m.began, _ = time.Parse(time.RFC3339, value)
		case key == "to":
			m.to = strings.Split(value, ",")
		case key == "from":
			m.from = strings.Split(value, ",")
		}
	}
	return m, m.id != ""
}

// MoveIDs are the ids of the moves that a claim with these annotations is part of.
func MoveIDs(annotations map[string]string) (ids []string) {
	for _, key := range []string{v1.MoveAnnotationKey, v1.MovedFromAnnotationKey} {
		if m, ok := readMark(annotations[key]); ok {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// moveNote says which move takes a claim away, or has made it.
func (c *Cluster) moveNote(a *Answer, cl *v1.NodeClaim) {
	if m, ok := readMark(cl.Annotations[v1.MoveAnnotationKey]); ok {
		text := fmt.Sprintf("move %s removes it (%s)", m.id, m.reason)
		if !m.began.IsZero() {
			text += ", begun " + span(c.opt.Now.Sub(m.began)) + " ago"
		}
		if len(m.to) > 0 {
			text += "; replaced by " + why.List(m.to, maxNamed)
		}
		a.Why = append(a.Why, why.New(why.Chosen, "%s", text))
	}
	if m, ok := readMark(cl.Annotations[v1.MovedFromAnnotationKey]); ok {
		text := fmt.Sprintf("move %s launched it", m.id)
		if len(m.from) > 0 {
			text += " to replace " + why.List(m.from, maxNamed)
		}
		a.Why = append(a.Why, why.New(why.Chosen, "%s", text))
	}
}

// onClaims is a move as it stands on claims.
type onClaims struct {
	mark
	going, made []*v1.NodeClaim
}

// marked lists the moves that stand on claims, by their id.
func (c *Cluster) marked() map[string]*onClaims {
	out := map[string]*onClaims{}
	at := func(m mark) *onClaims {
		if out[m.id] == nil {
			out[m.id] = &onClaims{mark: mark{id: m.id}}
		}
		return out[m.id]
	}
	_, claims := c.view.Strays()
	claims = slices.Clone(claims)
	for _, n := range c.view.Nodes {
		if n.Claim != nil {
			claims = append(claims, n.Claim)
		}
	}
	slices.SortFunc(claims, func(a, b *v1.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
	for _, claim := range claims {
		if m, ok := readMark(claim.Annotations[v1.MoveAnnotationKey]); ok {
			x := at(m)
			x.reason, x.began, x.to = m.reason, m.began, m.to
			x.going = append(x.going, claim)
		}
		if m, ok := readMark(claim.Annotations[v1.MovedFromAnnotationKey]); ok {
			x := at(m)
			x.from = m.from
			x.made = append(x.made, claim)
		}
	}
	return out
}

// Move says what came of a move: by the number of its decision, or by the id that it writes on claims. Either way the answer is
// the same. A move that the ledger does not know, as it was begun by another process or as there is no ledger, is told from its claims.
func (c *Cluster) Move(id string) (*Answer, error) {
	id = strings.TrimPrefix(id, "#")
	var known []string
	var found *ledger.Entry
	if c.opt.Ledger != nil {
		for _, e := range c.opt.Ledger(ledger.Query{Kinds: []ledger.Kind{ledger.Move, ledger.Removal}, Limit: maxMoves}) {
			number := strconv.FormatUint(e.ID, 10)
			if number == id || e.Key == id {
				found = e
				break
			}
			known = append(known, number)
		}
	}
	moves := c.marked()
	if found != nil {
		return c.entryMove(found, moves[found.Key]), nil
	}
	if m := moves[id]; m != nil {
		return c.markedMove(m), nil
	}
	known = append(known, slices.Sorted(maps.Keys(moves))...)
	e := &NotFound{Kind: "move", Name: id, Similar: why.Similar(id, known)}
	switch _, err := strconv.ParseUint(id, 10, 64); {
	case c.opt.Ledger == nil && err == nil:
		e.Similar, e.Note = "", "numbers are those of the controller's ledger, which is not asked here"
		if len(known) > 0 {
			e.Note += "; moves that stand on claims: " + why.List(known, maxNamed)
		}
	case len(known) > 0:
		e.Note = "moves that are known: " + why.List(known, maxNamed)
	default:
		e.Note = "no move is known here"
	}
	return nil, e
}

// maxMoves is how many decisions are looked through for a move: more than a ledger keeps.
const maxMoves = 2 * ledger.DefaultSize

// markedMove is about a move as it stands on claims.
func (c *Cluster) markedMove(m *onClaims) *Answer {
	a := &Answer{Subject: ledger.Ref{Kind: "Move", Name: m.id}}
	if len(m.going) == 0 {
		a.Verdict = "is over: what it removed is gone; it launched " + why.List(claimNames(m.made), maxNamed)
	} else {
		a.Verdict = fmt.Sprintf("is under way (%s): removes %s", m.reason, why.List(claimNames(m.going), maxNamed))
		if len(m.to) > 0 {
			a.Verdict += ", replaced by " + why.List(m.to, maxNamed)
		}
	}
	c.stages(a, m)
	if len(m.from) > 0 {
		a.fact("replaces", why.List(m.from, maxNamed))
	}
	if !m.began.IsZero() {
		a.fact("begun", c.moment(m.began))
	}
	return a
}

func claimNames(claims []*v1.NodeClaim) (names []string) {
	for _, cl := range claims {
		names = append(names, cl.Name)
	}
	return names
}

// stages says how far each claim of a move has come.
func (c *Cluster) stages(a *Answer, m *onClaims) {
	if m == nil {
		return
	}
	for _, cl := range slices.Concat(m.going, m.made) {
		what := ""
		if n := c.view.Claim(cl.Name); n != nil && n.Claim != nil {
			what = " (" + instance(n.World) + ")"
		}
		l := c.lifeOf(cl)
		r := why.New(why.Chosen, "NodeClaim %s%s: %s", cl.Name, what, l.short)
		r.Because = l.why
		a.Why = append(a.Why, r)
	}
}

// entryMove is about a move as it stands in the ledger, and on its claims as far as they are still there.
func (c *Cluster) entryMove(e *ledger.Entry, on *onClaims) *Answer {
	a := &Answer{Subject: ledger.Ref{Kind: "Move", Name: strconv.FormatUint(e.ID, 10)}, Why: slices.Clone(e.Why), History: []*ledger.Entry{e}}
	state := map[ledger.Outcome]string{ledger.Open: "is under way", ledger.Done: "was carried out", ledger.Failed: "was given up", ledger.Noted: "was noted"}[e.Outcome]
	a.Verdict = fmt.Sprintf("%s: %s", state, e.Summary)
	if e.Result != "" {
		a.Verdict += "; " + e.Result
	}
	c.stages(a, on)
	if e.Key != "" {
		a.fact("on claims", e.Key)
	}
	for _, x := range []struct {
		name string
		list []model.Node
	}{{"removes", e.Remove}, {"adds", e.Add}} {
		for _, m := range x.list {
			var parts []string
			for _, s := range []string{m.Node, m.Claim, m.Type, m.Zone, m.CapacityType} {
				if s != "" && !slices.Contains(parts, s) {
					parts = append(parts, s)
				}
			}
			if m.Price > 0 {
				parts = append(parts, why.Money(m.Price))
			}
			a.fact(x.name, strings.Join(parts, ", "))
		}
	}
	a.fact("restarts", strconv.Itoa(e.Evicts))
	if e.Saves != 0 {
		a.fact("saves", why.Money(e.Saves))
	}
	a.fact("decided", c.moment(e.At))
	if e.OutcomeAt != nil {
		a.fact("over", c.moment(*e.OutcomeAt))
	}
	return a
}
