package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/model"
)

// consolidation is the moves as they are printed.
type consolidation struct {
	model.Type
	// Estimate says what prices are if nobody in the cluster has said it.
	Estimate     string         `json:"estimate,omitempty"`
	DecideMillis float64        `json:"decideMillis"`
	FirstMillis  float64        `json:"firstMoveMillis"`
	LoadMillis   float64        `json:"loadMillis"`
	AllocatedMiB float64        `json:"allocatedMiB"`
	Before       model.Cost     `json:"before"`
	After        model.Cost     `json:"after"`
	Moves        []model.Move   `json:"moves"`
	Kept         []model.Kept   `json:"kept"`
	Ignored      []ignoredThing `json:"ignored"`
}

// consolidate prints what the controller would do about the nodes that there are.
func (p *planning) consolidate(cmd *cobra.Command, in *inputs) error {
	opt, recording := in.options, in.loaded.Recording
	now := recording.At
	view, more := recording.Rebuild(in.objects)
	if in.loaded.plain {
		recording.Facts.Repair = known[0].Repair
	}
	loaded := p.now()
	facts := recording.Input(view)
	var first time.Time
	opt.Found = func(*disrupt.Move) {
		if first.IsZero() {
			first = p.now()
		}
	}
	allocated := allocation()
	begin := p.now()
	d := disrupt.Decide(facts, opt, now)
	decided := p.now()
	if in.loaded.plain && slices.ContainsFunc(facts.Nodes, func(n disrupt.Node) bool { return n.Illness != nil }) {
		fmt.Fprintln(cmd.ErrOrStderr(), "unhealthy nodes are shown as the feature gate NodeRepair has them repaired: objects do not say whether it is on, and by default it is off")
	}
	r := newConsolidation(view.World, d)
	r.Estimate = in.loaded.Estimate
	r.AllocatedMiB = allocated()
	r.LoadMillis, r.DecideMillis = millis(loaded.Sub(in.start)), millis(decided.Sub(begin))
	if !first.IsZero() {
		r.FirstMillis = millis(first.Sub(begin))
	}
	r.Ignored = ignored(in.objects, append(in.problems, more...))
	return p.write(cmd.OutOrStdout(), r, r.Estimate, r.print)
}

func newConsolidation(s *world.Snapshot, d *disrupt.Decision) *consolidation {
	m := model.NewDecision(s, d, model.AllTypes)
	return &consolidation{
		Type:   model.TypeOf(model.KindConsolidation),
		Before: model.Cost{Nodes: d.NodesBefore, Price: d.Before}, After: model.Cost{Nodes: d.NodesAfter, Price: d.After}, Moves: m.Moves, Kept: m.Kept,
	}
}

// print writes the moves for people.
func (r *consolidation) print(w io.Writer, l look) error {
	if len(r.Moves) > 0 {
		rows := [][]string{{"REASON", "REMOVE", "ADD", "RESTARTS", "SAVES " + about(r.Estimate) + "$/H", "WHY"}}
		for _, m := range r.Moves {
			add := kinds(m.Add)
			if m.Reboot {
				add = "(rebooted)"
			}
			rows = append(rows, []string{m.Reason, shortPods(m.Remove), add, fmt.Sprint(m.Evicts), why.Price(m.Saves), marked(m.Why.Line(), r.Estimate)})
		}
		if err := l.list(w, rows); err != nil {
			return fmt.Errorf("print moves: %w", err)
		}
	}
	if len(r.Kept) > 0 {
		rows := [][]string{{"KEPT", "WHY"}}
		for _, k := range r.Kept {
			rows = append(rows, []string{k.Node, marked(k.Why.Line(), r.Estimate)})
		}
		fmt.Fprintln(w)
		if err := l.list(w, rows); err != nil {
			return fmt.Errorf("print moves: %w", err)
		}
	}
	printIgnored(w, r.Ignored)
	share := ""
	if r.Before.Price > 0 {
		share = fmt.Sprintf(", %s less", why.Tenths(1-r.After.Price/r.Before.Price))
	}
	restarts := 0
	for _, m := range r.Moves {
		restarts += m.Evicts
	}
	fmt.Fprintf(w, "\n%s for %s become %d for %s%s: %s, %s. Decided in %.1f ms.\n",
		count(r.Before.Nodes, "node", "nodes"), why.Money(r.Before.Price), r.After.Nodes, why.Money(r.After.Price), share, count(len(r.Moves), "move", "moves"), count(restarts, "restart", "restarts"), r.DecideMillis)
	added, removed := 0, 0
	for _, m := range r.Moves {
		if m.Reboot {
			continue
		}
		added, removed = added+len(m.Add), removed+len(m.Remove)
	}
	fmt.Fprintln(w, summary(added, removed, (r.After.Price-r.Before.Price)*model.HoursPerMonth))
	printEstimate(w, r.Estimate)
	return nil
}
