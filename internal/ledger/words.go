package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/why"
	"karpenter/internal/model"
)

// MaxNamed is how many objects an entry names one by one at most where it is about a whole group of them.
const MaxNamed = 1000

// maxWords is how many kinds of instances a sentence names before it counts the rest.
const maxWords = 3

// kinds counts instances by type, the most frequent first: 2 m6i.large, 1 c6i.large.
func kinds(list []model.Node) string {
	count := map[string]int{}
	var names []string
	for i := range list {
		name := cmp.Or(list[i].Type, "unknown type")
		if count[name]++; count[name] == 1 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(count[b]-count[a], strings.Compare(a, b)) })
	var parts []string
	for i, name := range names {
		if i == maxWords {
			parts = append(parts, fmt.Sprintf("%d other types", len(names)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d %s", count[name], name))
	}
	return strings.Join(parts, ", ")
}

func total(list []model.Node) (sum float64) {
	for i := range list {
		sum += list[i].Price
	}
	return sum
}

// fresh describes nodes that are to be launched.
func fresh(list []model.Node) string {
	if len(list) == 1 {
		return "a new " + list[0].Words()
	}
	return fmt.Sprintf("%d new nodes (%s), %s", len(list), kinds(list), why.Money(total(list)))
}

// PlanSummary says what pending pods get, and spare ones in words.
func PlanSummary(pods int, spare string, add []model.Node) string {
	switch {
	case spare == "":
		return why.Does(pods, "pod", "get") + " " + fresh(add)
	case pods == 0:
		return spare + " get " + fresh(add)
	}
	return why.Count(pods, "pod") + " and " + spare + " get " + fresh(add)
}

// LaunchSummary says which instances claims have got.
func LaunchSummary(had []model.Node) string {
	if len(had) == 1 {
		return fmt.Sprintf("claim %s has an instance: %s", had[0].Claim, had[0].Words())
	}
	return fmt.Sprintf("%d claims have instances: %s, %s", len(had), kinds(had), why.Money(total(had)))
}

// MoveSummary says what a move does. word says why its nodes are removed, between the number and the noun: empty, drifted, underused.
func MoveSummary(word string, e *Entry) string {
	var b strings.Builder
	one := len(e.Remove) == 1
	if one {
		m := &e.Remove[0]
		fmt.Fprintf(&b, "%s node %s (%s)", word, cmp.Or(m.Node, m.Claim), m.Words())
	} else {
		fmt.Fprintf(&b, "%d %s nodes (%s, %s)", len(e.Remove), word, kinds(e.Remove), why.Money(total(e.Remove)))
	}
	switch {
	case len(e.Add) > 0 && one:
		b.WriteString(" is replaced by " + fresh(e.Add))
	case len(e.Add) > 0:
		b.WriteString(" are replaced by " + fresh(e.Add))
	case one:
		b.WriteString(" is removed")
	default:
		b.WriteString(" are removed")
	}
	if e.Evicts > 0 && len(e.Add) == 0 {
		b.WriteString(", " + why.Does(e.Evicts, "pod", "move") + " to nodes that have room")
	} else if e.Evicts > 0 {
		b.WriteString(", " + why.Does(e.Evicts, "pod", "restart"))
	}
	if e.Saves >= 0 {
		return b.String() + ", saving " + why.Money(e.Saves)
	}
	return b.String() + ", for " + why.Money(-e.Saves) + " more"
}

// SetPrices has instances of claims priced; nil prices none.
func (l *Ledger) SetPrices(price func(*v1.NodeClaim) float64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.price = price
}

// Node is the node of a claim with its price, as far as they are known.
func (l *Ledger) Node(claim *v1.NodeClaim) model.Node {
	m := model.ClaimNode(claim)
	if l == nil {
		return m
	}
	l.mu.Lock()
	price := l.price
	l.mu.Unlock()
	if price != nil && m.Type != "" {
		m.Price = price(claim)
	}
	return m
}

// Removed keeps that a claim has been deleted for another reason than a move. what completes "node x (m6i.large …)".
func (l *Ledger) Removed(claim *v1.NodeClaim, kind Kind, reason, what string) {
	if l == nil {
		return
	}
	m := l.Node(claim)
	subject := "claim " + m.Claim
	if m.Node != "" {
		subject = "node " + m.Node
	}
	if m.Type != "" {
		subject += " (" + m.Words() + ")"
	}
	l.Add(Entry{Kind: kind, Reason: reason, Summary: subject + " " + what, Remove: []model.Node{m}, Outcome: Done, Saves: m.Price})
}

// FindOpen is the newest entry of a kind that is not over and has the key, or nil.
func (l *Ledger) FindOpen(kind Kind, key string) *Entry {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range slices.Backward(l.entries) {
		if e.Kind == kind && e.Outcome == Open && e.Key == key {
			return e
		}
	}
	return nil
}
