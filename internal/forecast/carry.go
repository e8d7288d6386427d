package forecast

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// carryPlan gives pods that wait their places. It says whether there was anything to do.
func (r *run) carryPlan(view *state.View, plan *pack.Plan) bool {
	existing := plan.Real().Existing // spare pods stay where there is room for them, and nothing is done for that
	if len(plan.Nodes) == 0 && len(existing) == 0 {
		return false
	}
	r.out.Rounds++
	if len(plan.Nodes) > 0 {
		r.pass(r.out.Boot)
	}
	for _, f := range existing {
		r.bind(view.World, f.Pods, f.Node.Name)
	}
	for _, n := range plan.Nodes {
		r.add(view, n, nil)
	}
	r.acted = r.now
	return true
}

// carryMoves makes moves, all of them at the same time: budgets have seen to it that they may.
func (r *run) carryMoves(view *state.View, moves []*disrupt.Move) {
	r.out.Rounds++
	wait, starts := time.Duration(0), false
	for _, m := range moves {
		starts = starts || len(m.Add) > 0
		wait = max(wait, drainTime(view, m))
	}
	if starts {
		wait += r.out.Boot
	}
	r.pass(wait)
	names, claims := map[string]bool{}, map[string]bool{}
	for _, m := range moves {
		done := Move{
			Round: r.out.Rounds, After: r.now.Sub(r.start.Record.Now), Move: model.NewMove(view.World, m, firstTypes),
		}
		for _, i := range m.Remove {
			n := view.Nodes[i]
			if m.Reboot {
				r.recovered(n)
				continue
			}
			names[n.World.Name] = true
			if n.Claim != nil {
				claims[n.Claim.Name] = true
			}
		}
		for k, n := range m.Add {
			done.Add[k].Node.Node, done.Add[k].New = r.add(view, n, m.From), true
		}
		for _, f := range m.Filled {
			r.bind(view.World, f.Pods, f.Node.Name)
		}
		for _, p := range m.From {
			p.At = r.now
			r.past = append(r.past, p)
		}
		r.out.Evicts += m.Evicts
		r.out.Moves = append(r.out.Moves, done)
	}
	r.drop(names, claims)
	r.acted = r.now
}

// recovered has a node that was rebooted be healthy again.
func (r *run) recovered(n *state.Node) {
	node := n.Object.DeepCopy()
	node.Status.Conditions = ready()
	r.put(node, n.Claim)
}

// pass lets time pass.
func (r *run) pass(d time.Duration) { r.now = r.now.Add(d.Round(time.Second)) }

// drainTime is how long the pods of a move may take to stop.
func drainTime(view *state.View, m *disrupt.Move) time.Duration {
	var most time.Duration
	for _, i := range m.Remove {
		n := view.Nodes[i]
		var grace time.Duration
		for k, p := range n.Pods {
			if k < len(n.World.Pods) && !n.World.Pods[k].Daemon && !n.World.Pods[k].Mirror {
				grace = max(grace, state.Leaving(p).Grace)
			}
		}
		if n.Claim != nil && n.Claim.Spec.TerminationGracePeriod != nil {
			grace = min(grace, n.Claim.Spec.TerminationGracePeriod.Duration)
		}
		most = max(most, grace)
	}
	return most
}

// firstTypes is how many types of a new node are named.
const firstTypes = 5

// add brings a planned node up, with its pods on it, and returns its name.
func (r *run) add(view *state.View, n *pack.NewNode, from []disrupt.Past) string {
	r.serial++
	name := fmt.Sprintf("%s-new-%d", n.Pool.Name, r.serial)
	r.made[name] = n.Why
	labels, choice := labelsOf(n, name), n.Choices[0]
	allocatable, capacity := choice.Type.Allocatable, choice.Type.Capacity
	if choice.Offering.Allocatable != nil {
		allocatable = choice.Offering.Allocatable
	}
	if choice.Offering.Capacity != nil {
		capacity = choice.Offering.Capacity
	}
	meta := metav1.ObjectMeta{Name: name, Labels: labels, CreationTimestamp: metav1.NewTime(r.now)}
	node := &corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{ProviderID: "forecast:///" + name}}
	node.Status = corev1.NodeStatus{Allocatable: view.List(allocatable), Capacity: view.List(capacity), Conditions: ready()}
	for _, t := range n.Pool.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	claim := &v1.NodeClaim{ObjectMeta: *meta.DeepCopy()}
	claim.Annotations = map[string]string{}
	if len(from) > 0 {
		claim.Annotations[v1.MovedFromAnnotationKey] = origin(from)
	}
	if pool := view.Pool(n.Pool.Name); pool != nil {
		t := &pool.Object.Spec.Template.Spec
		claim.Spec = v1.NodeClaimSpec{Taints: t.Taints, NodeClassRef: t.NodeClassRef, TerminationGracePeriod: t.TerminationGracePeriod, ExpireAfter: t.ExpireAfter}
	}
	claim.Status = v1.NodeClaimStatus{ProviderID: node.Spec.ProviderID, NodeName: name, Allocatable: node.Status.Allocatable, Capacity: node.Status.Capacity}
	up(claim, r.now)
	r.put(node, claim)
	r.bind(view.World, n.Pods, name)
	return name
}

// origin writes down what a node replaces, in the words that a move leaves on a claim.
func origin(from []disrupt.Past) string {
	var parts []string
	for _, p := range from {
		parts = append(parts, strings.Join([]string{p.Pool, p.Type, p.Zone, p.CapacityType}, "/"))
	}
	slices.Sort(parts)
	return "id=forecast from=" + strings.Join(parts, ",")
}
