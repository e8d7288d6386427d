package oracle

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
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
)

var (
	cases = flag.Int("cases", 10000, "how many generated clusters are planned and judged")
	only  = flag.Int64("seed", -1, "judge the cluster of this seed alone, and print it")
)

// Every placement of a plan is one that kube-scheduler's filters allow, and a pod for which the engine finds no room on
// the nodes that exist is refused by the filters on each of them.
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
		for seed := range uint64(*cases) {
			seeds <- seed
		}
	}
	close(seeds)
	wait.Wait()
	t.Logf("%d answers judged, %d wrong", judged.Load(), failed.Load())
	if judged.Load() == 0 {
		t.Error("nothing was judged")
	}
}

// judge plans the cluster of a seed and returns what the filters say against it, and how many answers were looked at.
func judge(ctx context.Context, seed uint64) (breaches []string, answers int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := generate(seed)
	snapshot, problems, err := w.snapshot()
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

func (w *world) snapshot() (*engine.Snapshot, []state.Problem, error) {
	var list struct {
		Items []runtime.Object `json:"items"`
	}
	list.Items = w.materials()
	data, err := json.Marshal(list)
	if err != nil {
		return nil, nil, err
	}
	objects, problems, err := state.ReadList(data)
	if err != nil {
		return nil, nil, err
	}
	snapshot, more := state.Build(objects, w.catalog, state.Options{})
	return snapshot, append(problems, more...), nil
}

func (w *world) holdAgainst(ctx context.Context, snapshot *engine.Snapshot, plan *pack.Plan) (breaches []string, answers int) {
	nodes := append([]*corev1.Node{}, w.nodes...)
	home := map[string]string{} // pod → node
	for _, filled := range plan.Existing {
		for _, p := range filled.Pods {
			home[snapshot.PodName(p)] = filled.Node.Name
		}
	}
	for _, n := range plan.Nodes {
		nodes = append(nodes, w.launch(snapshot, n))
		for _, p := range n.Pods {
			home[snapshot.PodName(p)] = n.Name
		}
	}
	pods := map[string]*corev1.Pod{}
	var placed, left []*corev1.Pod
	for _, p := range w.pending {
		name := p.Namespace + "/" + p.Name
		if home[name] == "" {
			left = append(left, p)
			continue
		}
		pods[name] = p.DeepCopy()
		pods[name].Spec.NodeName = home[name]
		placed = append(placed, pods[name])
	}
	j, err := NewJudge(ctx, nodes, append(placed, w.bound...), w.others)
	if err != nil {
		return []string{err.Error()}, 0
	}
	for _, p := range placed {
		if err := j.Unbind(p); err != nil {
			return []string{err.Error()}, 0
		}
	}
	if len(plan.Order) != len(placed) {
		breaches = append(breaches, fmt.Sprintf("%d pods are placed, but %d are in the order of binding", len(placed), len(plan.Order)))
	}
	for _, next := range plan.Order {
		answers++
		p := pods[snapshot.PodName(next)]
		if refusal, err := j.Refuses(ctx, p, p.Spec.NodeName); err != nil || refusal != "" {
			breaches = append(breaches, fmt.Sprintf("%s on %s: %s %v", p.Name, p.Spec.NodeName, refusal, err))
		}
		if err := j.Bind(p); err != nil {
			return []string{err.Error()}, answers
		}
	}
	for _, p := range left {
		for _, n := range w.nodes {
			answers++
			if refusal, err := j.Refuses(ctx, p, n.Name); err != nil || refusal == "" {
				breaches = append(breaches, fmt.Sprintf("%s is left over, but may go to %s (%v); the engine says: %s", p.Name, n.Name, err, reasons(snapshot, plan, p)))
			}
		}
	}
	return breaches, answers
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
func (w *world) launch(snapshot *engine.Snapshot, n *pack.NewNode) *corev1.Node {
	choice := n.Choices[0]
	if w.chance(50) {
		choice = pick(w, n.Choices)
	}
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
