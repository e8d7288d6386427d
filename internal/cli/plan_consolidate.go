package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/world"
	"karpenter/internal/explain"
)

// consolidation is the moves as they are printed.
type consolidation struct {
	// Estimate says what prices are if nobody in the cluster has said it.
	Estimate     string         `json:"estimate,omitempty"`
	DecideMillis float64        `json:"decideMillis"`
	FirstMillis  float64        `json:"firstMoveMillis"`
	LoadMillis   float64        `json:"loadMillis"`
	AllocatedMiB float64        `json:"allocatedMiB"`
	Before       fleetReport    `json:"before"`
	After        fleetReport    `json:"after"`
	Moves        []moveReport   `json:"moves"`
	Kept         []keptReport   `json:"kept"`
	Ignored      []ignoredThing `json:"ignored"`
}

type fleetReport struct {
	Nodes int     `json:"nodes"`
	Price float64 `json:"pricePerHour"`
}

type moveReport struct {
	Reason disrupt.Reason `json:"reason"`
	Remove []string       `json:"remove"`
	Add    []nodeReport   `json:"add"`
	Fill   []existing     `json:"fill"`
	Evicts int            `json:"evicts"`
	Saves  float64        `json:"savesPerHour"`
	Why    string         `json:"why"`
}

type keptReport struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// consolidate prints what the controller would do about the nodes that there are.
func (p *planning) consolidate(cmd *cobra.Command, in *inputs) error {
	opt, recording := in.options, in.loaded.Recording
	now := recording.At
	view, more := recording.Rebuild(in.objects)
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
	r := &consolidation{
		Before: fleetReport{d.NodesBefore, d.Before}, After: fleetReport{d.NodesAfter, d.After}, Moves: []moveReport{}, Kept: []keptReport{},
	}
	for _, m := range d.Moves {
		x := moveReport{Reason: m.Reason, Remove: m.Nodes, Add: []nodeReport{}, Fill: []existing{}, Evicts: m.Evicts, Saves: m.Saves, Why: m.Why.Line()}
		for _, n := range m.Add {
			x.Add = append(x.Add, newNodeReport(s, n))
		}
		for _, f := range m.Filled {
			x.Fill = append(x.Fill, existing{Node: f.Node.Name, Pods: podNames(s, f.Pods)})
		}
		r.Moves = append(r.Moves, x)
	}
	for _, k := range d.Kept {
		r.Kept = append(r.Kept, keptReport{Node: s.Nodes[k.Node].Name, Why: k.Why.Line()})
	}
	return r
}

// print writes the moves for people.
func (r *consolidation) print(w io.Writer, l look) error {
	if len(r.Moves) > 0 {
		rows := [][]string{{"REASON", "REMOVE", "ADD", "RESTARTS", "SAVES " + about(r.Estimate) + "$/H", "WHY"}}
		for _, m := range r.Moves {
			rows = append(rows, []string{string(m.Reason), shortPods(m.Remove), shortNodes(m.Add), fmt.Sprint(m.Evicts), fmt.Sprintf("%.4f", m.Saves), marked(m.Why, r.Estimate)})
		}
		if err := l.list(w, rows); err != nil {
			return fmt.Errorf("print moves: %w", err)
		}
	}
	if len(r.Kept) > 0 {
		rows := [][]string{{"KEPT", "WHY"}}
		for _, k := range r.Kept {
			rows = append(rows, []string{k.Node, marked(k.Why, r.Estimate)})
		}
		fmt.Fprintln(w)
		if err := l.list(w, rows); err != nil {
			return fmt.Errorf("print moves: %w", err)
		}
	}
	printIgnored(w, r.Ignored)
	share := ""
	if r.Before.Price > 0 {
		share = fmt.Sprintf(", %.1f %% less", 100*(1-r.After.Price/r.Before.Price))
	}
	restarts := 0
	for _, m := range r.Moves {
		restarts += m.Evicts
	}
	fmt.Fprintf(w, "\n%s for $%.4f/h become %d for $%.4f/h%s: %s, %s. Decided in %.1f ms.\n",
		count(r.Before.Nodes, "node", "nodes"), r.Before.Price, r.After.Nodes, r.After.Price, share, count(len(r.Moves), "move", "moves"), count(restarts, "restart", "restarts"), r.DecideMillis)
	added, removed := 0, 0
	for _, m := range r.Moves {
		added, removed = added+len(m.Add), removed+len(m.Remove)
	}
	fmt.Fprintln(w, summary(added, removed, (r.After.Price-r.Before.Price)*explain.HoursPerMonth))
	printEstimate(w, r.Estimate)
	return nil
}

// shortNodes names the types of new nodes.
func shortNodes(nodes []nodeReport) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.InstanceType
	}
	return shortPods(names)
}
