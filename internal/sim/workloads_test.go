package sim

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/cloud/simaws/catalog"
	"karpenter/internal/sim/kube"
	"karpenter/test/workloads"
)

var (
	workloadSeeds = flag.Uint64("workload-plays", 0, "how many seeds TestWorkloads plays of each workload")
	workloadScale = flag.Float64("workload-scale", 1, "the size of workloads as a share of the full one")
	workloadOnly  = flag.String("workload", "", "the only workload that TestWorkloads plays")
)

// livePool are the types that the pool of the workloads may launch, of the newest generations: others make no difference, and take time.
var livePool = sync.OnceValues(func() (*catalog.Catalog, error) {
	all, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	return all.Only(region, func(t *catalog.Type) bool {
		return slices.Contains([]string{"m5", "c5", "r5", "m6g", "c6g", "r6g", "m7g", "c7g", "r7g", "m7i", "c7i", "r7i"}, t.Family()) && !t.BareMetal && t.VCPUs < 32
	})
})

// phased is what was seen of one phase.
type phased struct {
	name                         string
	pods, claims, evictions      int
	nodes                        int
	price                        float64
	seconds                      float64
	early                        int
	planNodes                    int
	planPrice                    float64
	done                         bool
	in                           bool
	planned, elsewhere, removals int
}

// stagePlay is a world that plays a workload.
type stagePlay struct {
	*scored
	load *workloads.Workload
	// What the controller has done in this phase, and when last.
	claims, evictions, early, removals int
	last                               time.Time
	// moves is whether spot prices move.
	moves bool
}

// newStage makes a world for a workload, in which pods come at a pace.
func newStage(seed uint64, load *workloads.Workload, after time.Duration) (*stagePlay, error) {
	types, err := livePool()
	if err != nil {
		return nil, err
	}
	w, err := newWorld(seed, history(), types)
	if err != nil {
		return nil, err
	}
	p := &stagePlay{load: load}
	p.scored = &scored{World: w, shapes: map[string]*workloads.Shape{}, order: map[apitypes.UID]int{}}
	for i := range load.Shapes {
		p.shapes[load.Shapes[i].Name] = &load.Shapes[i]
	}
	w.aws.SetTiming(simaws.Timing{Pending: 1250 * time.Millisecond, Join: 3750 * time.Millisecond, ShuttingDown: 5 * time.Second})
	hook := w.server.Hook
	w.server.Hook = func(op *kube.Op) error {
		err := hook(op)
		if op.Done && op.Err == nil && strings.HasPrefix(op.User, replicaPrefix) {
			p.saw(op)
		}
		return err
	}
	if err := w.addPool(poolSpec{name: "live", budget: -1, grace: -1, after: after}); err != nil {
		return nil, err
	}
	is := func(key string, op corev1.NodeSelectorOperator, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values}
	}
	err = w.EditPool("live", func(pool *karpv1.NodePool) {
		pool.Spec.Template.Spec.ExpireAfter = karpv1.NeverDuration()
		pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			is(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "amd64", "arm64"),
			is(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, karpv1.CapacityTypeOnDemand),
			is(awsv1.LabelInstanceCategory, corev1.NodeSelectorOpIn, "c", "m", "r"),
			is(awsv1.LabelInstanceGeneration, corev1.NodeSelectorOpGt, "4"),
			is(awsv1.LabelInstanceCPU, corev1.NodeSelectorOpLt, "32"),
		}
		pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
		pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
		delete(w.shares, "live")
	})
	return p, err
}

// saw counts what the controller does.
func (p *stagePlay) saw(op *kube.Op) {
	switch {
	case op.Kind.Kind == "NodeClaim" && op.Verb == "create" && op.Subresource == "":
		p.claims++
	case op.Kind.Kind == "NodeClaim" && op.Verb == "delete":
		p.removals++
	case op.Subresource == "eviction":
		p.evictions++
	default:
		return
	}
	p.last = p.loop.now
}

// begin starts the controller and the rest of the cluster; pods come so many a second.
func (p *stagePlay) begin(perSecond int) error {
	if err := p.StartController(); err != nil {
		return err
	}
	each := perSecond * int(lookEvery/time.Millisecond) / 1000
	for _, part := range []func() error{p.scored.schedule, p.runPods, func() error { return p.keep(each) }, p.housekeep} {
		p.loop.start(func() {
			for p.fatal == nil {
				seen, wanted := p.server.Revision(), p.wanted
				if err := part(); err != nil {
					p.fatal = err
				}
				p.pause(lookEvery)
				p.loop.await(lookAnyway, func() bool { return p.server.Revision() != seen || p.wanted != wanted || p.closed })
			}
		})
	}
	return p.Run(30 * time.Second)
}

// scaleTo brings the Deployments to their replicas.
func (p *stagePlay) scaleTo(stage workloads.Stage) error {
	for i := range p.load.Shapes {
		s := &p.load.Shapes[i]
		n := stage.Replicas[i]
		if slices.ContainsFunc(p.apps, func(a *app) bool { return a.name == s.Name }) {
			if err := p.Scale(s.Name, n); err != nil {
				return err
			}
			continue
		}
		if n == 0 {
			continue
		}
		if err := p.addApp(app{name: s.Name, replicas: n, cpu: fmt.Sprintf("%dm", s.MilliCPU), mem: fmt.Sprintf("%dMi", s.MiB), pdb: -1}); err != nil {
			return err
		}
	}
	return nil
}

// ready says how many pods run, and whether they are those that are wanted.
func (p *stagePlay) ready(stage workloads.Stage) bool {
	running, all := 0, 0
	p.server.Each(&corev1.Pod{}, func(o client.Object) {
		all++
		if pod := o.(*corev1.Pod); pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			running++
		}
	})
	return running == stage.Pods() && all == running
}

// fleet is how many nodes there are and what they cost an hour, at the prices around which those of spot instances move.
func (p *stagePlay) fleet() (nodes, spot int, price float64, err error) {
	p.aws.SetSteadySpot(true)
	defer p.aws.SetSteadySpot(!p.moves)
	instances, err := p.aws.Instances(region)
	for _, in := range instances {
		if in.State != "pending" && in.State != "running" {
			continue
		}
		if price += in.Price; in.Lifecycle == "spot" {
			spot++
		}
		nodes++
	}
	return nodes, spot, price, err
}

// phase plays one phase: out until every pod runs, in until nothing has been done for a while.
func (p *stagePlay) phase(stage workloads.Stage, quiet, patience time.Duration) (*phased, error) {
	p.claims, p.evictions, p.removals, p.early, p.last = 0, 0, 0, -1, p.loop.now
	p.planned, p.elsewhere = 0, 0
	if err := p.scaleTo(stage); err != nil {
		return nil, err
	}
	began := p.loop.now
	out := &phased{name: stage.Name, pods: stage.Pods(), in: stage.In}
	for p.loop.now.Sub(began) < patience && !out.done {
		if err := p.Run(time.Second); err != nil {
			return nil, err
		}
		ready := p.ready(stage)
		if ready && p.early < 0 {
			p.early = p.evictions
		}
		out.done = ready && (!stage.In || p.loop.now.Sub(p.last) > quiet)
	}
	out.claims, out.evictions, out.early, out.removals, out.planned, out.elsewhere = p.claims, p.evictions, p.early, p.removals, p.planned, p.elsewhere
	var err error
	if out.nodes, _, out.price, err = p.fleet(); err != nil {
		return nil, err
	}
	out.seconds = p.loop.now.Sub(began).Seconds()
	if stage.In {
		out.seconds = p.last.Sub(began).Seconds()
	}
	return out, nil
}

// scratch is what one plan for all pods of a phase costs: the nodes that are made for them at once, before kube-scheduler puts any pod where
// another was to go.
func scratch(seed uint64, load *workloads.Workload, stage workloads.Stage) (nodes int, price float64, err error) {
	p, err := newStage(seed, load, time.Hour)
	if err != nil {
		return 0, 0, err
	}
	defer p.Close()
	p.unbound = true
	if err := p.begin(1_000_000); err != nil { // all at once
		return 0, 0, err
	}
	if err := p.scaleTo(stage); err != nil {
		return 0, 0, err
	}
	for p.Elapsed() < 10*time.Minute {
		if err := p.Run(500 * time.Millisecond); err != nil {
			return 0, 0, err
		}
		if nodes, _, price, err = p.fleet(); err != nil {
			return 0, 0, err
		}
		if p.claims > 0 && nodes == p.claims && p.loop.now.Sub(p.last) > 2*time.Second {
			return nodes, price, nil
		}
	}
	return 0, 0, errors.New("not all claims have been launched within ten minutes")
}

// TestWorkloads plays the four workloads in simulated time and holds them to the bars that are not about speed.
func TestWorkloads(t *testing.T) {
	if *workloadSeeds == 0 {
		t.Skip("part of make simlong: -workload-plays 100")
	}
	for _, name := range []string{workloads.Wide, workloads.Basic, workloads.HostSpread, workloads.Interference} {
		if *workloadOnly != "" && *workloadOnly != name {
			continue
		}
		s := &spread{}
		for seed := *from; seed < *from+*workloadSeeds; seed++ {
			load := workloads.Draw(seed, *workloadScale)[slices.Index([]string{workloads.Wide, workloads.Basic, workloads.HostSpread, workloads.Interference}, name)]
			began := time.Now()
			phases, err := playWorkload(seed, load)
			if err != nil {
				t.Errorf("%s, seed %d: %v", name, seed, err)
				continue
			}
			for _, miss := range s.add(load, phases) {
				t.Errorf("%s, seed %d: %s", name, seed, miss)
			}
			for _, p := range phases {
				t.Logf("%s, seed %d, %s: %d pods, %.0f s, %d claims, %d nodes (plan %d), $%.2f/h (plan $%.2f), %d evictions (%d early), %d removed, %d of %d elsewhere; %v", name, seed, p.name, p.pods, p.seconds, p.claims, p.nodes, p.planNodes, p.price, p.planPrice, p.evictions, p.early, p.removals, p.elsewhere, p.elsewhere+p.planned, time.Since(began).Round(time.Second))
			}
		}
		s.table(t, name)
	}
}

func playWorkload(seed uint64, load *workloads.Workload) ([]*phased, error) {
	const after = 30 * time.Second
	p, err := newStage(seed, load, after)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := p.begin(20); err != nil {
		return nil, err
	}
	var out []*phased
	for _, stage := range load.Phases {
		r, err := p.phase(stage, 2*after+25*time.Second, 20*time.Minute)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", stage.Name, err)
		}
		if r.planNodes, r.planPrice, err = scratch(seed, load, stage); err != nil {
			return nil, fmt.Errorf("%s, one plan for all: %w", stage.Name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// spread is how the figures of a workload are spread over seeds.
type spread struct{ evictions, claims, rest, out, final []float64 }

// add notes the figures of a seed and says which bars are missed.
func (s *spread) add(load *workloads.Workload, phases []*phased) (missed []string) {
	bar := workloads.Bars[load.Name]
	over := func(what string, is, most float64) {
		if is > most {
			missed = append(missed, fmt.Sprintf("%s is %.3f; the bar is %.3f", what, is, most))
		}
	}
	evictions, pods := 0, 0
	for _, p := range phases {
		evictions += p.evictions
		pods = p.pods
		if !p.done {
			missed = append(missed, p.name+" did not end")
		}
		if p.in {
			s.rest, s.final = append(s.rest, p.seconds), append(s.final, p.price/p.planPrice)
			over("price by plan at the end", p.price/p.planPrice, workloads.FinalPerPlan)
			continue
		}
		s.claims = append(s.claims, float64(p.claims)/float64(p.nodes))
		over(p.name+": claims per node", float64(p.claims)/float64(p.nodes), bar.Claims)
		s.out = append(s.out, p.price/p.planPrice)
		over(p.name+": price by plan", p.price/p.planPrice, workloads.PricePerPlan)
	}
	s.evictions = append(s.evictions, float64(evictions)/float64(pods))
	over("evictions per pod", float64(evictions)/float64(pods), bar.Evictions)
	return missed
}

// table prints the line of a workload: median and worst of each figure.
func (s *spread) table(t *testing.T, name string) {
	t.Helper()
	of := func(x []float64) string {
		if len(x) == 0 {
			return "–"
		}
		slices.Sort(x)
		return fmt.Sprintf("%.2f, %.2f", x[len(x)/2], x[len(x)-1])
	}
	t.Logf("| workload %s | %d | evictions per pod %s; claims per node %s; seconds to rest %s; price by plan, out %s, at the end %s |", name, len(s.evictions), of(s.evictions), of(s.claims), of(s.rest), of(s.out), of(s.final))
}
