package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"karpenter/api/convert"
	"karpenter/cloud"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/forecast"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// whatIfFlags are the flags that go with -f.
type whatIfFlags struct {
	files       []string
	deleted     []string
	namespace   string
	recursive   bool
	maxIncrease float64
	detailed    bool
}

// manyFlags is what flags of every sort are added to.
type manyFlags interface {
	flagSet
	StringArrayVarP(p *[]string, name, shorthand string, value []string, usage string)
	StringVarP(p *string, name, shorthand, value, usage string)
	BoolVarP(p *bool, name, shorthand string, value bool, usage string)
	Float64Var(p *float64, name string, value float64, usage string)
}

func (w *whatIfFlags) addFlags(f manyFlags) {
	f.StringArrayVarP(&w.files, "filename", "f", nil, "manifests that nobody has applied: a file, a directory, or - for standard input; may be given several times")
	f.StringArrayVarP(&w.deleted, "delete", "", nil, "objects that nobody has deleted: nodepool/NAME, node/NAME, deployment/NAME, deployment/NAMESPACE/NAME; may be given several times, also without -f")
	f.StringVarP(&w.namespace, "namespace", "n", "", "with -f or --delete: namespace of objects that name none; that of the kubeconfig's context without it, or default")
	f.BoolVarP(&w.recursive, "recursive", "R", false, "with -f: also read what is in directories below a directory")
	f.Float64Var(&w.maxIncrease, "max-increase", -1, "with -f: end with code 3 if the change costs more than this many dollars a month")
	f.BoolVar(&w.detailed, "detailed-exitcode", false, "with -f: end with code 2 if nodes or pods would change, 0 if not")
}

func (w *whatIfFlags) check() error {
	if !w.given() && (w.recursive || w.detailed || w.maxIncrease >= 0 || w.namespace != "") {
		return errors.New("--namespace, --recursive, --max-increase and --detailed-exitcode are about a change; give -f FILE or --delete KIND/NAME")
	}
	return nil
}

// given says whether a change is asked about.
func (w *whatIfFlags) given() bool { return len(w.files)+len(w.deleted) > 0 }

// whatIf is what a change comes to, as it is printed.
type whatIf struct {
	model.Type
	From string `json:"from"`
	// Estimate says what prices are if nobody in the cluster has said it.
	Estimate string   `json:"estimate,omitempty"`
	Changes  []string `json:"changes"`
	// Now is the fleet as it is; Without and With are what it comes to when everything has settled.
	Now     model.Cost `json:"now"`
	Without model.Cost `json:"without"`
	With    model.Cost `json:"with"`
	// PerHour and PerMonth are what With costs more than Without.
	PerHour  float64 `json:"differencePerHour"`
	PerMonth float64 `json:"differencePerMonth"`

	Add     []model.PlannedNode `json:"add"`
	Remove  []model.PlannedNode `json:"remove"`
	Replace []replacement       `json:"replace"`
	Avoid   []model.PlannedNode `json:"avoid"`
	Keep    []model.PlannedNode `json:"keep"`
	Drift   []forecast.Drifted  `json:"drift"`
	Pending []model.Pending     `json:"pending"`
	// Held are pools that make no nodes with the change, and why.
	Held    []forecast.Held     `json:"held"`
	Moves   []forecast.Move     `json:"moves"`
	Nodes   []model.PlannedNode `json:"nodes"`
	Evicts  int                 `json:"evictions"`
	Besides int                 `json:"evictionsWithout"`
	Time    timeReport          `json:"time"`
	Ignored []ignoredThing      `json:"ignored"`
}

// replacement is nodes that others take the place of.
type replacement struct {
	Reason string              `json:"reason"`
	Remove []model.PlannedNode `json:"remove"`
	Add    []model.PlannedNode `json:"add"`
	Why    why.Reason          `json:"why"`
}

type timeReport struct {
	Seconds  float64 `json:"seconds"`
	Rounds   int     `json:"rounds"`
	Restless bool    `json:"restless,omitempty"`
	How      string  `json:"how"`
}

// runWhatIf prints what a change comes to.
func (p *planning) runWhatIf(cmd *cobra.Command) error {
	manifests, err := p.manifests(cmd.InOrStdin(), cmd.ErrOrStderr()) // first: what is wrong with them needs no cluster to be found out
	if err != nil {
		return err
	}
	in, err := p.read(cmd)
	if err != nil {
		return err
	}
	r := in.loaded.Recording
	change := &forecast.Change{
		Objects: in.objects, Classes: r.Classes, Kinds: classKinds(), Now: r.At, Delete: p.whatIf.deleted, Namespace: cmp.Or(p.whatIf.namespace, p.source.namespace()), Strict: p.whatIf.namespace != "",
		Launchable: func(list []cloud.KnownClass) (map[string]*dump.Catalog, error) {
			return launchable(cmd.Context(), r.Classes, list)
		},
	}
	if exists := in.loaded.exists; exists != nil {
		change.Exists = func(path string) (bool, error) { return exists(cmd.Context(), path) }
	}
	if in.loaded.nodeClasses != nil {
		if change.NodeClasses, err = in.loaded.nodeClasses(cmd.Context()); err != nil {
			return err
		}
	}
	if in.loaded.policies != nil {
		if change.Policies, err = in.loaded.policies(cmd.Context()); err != nil {
			change.Ignored = append(change.Ignored, "LimitRanges and ResourceQuotas: "+oneLine(err))
		}
		delete(in.objects.Ignored, "LimitRange")
		delete(in.objects.Ignored, "ResourceQuota")
	}
	if err := change.Apply(manifests); err != nil {
		return err
	}
	record := state.Record{Classes: r.Classes, Leaving: r.Facts.Leaving, Shared: r.Facts.Shared, Options: r.Options.Reading, Now: r.At}
	start := forecast.Start{Objects: in.objects, Record: record, Options: in.options, Past: removed(r), Held: r.Facts.Held}
	changed := start
	if change.Overlaid && !changed.Record.Options.NodeOverlays {
		changed.Record.Options.NodeOverlays = true
		change.Words = append(change.Words, "the controller's feature gate NodeOverlay, which is off, is turned on: without it overlays have no effect")
	}
	changed.Objects, changed.Record.Classes, changed.Held = change.Objects, change.Classes, change.Lifted(start.Held)
	var without, with *forecast.Outcome
	var both sync.WaitGroup
	both.Go(func() { without = forecast.Run(start) })
	both.Go(func() { with = forecast.Run(changed) })
	both.Wait()
	report := newWhatIf(without, with)
	report.From, report.Estimate, report.Changes = in.loaded.From, in.loaded.Estimate, change.Words
	report.Drift = append(report.Drift, change.Drift...)
	report.Ignored = ignored(in.objects, append(in.problems, with.Problems...))
	for _, text := range change.Ignored {
		what, why, _ := strings.Cut(text, ": ")
		report.Ignored = append(report.Ignored, ignoredThing{Object: what, Reason: why})
	}
	print := report.table
	if p.output == "markdown" {
		print = func(w io.Writer, _ look) error { return report.markdown(w) }
	}
	if err := p.write(cmd.OutOrStdout(), report, report.Estimate, print); err != nil {
		return err
	}
	return p.whatIf.verdict(report)
}

// removed are nodes that moves have removed of late.
func removed(r *ledger.Recording) []disrupt.Past {
	var out []disrupt.Past
	for _, p := range r.Facts.Past {
		out = append(out, disrupt.Past(p))
	}
	return out
}

// verdict is the code that the command ends with.
func (w *whatIfFlags) verdict(r *whatIf) error {
	if w.maxIncrease >= 0 && r.PerMonth > w.maxIncrease {
		return &ExitError{ExitTooDear, fmt.Errorf("the change costs %s%s a month more, and --max-increase allows %s", about(r.Estimate), why.Dollars(r.PerMonth), why.Dollars(w.maxIncrease))}
	}
	if w.detailed && r.changes() {
		return &ExitError{Code: ExitChanges}
	}
	return nil
}

// changes says whether anything would be different.
func (r *whatIf) changes() bool {
	fresh := slices.ContainsFunc(r.Pending, func(p model.Pending) bool { return !p.Already })
	return fresh || len(r.Add)+len(r.Remove)+len(r.Replace)+len(r.Avoid)+len(r.Keep)+len(r.Drift) > 0 || r.Evicts != r.Besides || r.PerHour != 0
}

// manifests reads -f, in v1 whatever version the files are in.
func (p *planning) manifests(stdin io.Reader, warnings io.Writer) ([]map[string]any, error) {
	c := &conversion{files: p.whatIf.files, recursive: p.whatIf.recursive}
	var failures []error
	documents := c.read(stdin, func(err error) { failures = append(failures, err) })
	var objects []map[string]any
	for _, d := range documents {
		if err := d.decode(); err != nil {
			failures = append(failures, err)
		}
		if items, ok := d.object["items"].([]any); ok && strings.HasSuffix(fmt.Sprint(d.object["kind"]), "List") {
			for _, item := range items {
				if m, ok := item.(map[string]any); ok {
					objects = append(objects, m)
				}
			}
		} else if d.object != nil {
			objects = append(objects, d.object)
		}
	}
	var out []map[string]any
	for i, outcome := range (convert.Offline{Version: "v1"}).Convert(objects) {
		if outcome.Err != nil {
			failures = append(failures, fmt.Errorf("%v %v: %w", objects[i]["kind"], nameOf(objects[i]), outcome.Err))
			continue
		}
		for _, warning := range outcome.Warnings {
			fmt.Fprintf(warnings, "warning: %v %v: %s\n", objects[i]["kind"], nameOf(objects[i]), warning)
		}
		if len(outcome.Objects) == 0 {
			out = append(out, objects[i])
		}
		out = append(out, outcome.Objects...)
	}
	return out, errors.Join(failures...)
}

func nameOf(object map[string]any) any {
	meta, _ := object["metadata"].(map[string]any)
	return meta["name"]
}

// launchable works out what node classes of a change can launch, in the zones that the cluster uses.
func launchable(ctx context.Context, known map[string]*dump.Catalog, classes []cloud.KnownClass) (map[string]*dump.Catalog, error) {
	p := &places{regions: map[string]int{}, zones: map[string]bool{}}
	for _, catalog := range known {
		for i := range catalog.InstanceTypes {
			for k := range catalog.InstanceTypes[i].Offerings {
				p.zones[catalog.InstanceTypes[i].Offerings[k].Zone] = true
			}
		}
	}
	f := &facts{classes: classes}
	p.settle(f)
	found, _, err := (&builtInCache{}).load(ctx, f)
	return found, err
}

// newWhatIf compares what the cluster comes to without and with the change.
func newWhatIf(without, with *forecast.Outcome) *whatIf {
	r := &whatIf{
		Type: model.TypeOf(model.KindForecast),
		Now:  without.Before, Without: without.After, With: with.After, Evicts: with.Evicts, Besides: without.Evicts,
		Add: []model.PlannedNode{}, Remove: []model.PlannedNode{}, Replace: []replacement{}, Avoid: []model.PlannedNode{}, Keep: []model.PlannedNode{},
		Pending: []model.Pending{}, Held: append([]forecast.Held{}, with.Held...), Drift: []forecast.Drifted{}, Moves: append([]forecast.Move{}, with.Moves...), Nodes: append([]model.PlannedNode{}, with.Nodes...),
		Time: timeReport{Seconds: with.Took.Seconds(), Rounds: with.Rounds, Restless: with.Restless, How: how(with)},
	}
	r.PerHour = round(r.With.Price - r.Without.Price)
	r.PerMonth = round(r.PerHour * model.HoursPerMonth)
	r.compareNodes(without, with)
	waits := map[string]bool{}
	for _, u := range without.Unplaced {
		for _, p := range u.Pods {
			waits[p] = true
		}
	}
	for _, u := range with.Unplaced {
		u.Already = !slices.ContainsFunc(u.Pods, func(p string) bool { return !waits[p] })
		r.Pending = append(r.Pending, u)
	}
	return r
}

// round drops what is only noise of adding up.
func round(x float64) float64 {
	if x < 0 {
		return -round(-x)
	}
	return float64(int64(x*1e6+0.5)) / 1e6
}

// nodeKind is what new nodes are told apart by: their names are made up.
type nodeKind struct{ pool, typ, zone, capacityType string }

func kindOf(m *model.PlannedNode) nodeKind {
	return nodeKind{m.Pool, m.Node.Type, m.Zone, m.CapacityType}
}

// compareNodes says which nodes the change adds, removes and replaces.
func (r *whatIf) compareNodes(without, with *forecast.Outcome) {
	stays, end := map[string]bool{}, map[string]bool{}
	spare := map[nodeKind][]model.PlannedNode{}
	for _, m := range without.Nodes {
		if m.New {
			spare[kindOf(&m)] = append(spare[kindOf(&m)], m)
		} else {
			stays[m.Node.Node] = true
		}
	}
	for _, m := range with.Nodes {
		end[m.Node.Node] = true
		if !m.New && !stays[m.Node.Node] {
			r.Keep = append(r.Keep, m)
		}
	}
	gone := map[string]model.PlannedNode{}
	for _, m := range without.Nodes {
		if !m.New && !end[m.Node.Node] {
			gone[m.Node.Node] = m
		}
	}
	used := r.replacements(with, gone, end)
	for _, m := range with.Nodes {
		if !m.New || used[m.Node.Node] {
			continue
		}
		if list := spare[kindOf(&m)]; len(list) > 0 {
			spare[kindOf(&m)] = list[1:]
			continue
		}
		r.Add = append(r.Add, m)
	}
	for _, list := range spare {
		r.Avoid = append(r.Avoid, list...)
	}
	r.Remove = slices.AppendSeq(r.Remove, maps.Values(gone))
	for _, list := range [][]model.PlannedNode{r.Remove, r.Avoid} {
		slices.SortFunc(list, func(a, b model.PlannedNode) int { return cmp.Compare(a.Node.Node, b.Node.Node) })
	}
}

// replacements takes the nodes that others take the place of out of those that go, and returns the others.
func (r *whatIf) replacements(with *forecast.Outcome, gone map[string]model.PlannedNode, end map[string]bool) (used map[string]bool) {
	used = map[string]bool{}
	for _, move := range with.Moves {
		x := replacement{Reason: move.Reason, Why: move.Why}
		for _, m := range move.Add {
			if end[m.Node.Node] {
				x.Add = append(x.Add, m)
			}
		}
		if len(x.Add) == 0 {
			continue
		}
		for _, name := range move.Remove {
			if m, ok := gone[name]; ok {
				x.Remove = append(x.Remove, m)
			}
		}
		if len(x.Remove) == 0 {
			continue
		}
		for _, m := range x.Remove {
			delete(gone, m.Node.Node)
		}
		for _, m := range x.Add {
			used[m.Node.Node] = true
		}
		r.Replace = append(r.Replace, x)
	}
	return used
}

// how says what the time is made of.
func how(o *forecast.Outcome) string {
	start := fmt.Sprintf("nodes take %s to start, as the median of %d here", o.Boot, o.Observed)
	if o.Observed == 0 {
		start = fmt.Sprintf("nodes are assumed to start in %s, as none here says how long it took", o.Boot)
	}
	return start + "; pods stop within their grace period; each round makes as many moves as budgets allow, and waits for consolidateAfter"
}
