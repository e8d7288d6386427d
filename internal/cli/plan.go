package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// maxSnapshot bounds a snapshot, so that a wrong path does not fill the memory; a hundred thousand pods take some 100 MiB.
const maxSnapshot = 4 << 30

// planning is a run of the plan command.
type planning struct {
	snapshot      string
	catalog       string
	output        string
	preferences   string
	minValues     string
	nodeOverhead  float64
	workers       int
	consolidation bool
	spotToSpot    bool
	// now is the clock that the figures are measured with.
	now func() time.Time
}

// NewPlan returns the command that says what the controller would do about pending pods.
func NewPlan() *cobra.Command {
	p := &planning{now: time.Now}
	cmd := &cobra.Command{
		Use:   "plan --snapshot FILE|- --catalog FILE",
		Short: "Show which nodes pending pods need, or which nodes could go, what that costs, and why",
		Long: `Show which nodes the pending pods of a cluster need, which pods go where, what that costs against the least it can cost, and
why the others have no place. With --consolidate, show which nodes would be taken away instead, what would replace them, what
that saves, and of every other node why it stays. Nothing is changed.

The snapshot is what kubectl prints as JSON: pods, nodes, nodepools and nodeclaims, and what they refer to (daemonsets,
persistentvolumes, persistentvolumeclaims, storageclasses, csinodes, namespaces, poddisruptionbudgets). Kinds that planning
does not read are ignored and counted.`,
		Example: `  kubectl get nodepools,nodeclaims,nodes,pods,daemonsets,pv,pvc,sc,csinodes,ns,pdb -A -o json |
    karpenter plan --snapshot - --catalog catalog.json
  karpenter plan --snapshot cluster.json --catalog catalog.json -o json
  karpenter plan --consolidate --snapshot cluster.json --catalog catalog.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&p.snapshot, "snapshot", "", "cluster snapshot: a Kubernetes List in JSON, or - for standard input")
	f.StringVar(&p.catalog, "catalog", "", "instance types, offerings and prices in JSON")
	f.StringVarP(&p.output, "output", "o", "table", "table for people, json for programs")
	f.StringVar(&p.preferences, "preference-policy", "Respect", "Respect or Ignore preferred affinity and ScheduleAnyway spread")
	f.StringVar(&p.minValues, "min-values-policy", "Strict", "Strict or BestEffort")
	f.Float64Var(&p.nodeOverhead, "node-overhead", 0, "what a node costs an hour besides its price, in dollars; weighs fewer against cheaper nodes")
	f.BoolVar(&p.consolidation, "consolidate", false, "show which nodes would be taken away, instead of what pending pods need")
	f.BoolVar(&p.spotToSpot, "spot-to-spot", false, "with --consolidate: let spot nodes be replaced by cheaper spot nodes, as the feature gate SpotToSpotConsolidation does")
	f.IntVar(&p.workers, "workers", runtime.NumCPU(), "how many things to try at once; the plan does not depend on it")
	return cmd
}

// awsLabels says which labels the AWS provider resolves, and under which key its volumes name a zone.
var awsLabels = state.Options{
	Aliases:         map[string]string{"topology.ebs.csi.aws.com/zone": world.LabelZone},
	ProviderDomains: []string{"karpenter.k8s.aws", "topology.k8s.aws"},
}

// inputs is what a run has read.
type inputs struct {
	options  pack.Options
	start    time.Time
	objects  *state.Objects
	catalog  *state.Catalog
	problems []state.Problem
}

func (p *planning) run(cmd *cobra.Command) error {
	in, err := p.read(cmd.InOrStdin())
	if err != nil {
		return err
	}
	if p.consolidation {
		return p.consolidate(cmd, in)
	}
	snap, more := state.Build(in.objects, in.catalog, awsLabels)
	loaded := p.now()
	allocated := allocation()
	begin := p.now()
	plan := pack.Solve(snap, in.options)
	solved := p.now()
	report := newPlanReport(snap, plan)
	report.AllocatedMiB = allocated()
	report.LoadMillis = millis(loaded.Sub(in.start))
	report.SolveMillis = millis(solved.Sub(begin))
	report.Ignored = ignored(in.objects, append(in.problems, more...))
	if p.output == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
	}
	return report.print(cmd.OutOrStdout())
}

// read reads the flags and both files.
func (p *planning) read(stdin io.Reader) (*inputs, error) {
	opt, err := p.options()
	if err != nil {
		return nil, err
	}
	in := &inputs{options: opt, start: p.now()}
	data, err := readInput(p.snapshot, stdin)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	raw, err := os.ReadFile(p.catalog)
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	if in.catalog, err = state.ReadCatalog(raw); err != nil {
		return nil, err
	}
	in.objects, in.problems, err = state.ReadList(data)
	return in, err
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

func (p *planning) options() (pack.Options, error) {
	opt := pack.Options{Workers: p.workers, NodeOverhead: p.nodeOverhead}
	if p.snapshot == "" || p.catalog == "" {
		return opt, errors.New("nothing to plan: give --snapshot FILE (or - for standard input) and --catalog FILE")
	}
	switch p.preferences {
	case "Respect":
	case "Ignore":
		opt.IgnorePreferences = true
	default:
		return opt, fmt.Errorf("--preference-policy is %q; give Respect or Ignore", p.preferences)
	}
	switch p.minValues {
	case "Strict":
	case "BestEffort":
		opt.BestEffortMinValues = true
	default:
		return opt, fmt.Errorf("--min-values-policy is %q; give Strict or BestEffort", p.minValues)
	}
	if p.spotToSpot && !p.consolidation {
		return opt, errors.New("--spot-to-spot is about --consolidate; give both")
	}
	if p.output != "json" && p.output != "table" {
		return opt, fmt.Errorf("--output is %q; give table or json", p.output)
	}
	if !(p.nodeOverhead >= 0) {
		return opt, fmt.Errorf("--node-overhead is %v; give dollars an hour, zero or more", p.nodeOverhead)
	}
	return opt, nil
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
	SolveMillis  float64        `json:"solveMillis"`
	LoadMillis   float64        `json:"loadMillis"`
	AllocatedMiB float64        `json:"allocatedMiB"`
	Pods         int            `json:"pods"`
	Placed       int            `json:"placed"`
	Unplaced     int            `json:"unplaced"`
	Nodes        []nodeReport   `json:"nodes"`
	Existing     []existing     `json:"existing"`
	Total        float64        `json:"totalPricePerHour"`
	Bound        float64        `json:"lowerBoundPerHour"`
	UnplacedPods []unplacedPod  `json:"unplacedPods"`
	Ignored      []ignoredThing `json:"ignored"`
}

type nodeReport struct {
	Name         string       `json:"name"`
	Pool         string       `json:"pool"`
	InstanceType string       `json:"instanceType"`
	Zone         string       `json:"zone"`
	CapacityType string       `json:"capacityType"`
	Price        float64      `json:"pricePerHour"`
	Alternatives []string     `json:"alternatives"`
	Pods         []string     `json:"pods"`
	Why          []why.Reason `json:"why"`
}

type existing struct {
	Node string   `json:"node"`
	Pods []string `json:"pods"`
}

type unplacedPod struct {
	Pod     string   `json:"pod"`
	Reasons []string `json:"reasons"`
}

// ignoredThing is an object that was set aside, or a number of objects of a kind that planning does not read.
type ignoredThing struct {
	Object string `json:"object"`
	Reason string `json:"reason"`
}

func ignored(o *state.Objects, problems []state.Problem) []ignoredThing {
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
	r := &planReport{
		Pods: plan.Pods, Placed: plan.Placed, Unplaced: plan.Pods - plan.Placed, Total: plan.Price, Bound: plan.Bound,
		Nodes: []nodeReport{}, Existing: []existing{}, UnplacedPods: []unplacedPod{},
	}
	for _, n := range plan.Nodes {
		r.Nodes = append(r.Nodes, newNodeReport(s, n))
	}
	for _, e := range plan.Existing {
		r.Existing = append(r.Existing, existing{Node: e.Node.Name, Pods: podNames(s, e.Pods)})
	}
	for _, u := range plan.Unplaced {
		var lines []string
		for _, x := range u.Reasons {
			lines = append(lines, x.Line())
		}
		for _, p := range u.Pods {
			r.UnplacedPods = append(r.UnplacedPods, unplacedPod{Pod: s.PodName(p), Reasons: lines})
		}
	}
	slices.SortFunc(r.UnplacedPods, func(a, b unplacedPod) int { return strings.Compare(a.Pod, b.Pod) })
	return r
}

func newNodeReport(s *world.Snapshot, n *pack.NewNode) nodeReport {
	first := n.Choices[0]
	return nodeReport{
		Name: n.Name, Pool: n.Pool.Name, InstanceType: first.Type.Name, Zone: first.Offering.Zone, CapacityType: first.Offering.CapacityType,
		Price: first.Offering.Price, Alternatives: n.Types()[1:], Pods: podNames(s, n.Pods), Why: n.Why,
	}
}

func podNames(s *world.Snapshot, pods []*world.Pod) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = s.PodName(p)
	}
	return out
}
