package replicas

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"karpenter/internal/control/provision"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// maxWhy is how many nodes of one decision an entry explains one by one.
const maxWhy = 50

// entries keeps what is decided about static pools in the ledger.
type entries struct {
	ledger *ledger.Ledger
	short  map[string]lack // by pool
	input  string          // names the recording of the decision that is being carried out
}

// lack is an entry about nodes that cannot be made.
type lack struct {
	id      uint64
	summary string
}

// decided keeps what a decision was made from, if something is to be done.
func (b *entries) decided(m ledger.Moment) {
	b.input = ""
	if slices.ContainsFunc(m.Answer.Static, func(s model.Scaling) bool { return len(s.Add)+len(s.Remove) > 0 }) {
		b.input = b.ledger.Record(m)
	}
}

// added keeps that a pool gets nodes, and returns the entry.
func (b *entries) added(view *state.View, s *disrupt.Scaling, list []*provision.Draft) uint64 {
	if b.ledger == nil || len(list) == 0 {
		return 0
	}
	e := ledger.Entry{Kind: ledger.Plan, Reason: "Provisioned", Outcome: ledger.Open, About: about(s.Pool), Input: b.input, Recorded: b.input != ""}
	for i, d := range list {
		node := model.NewNode(view.World, d.Node)
		node.Claim = d.Claim.Name
		e.Add = append(e.Add, node)
		e.Saves -= node.Price
		if i < maxWhy {
			e.Why = append(e.Why, why.Reason{Code: why.Chosen, Text: d.Claim.Name + ": " + node.Words(), Because: d.Node.Why})
		}
	}
	e.Summary = ledger.StaticSummary(s.Pool, e.Add, s.Have(), int(s.Replicas))
	return b.ledger.Add(e)
}

// settle says what became of the claims of an entry.
func (b *entries) settle(entry uint64, errs []error) {
	if b.ledger == nil || entry == 0 {
		return
	}
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	if failed == 0 {
		b.ledger.Settle(entry, ledger.Done, why.Count(len(errs), "claim")+" created")
		return
	}
	b.ledger.Settle(entry, ledger.Failed, fmt.Sprintf("%d of %s could not be created: %v", failed, why.Count(len(errs), "claim"), errors.Join(errs...)))
}

// removed keeps that a pool loses nodes.
func (b *entries) removed(view *state.View, s *disrupt.Scaling, list []disrupt.Leaver) {
	if b.ledger == nil || len(list) == 0 {
		return
	}
	e := ledger.Entry{Kind: ledger.Removal, Reason: ReasonScaledDown, Outcome: ledger.Done, About: about(s.Pool), Input: b.input, Recorded: b.input != ""}
	for i, r := range list {
		n := view.Nodes[r.Node]
		e.Remove = append(e.Remove, model.NodeOf(n.World))
		e.Saves += n.World.Price
		if i < maxWhy {
			e.Why = append(e.Why, why.Reason{Code: why.Chosen, Text: n.World.Name, Because: []why.Reason{r.Why}})
		}
	}
	e.Summary = fmt.Sprintf("%d nodes of static pool %s are removed: replicas is %d, saving %s", len(list), s.Pool, s.Replicas, why.Money(e.Saves))
	if len(list) == 1 {
		e.Summary = fmt.Sprintf("node %s of static pool %s is removed: replicas is %d, saving %s", view.Nodes[list[0].Node].World.Name, s.Pool, s.Replicas, why.Money(e.Saves))
	}
	b.ledger.Add(e)
}

// keep keeps which pools lack nodes that cannot be made, once for as long as that lasts.
func (b *entries) keep(pools []*disrupt.Scaling) {
	if b.ledger == nil {
		return
	}
	current := map[string]bool{}
	for _, s := range pools {
		if s.Short == 0 {
			continue
		}
		current[s.Pool] = true
		was, open := b.short[s.Pool]
		now := lack{was.id, fmt.Sprintf("%d of %s of static pool %s cannot be launched: %s", s.Short, why.Count(int(s.Replicas), "node"), s.Pool, s.Why.Line())}
		switch {
		case !open:
			now.id = b.ledger.Add(ledger.Entry{
				Kind: ledger.Refusal, Reason: string(s.Why.Code), Key: "static " + s.Pool, Outcome: ledger.Open, About: about(s.Pool), Why: []why.Reason{s.Why}, Summary: now.summary,
			})
		case was != now:
			b.ledger.Change(now.id, func(e *ledger.Entry) { e.Summary, e.Why = now.summary, []why.Reason{s.Why} })
		}
		b.short[s.Pool] = now
	}
	for _, pool := range slices.Sorted(maps.Keys(b.short)) {
		if !current[pool] {
			b.ledger.Settle(b.short[pool].id, ledger.Done, "the pool has its nodes, or no longer asks for them")
			delete(b.short, pool)
		}
	}
}

func about(pool string) []ledger.Ref { return []ledger.Ref{{Kind: "NodePool", Name: pool}} }
