package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/operator"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// maxSnapshot bounds a snapshot, so that a wrong path does not fill the memory; a hundred thousand pods take some 100 MiB.
const maxSnapshot = 4 << 30

// planning is a run of the plan command.
type planning struct {
	source        Source
	output        string
	colour        string
	screen        screen
	preferences   string
	minValues     string
	scheduler     string
	workers       int
	consolidation bool
	spotToSpot    bool
	whatIf        whatIfFlags
	// now is the clock that the figures are measured with.
	now   func() time.Time
	going *progress
}

// NewPlan returns the command that says what the controller would do about pending pods, or about a change.
func NewPlan() *cobra.Command { return newPlan(time.Now) }

func newPlan(now func() time.Time) *cobra.Command {
	p := &planning{now: now}
	cmd := &cobra.Command{
		Use:   "plan [-f FILE|DIR]",
		Short: "Show which nodes pending pods need, what a change of manifests would do, or which nodes could be removed",
		Long: `Show which nodes the pending pods of a cluster need, where each pod is placed, what that costs against the least it can cost, and
why the others are unschedulable.

With -f, show what manifests would do that nobody has applied: pools, classes, workloads, disruption budgets, prices.
Nodes that would be added, removed and replaced, what they cost before and after, pods that would restart or stay pending,
nodes that would drift, and how long it takes under the budgets. --delete shows the same of objects that would be deleted.

With --consolidate, show which nodes would be removed, what would replace them, what that saves, and of every other node why
it stays.

The cluster is that of the kubeconfig, or a file: a recording, or what kubectl prints as JSON. Nothing is ever changed.`,
		Example: `  karpenter plan
  karpenter plan -f deployment.yaml
  karpenter plan -f manifests/ -o markdown --max-increase 500
  karpenter plan --delete node/ip-10-0-1-2.ec2.internal
  karpenter plan --consolidate
  kubectl get nodepools,nodeclaims,nodes,pods,daemonsets,pv,pvc,sc,csinodes,ns,pdb -A -o json |
    karpenter plan --snapshot - --catalog catalog.json -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	f := cmd.Flags()
	p.source.AddFlags(f)
	p.whatIf.addFlags(f)
	f.Lookup("max-increase").DefValue = "0" // which is not shown: unless it is given, there is no bound
	f.StringVarP(&p.output, "output", "o", "table", "table or wide (every node, every reason in full) for people, json or yaml for programs, markdown (with -f) for pull requests")
	addColourFlag(cmd, &p.colour)
	f.StringVar(&p.preferences, "preference-policy", "", "Respect or Ignore preferred affinity and ScheduleAnyway spread; the controller's own, or Respect, without it")
	f.StringVar(&p.minValues, "min-values-policy", "", "Strict or BestEffort; the controller's own, or Strict, without it")
	f.StringVar(&p.scheduler, "scheduler-config", "", "spread constraints for pods without any, as SCHEDULER_CONFIG has them; the controller's own, or none, without it")
	f.BoolVar(&p.consolidation, "consolidate", false, "show which nodes would be removed, instead of what pending pods need")
	f.BoolVar(&p.spotToSpot, "spot-to-spot", false, "let spot nodes be replaced by cheaper spot nodes, as the feature gate SpotToSpotConsolidation does; needs --consolidate or -f")
	f.IntVar(&p.workers, "workers", runtime.NumCPU(), "how many things to try at once; the plan does not depend on it")
	p.source.completeAccess(cmd)
	completeWords(cmd, map[string][]string{
		"output": {"table", "wide", "json", "yaml", "markdown"}, "preference-policy": {"Respect", "Ignore"}, "min-values-policy": {"Strict", "BestEffort"},
	})
	return cmd
}

// inputs is what a run has read.
type inputs struct {
	loaded   *Loaded
	options  disrupt.Options
	start    time.Time
	objects  *dump.Objects
	problems []dump.Problem
}

func (p *planning) run(cmd *cobra.Command) error {
	if err := p.check(); err != nil {
		return err
	}
	var err error
	if p.screen, err = screenOf(cmd.OutOrStdout(), p.colour); err != nil {
		return err
	}
	if p.output == "wide" {
		p.screen.width = 0
	}
	p.going = newProgress(cmd.ErrOrStderr(), "reading the cluster")
	defer func() { p.going.end() }()
	if p.whatIf.given() {
		return p.runWhatIf(cmd)
	}
	in, err := p.read(cmd)
	if err != nil {
		return err
	}
	if p.consolidation {
		return p.consolidate(cmd, in)
	}
	solve, more := in.prepare()
	loaded := p.now()
	allocated := allocation()
	begin := p.now()
	snap, plan, static := solve()
	solved := p.now()
	report := newPlanReport(snap, plan)
	report.addStatic(snap, static)
	report.Estimate = in.loaded.Estimate
	report.AllocatedMiB = allocated()
	report.LoadMillis = millis(loaded.Sub(in.start))
	report.SolveMillis = millis(solved.Sub(begin))
	report.Ignored = ignored(in.objects, append(in.problems, more...))
	return p.write(cmd.OutOrStdout(), report, report.Estimate, report.print)
}

// write prints a report in the form that was asked for: the value for programs, or the text for people.
func (p *planning) write(w io.Writer, value any, estimate string, print func(io.Writer, look) error) error {
	p.going.end()
	if forPrograms(p.output) {
		return encode(w, p.output, value, "")
	}
	return printMarked(w, estimate, func(w io.Writer) error { return print(w, look{p.screen, p.output == "wide"}) })
}

// look is how a report for people is printed: on which screen, and whether with every row.
type look struct {
	screen
	wide bool
}

// read loads the cluster, and says where it is from unless two files were given.
func (p *planning) read(cmd *cobra.Command) (*inputs, error) {
	in := &inputs{start: p.now()}
	p.source.now, p.source.workloads = p.now, p.scheduler != ""
	var err error
	if in.loaded, err = p.source.Load(cmd.Context(), cmd.InOrStdin()); err != nil {
		return nil, err
	}
	p.going.end()
	if p.source.snapshot == "" || p.source.catalog == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "from", in.loaded.From)
	}
	p.going = newProgress(cmd.ErrOrStderr(), "planning")
	if err := p.defaultSpread(in.loaded.Recording); err != nil {
		return nil, err
	}
	in.options = p.decided(in.loaded.Recording)
	in.objects, in.problems, err = dump.Read(in.loaded.Recording.Objects)
	if o := in.objects; err == nil && p.scheduler != "" && len(o.Services)+len(o.Controllers)+len(o.ReplicaSets)+len(o.StatefulSet) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "--scheduler-config has no effect: what was read has no Services, ReplicaSets or StatefulSets that constraints could follow; with --offline they are read from the cluster")
	}
	return in, err
}

// solver makes a plan for pending pods, and says what it was made from, and what static pools need.
type solver func() (*world.Snapshot, *pack.Plan, []*disrupt.Scaling)

// prepare makes ready to plan for pending pods. A plain list with one catalogue needs no objects behind it, unless there are static pools.
func (in *inputs) prepare() (solve solver, problems []dump.Problem) {
	r := in.loaded.Recording
	static := slices.ContainsFunc(in.objects.Pools, func(p *v1.NodePool) bool { return p.Spec.Replicas != nil })
	if c := r.Classes[state.AnyClass]; len(r.Classes) == 1 && c != nil && in.loaded.reached == nil && r.Name == "" && len(r.Facts.Held) == 0 && !static {
		snap, problems := state.Build(in.objects, c, r.Options.Reading)
		return func() (*world.Snapshot, *pack.Plan, []*disrupt.Scaling) {
			return snap, pack.Solve(snap, in.options.Pack), nil
		}, problems
	}
	view, problems := r.Rebuild(in.objects)
	if !static {
		return func() (*world.Snapshot, *pack.Plan, []*disrupt.Scaling) {
			snap, plan := r.Plan(view, in.options.Pack)
			return snap, plan, nil
		}, problems
	}
	return func() (*world.Snapshot, *pack.Plan, []*disrupt.Scaling) {
		// Static pools come first, and pods may use what they launch.
		scalings := disrupt.Scale(r.Input(view), in.options)
		snap, plan := r.PlanBeside(view, scalings, in.options.Pack)
		return snap, plan, scalings
	}, problems
}

// allocation begins to measure what is allocated; the function returned says how many MiB it has been since.
func allocation() func() float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	return func() float64 {
		runtime.ReadMemStats(&after)
		return float64((after.TotalAlloc-before.TotalAlloc)>>10) / 1024
	}
}

// check says what is wrong with the flags.
func (p *planning) check() error {
	switch {
	case p.preferences != "" && p.preferences != "Respect" && p.preferences != "Ignore":
		return fmt.Errorf("--preference-policy is %q; give Respect or Ignore", p.preferences)
	case p.minValues != "" && p.minValues != "Strict" && p.minValues != "BestEffort":
		return fmt.Errorf("--min-values-policy is %q; give Strict or BestEffort", p.minValues)
	case p.consolidation && p.whatIf.given():
		return errors.New("--consolidate is about the cluster as it is, and -f and --delete about a change; give one of them")
	case p.spotToSpot && !p.consolidation && !p.whatIf.given():
		return errors.New("--spot-to-spot is about nodes that could be removed; give it with --consolidate, -f or --delete")
	case p.output == "markdown" && !p.whatIf.given():
		return errors.New("--output markdown is about a change; give it with -f or --delete, or use table, json or yaml")
	case !slices.Contains([]string{"table", "wide", "json", "yaml", "markdown"}, p.output):
		return fmt.Errorf("--output is %q; give table, wide, json or yaml, or markdown with -f", p.output)
	case p.workers < 1:
		return fmt.Errorf("--workers is %d; give at least 1", p.workers)
	case p.source.snapshot == "-" && slices.Contains(p.whatIf.files, "-"):
		return errors.New("--snapshot and -f both read standard input; give one of them a file")
	}
	return p.whatIf.check()
}

// decided are the controller's options, with those of the flags that were given.
func (p *planning) decided(r *ledger.Recording) disrupt.Options {
	opt := r.Options.Disrupt()
	opt.Pack.Workers = p.workers
	if p.preferences != "" {
		opt.Pack.IgnorePreferences = p.preferences == "Ignore"
	}
	if p.minValues != "" {
		opt.Pack.BestEffortMinValues = p.minValues == "BestEffort"
	}
	opt.SpotToSpot = opt.SpotToSpot || p.spotToSpot
	return opt
}

// defaultSpread puts the constraints of the flag in place of the controller's.
func (p *planning) defaultSpread(r *ledger.Recording) error {
	if p.scheduler == "" {
		return nil
	}
	list, err := operator.ParseSchedulerConfig(p.scheduler)
	if err != nil {
		return fmt.Errorf("--scheduler-config: %w", err)
	}
	r.Options.Reading.DefaultSpread = list
	return nil
}

func readInput(path string, stdin io.Reader) ([]byte, error) {
	if path != "-" {
		return os.ReadFile(path)
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxSnapshot))
	if err == nil && len(data) == maxSnapshot {
		return nil, fmt.Errorf("standard input is larger than %d bytes", maxSnapshot)
	}
	return data, err
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// planReport is the plan as it is printed.
type planReport struct {
	model.Type
	// Estimate says what prices are if nobody in the cluster has said it.
	Estimate     string              `json:"estimate,omitempty"`
	SolveMillis  float64             `json:"solveMillis"`
	LoadMillis   float64             `json:"loadMillis"`
	AllocatedMiB float64             `json:"allocatedMiB"`
	Pods         int                 `json:"pods"`
	Placed       int                 `json:"placed"`
	Unplaced     int                 `json:"unplaced"`
	Nodes        []model.PlannedNode `json:"nodes"`
	Existing     []model.PlannedNode `json:"existing"`
	Total        float64             `json:"totalPricePerHour"`
	Bound        float64             `json:"lowerBoundPerHour"`
	NodeCost     float64             `json:"nodeCostPerHour"`
	CostBound    float64             `json:"lowerBoundWithNodeCostPerHour"`
	Pending      []model.Pending     `json:"pending"`
	// Static is what static pools need.
	Static  []model.Scaling `json:"staticPools,omitempty"`
	Ignored []ignoredThing  `json:"ignored"`
}

// addStatic adds what static pools need. What they launch is part of what is launched.
func (r *planReport) addStatic(s *world.Snapshot, list []*disrupt.Scaling) {
	r.Static = model.NewScalings(s, list, model.AllTypes)
	for i := range r.Static {
		r.Nodes = append(r.Nodes, r.Static[i].Add...)
		for _, n := range r.Static[i].Add {
			r.Total += n.Price
			r.Bound += n.Price
		}
	}
}

// removed counts the nodes that static pools give up.
func (r *planReport) removed() (n int) {
	for i := range r.Static {
		n += len(r.Static[i].Remove)
	}
	return n
}

// saved is what these nodes cost an hour.
func (r *planReport) saved() (sum float64) {
	for i := range r.Static {
		sum += r.Static[i].Saves
	}
	return sum
}

// ignoredThing is an object that was set aside, or a number of objects of a kind that planning does not read.
type ignoredThing struct {
	Object string `json:"object"`
	Reason string `json:"reason"`
}

func ignored(o *dump.Objects, problems []dump.Problem) []ignoredThing {
	out := make([]ignoredThing, 0, len(problems))
	for _, p := range problems {
		out = append(out, ignoredThing{Object: p.Kind + " " + p.Name, Reason: p.Text})
	}
	kinds := make([]string, 0, len(o.Ignored))
	for k := range o.Ignored {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		out = append(out, ignoredThing{Object: fmt.Sprintf("%d × %s", o.Ignored[k], k), Reason: "planning does not read this kind"})
	}
	return out
}

func newPlanReport(s *world.Snapshot, plan *pack.Plan) *planReport {
	p := model.NewPlan(s, plan, model.AllTypes)
	r := &planReport{
		Type: model.TypeOf(model.KindPlan),
		Pods: plan.Pods, Placed: plan.Placed, Unplaced: plan.Pods - plan.Placed, Total: plan.Price, Bound: plan.Bound,
		NodeCost: plan.NodeCost, CostBound: plan.CostBound, Nodes: p.Nodes, Existing: p.Existing, Pending: []model.Pending{},
	}
	for _, u := range p.Unplaced {
		slices.Sort(u.Pods)
		r.Pending = append(r.Pending, model.Unschedulable(u.Pods, u.Why))
	}
	slices.SortFunc(r.Pending, func(a, b model.Pending) int { return strings.Compare(a.Pods[0], b.Pods[0]) })
	return r
}
