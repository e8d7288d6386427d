package oracle

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/engine/pack"
	engine "karpenter/internal/engine/world"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

var (
	cases = flag.Int("cases", 3000, "how many generated clusters are planned and judged; make simlong plays 10,000")
	from  = flag.Uint64("from", 0, "the seed of the first of them")
	only  = flag.Int64("seed", -1, "judge the cluster of this seed alone, and print it")
)

// Every placement of a plan is one that kube-scheduler's filters allow, and a pod for which the engine finds no room on
// the nodes that exist is refused by the filters on each of them. On new nodes, required spreads hold over every domain that the
// pods could have had.
func TestPlansHoldAgainstTheScheduler(t *testing.T) {
	seeds := make(chan uint64)
	var judged, failed atomic.Int64
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for seed := range seeds {
				breaches, placements := judge(t.Context(), seed)
				judged.Add(int64(placements))
				for _, breach := range breaches {
					if failed.Add(1) <= 20 {
						t.Errorf("seed %d: %s", seed, breach)
					}
				}
			}
		})
	}
	if *only >= 0 {
		seeds <- uint64(*only)
	} else {
		for i := range uint64(*cases) {
			seeds <- *from + i
		}
	}
	close(seeds)
	wait.Wait()
	t.Logf("| The engine against kube-scheduler's filters, answers | %d | %d |", judged.Load(), failed.Load())
	if judged.Load() == 0 {
		t.Error("nothing was judged")
	}
}

// judge plans the cluster of a seed and returns what the filters say against it, and how many answers were looked at.
func judge(ctx context.Context, seed uint64) (breaches []string, answers int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := generate(seed)
	snapshot, problems, err := w.snapshot(state.Options{})
	if err != nil || len(problems) > 0 {
		return []string{fmt.Sprintf("loading: %v %v", err, problems)}, 0
	}
	for _, plan := range []*pack.Plan{pack.Solve(snapshot, pack.Options{}), pack.Solve(snapshot, pack.Options{NoNewNodes: true})} {
		found, n := w.holdAgainst(ctx, snapshot, plan)
		breaches, answers = append(breaches, found...), answers+n
	}
	if *only >= 0 {
		text, _ := json.MarshalIndent(w.materials(), "", " ")
		breaches = append(breaches, string(text))
	}
	return breaches, answers
}

func (w *world) snapshot(options state.Options) (*engine.Snapshot, []dump.Problem, error) {
	var list struct {
		Items []runtime.Object `json:"items"`
	}
	list.Items = w.materials()
	data, err := json.Marshal(list)
	if err != nil {
		return nil, nil, err
	}
	objects, problems, err := dump.Read(data)
	if err != nil {
		return nil, nil, err
	}
	snapshot, more := state.Build(objects, w.catalog, options)
	return snapshot, append(problems, more...), nil
}

// holdAgainst binds the pods of a plan one after the other, on nodes launched from any of the choices, and asks about each. Which
// pods are left over is what the plan says of the first choices: another may open fewer topology domains, and let more in.
func (w *world) holdAgainst(ctx context.Context, snapshot *engine.Snapshot, plan *pack.Plan) (breaches []string, answers int) {
	c := w.carryOut(snapshot, plan, func(choices []pack.Choice) pack.Choice {
		if w.chance(50) {
			return pick(w, choices)
		}
		return choices[0]
	})
	if err := c.bind(ctx, w, plan); err != nil {
		return []string{err.Error()}, 0
	}
	breaches, answers = c.breaches, c.answers
	if len(c.left) == 0 {
		return breaches, answers
	}
	if c.strayed {
		c = w.carryOut(snapshot, plan, func(choices []pack.Choice) pack.Choice { return choices[0] })
		if err := c.bind(ctx, w, plan); err != nil {
			return []string{err.Error()}, 0
		}
		breaches, answers = append(breaches, c.breaches...), answers+c.answers
	}
	for _, p := range c.left {
		for _, n := range w.nodes {
			answers++
			if refusal, err := c.judge.Refuses(ctx, p, n.Name); err != nil || refusal == "" {
				breaches = append(breaches, fmt.Sprintf("%s is left over, but may go to %s (%v); the engine says: %s", p.Name, n.Name, err, reasons(snapshot, plan, p)))
			}
		}
	}
	return breaches, answers
}

// carried is a plan in the course of being carried out.
type carried struct {
	snapshot     *engine.Snapshot
	nodes        []*corev1.Node
	daemons      []*corev1.Pod          // on new nodes
	drivers      []runtime.Object       // what the volume driver says on them
	pods         map[string]*corev1.Pod // those that are placed, with their node
	placed, left []*corev1.Pod
	strayed      bool                     // a node is not the first choice
	on           map[string][]*corev1.Pod // pods by node, as they are bound
	fresh        map[string]bool          // nodes that the plan has made
	site         *site
	judge        *Judge
	breaches     []string
	answers      int
}

// carryOut launches the nodes of a plan and sends the pods to them.
func (w *world) carryOut(snapshot *engine.Snapshot, plan *pack.Plan, choose func([]pack.Choice) pack.Choice) *carried {
	c := &carried{snapshot: snapshot, nodes: slices.Clone(w.nodes), pods: map[string]*corev1.Pod{}, on: map[string][]*corev1.Pod{}, fresh: map[string]bool{}}
	for _, p := range w.bound {
		c.on[p.Spec.NodeName] = append(c.on[p.Spec.NodeName], p)
	}
	home := map[string]string{} // pod → node
	for _, filled := range plan.Existing {
		for _, p := range filled.Pods {
			home[snapshot.PodName(p)] = filled.Node.Name
		}
	}
	for _, n := range plan.Nodes {
		choice := choose(n.Choices)
		c.strayed = c.strayed || choice != n.Choices[0]
		node := launch(snapshot, n, choice)
		c.nodes = append(c.nodes, node)
		if at := slices.Index(snapshot.Resources, engine.AttachResource(csiDriver)); at >= 0 && choice.Type.Allocatable.Get(at) != 0 {
			c.drivers = append(c.drivers, csiNode(n.Name, int32(max(choice.Type.Allocatable.Get(at), 0))))
		}
		c.fresh[n.Name] = true
		c.daemons = append(c.daemons, w.daemonsOn(node, w.daemons...)...)
		for _, p := range n.Pods {
			home[snapshot.PodName(p)] = n.Name
		}
	}
	for _, p := range w.pending {
		name := p.Namespace + "/" + p.Name
		if home[name] == "" {
			c.left = append(c.left, p)
			continue
		}
		c.pods[name] = p.DeepCopy()
		c.pods[name].Spec.NodeName = home[name]
		c.placed = append(c.placed, c.pods[name])
	}
	return c
}

// bind binds the pods in the order of the plan and notes what the filters say against it.
func (c *carried) bind(ctx context.Context, w *world, plan *pack.Plan) (err error) {
	if c.judge, err = NewJudge(ctx, c.nodes, slices.Concat(c.placed, w.bound, w.coming, c.daemons), slices.Concat(w.others, c.drivers), w.defaults...); err != nil {
		return err
	}
	for _, p := range c.placed {
		if err := c.judge.Unbind(p); err != nil {
			return err
		}
	}
	if len(plan.Order) != len(c.placed) {
		c.breaches = append(c.breaches, fmt.Sprintf("%d pods are placed, but %d are in the order of binding", len(c.placed), len(plan.Order)))
	}
	for _, next := range plan.Order {
		c.answers++
		p := c.pods[c.snapshot.PodName(next)]
		if refusal, err := c.judge.Refuses(ctx, p, p.Spec.NodeName); err != nil || refusal != "" {
			c.breaches = append(c.breaches, fmt.Sprintf("%s on %s: %s %v", p.Name, p.Spec.NodeName, refusal, err))
		}
		if c.fresh[p.Spec.NodeName] {
			found, err := c.skew(ctx, w, p)
			if err != nil {
				return err
			}
			c.breaches = append(c.breaches, found...)
		}
		if err := c.judge.Bind(p); err != nil {
			return err
		}
		c.on[p.Spec.NodeName] = append(c.on[p.Spec.NodeName], p)
	}
	return nil
}

func reasons(snapshot *engine.Snapshot, plan *pack.Plan, pod *corev1.Pod) string {
	for _, unplaced := range plan.Unplaced {
		for _, p := range unplaced.Pods {
			if snapshot.PodName(p) == pod.Namespace+"/"+pod.Name {
				var lines []string
				for _, r := range unplaced.Reasons {
					lines = append(lines, r.Line())
				}
				return strings.Join(lines, "; ")
			}
		}
	}
	return "nothing"
}

// launch makes the node that the cloud would give for one of the choices, any of which must do.
func launch(snapshot *engine.Snapshot, n *pack.NewNode, choice pack.Choice) *corev1.Node {
	labels := map[string]string{corev1.LabelHostname: n.Name, corev1.LabelTopologyZone: choice.Offering.Zone, "karpenter.sh/capacity-type": choice.Offering.CapacityType, "karpenter.sh/nodepool": n.Pool.Name}
	for _, set := range []engine.Labels{choice.Type.Labels, choice.Offering.Labels, n.Labels} {
		for _, l := range set {
			labels[l.Key] = l.Value
		}
	}
	allocatable := corev1.ResourceList{}
	for i, name := range snapshot.Resources {
		amount := resource.NewQuantity(choice.Type.Allocatable.Get(i), resource.DecimalSI)
		if i == engine.CPU {
			amount = resource.NewMilliQuantity(choice.Type.Allocatable.Get(i), resource.DecimalSI)
		}
		if !engine.UnlimitedWhenAbsent(name) {
			allocatable[corev1.ResourceName(name)] = *amount
		}
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID(n.Name), Labels: labels},
		Status:     corev1.NodeStatus{Capacity: allocatable, Allocatable: allocatable, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, t := range n.Pool.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return node
}
