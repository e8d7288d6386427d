package state

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// Strays lists the nodes and claims that no node of the view shows: nodes that cannot be read, claims that share an instance.
func (v *View) Strays() (nodes []*corev1.Node, claims []*v1.NodeClaim) {
	if v.sources == nil {
		return nil, nil
	}
	return v.sources.nodes, v.sources.claims
}

// Blocker is a pod that keeps its node from being removed.
type Blocker struct {
	Pod *corev1.Pod
	// Text says how, in the words of decisions.
	Text string
	// Protected says that the pod's annotation do-not-disrupt does it, until Until if that is not zero.
	Protected bool
	Until     time.Time
	// Budgets are the disruption budgets that do it.
	Budgets []*policyv1.PodDisruptionBudget
}

// Blockers lists the pods of a node that keep it from being removed.
func (v *View) Blockers(n *Node, now time.Time) []Blocker {
	if len(n.Pods) != len(n.World.Pods) {
		return nil
	}
	r := &disruptionReader{v: v, now: now, cover: v.newCover()}
	var out []Blocker
	for i, p := range n.Pods {
		alone := &Node{World: withPods(n.World, n.World.Pods[i:i+1], v.World.Classes), Object: n.Object, Claim: n.Claim, Pods: n.Pods[i : i+1]}
		facts := disrupt.Node{}
		r.readPods(alone, &facts)
		if facts.PodsFixed == "" {
			continue
		}
		b := Blocker{Pod: p, Text: facts.PodsFixed}
		if shield := life.Protect(p.Annotations[v1.DoNotDisruptAnnotationKey], started(p), now); shield.Holds {
			b.Protected, b.Until = true, shield.Until
		} else {
			b.Budgets = v.Budgets(p)
		}
		out = append(out, b)
	}
	return out
}

// Lift is what is thought away around a node, to find out what keeps it.
type Lift struct {
	// Annotation takes do-not-disrupt off the node and its claim.
	Annotation bool
	// Pods lose their annotation do-not-disrupt, by UID.
	Pods []types.UID
	// Budgets allow one more eviction each, and Dropped ones are not there: disruption budgets by namespace and name.
	Budgets, Dropped []types.NamespacedName
}

// Lifted is a node with what is known of it, and how many evictions disruption budgets allow, once something is thought away. It
// is read by the same rules as Disruption reads every node; what is not in objects (nominations, moves under way) is not looked
// at.
func (v *View) Lifted(i int, lift Lift, now time.Time) (*world.Node, disrupt.Node, []int32) {
	is := v.Nodes[i]
	n := &Node{World: is.World, Object: is.Object, Claim: is.Claim, Pods: is.Pods, PodEvent: is.PodEvent, Assumed: is.Assumed}
	if lift.Annotation {
		if n.Object != nil {
			n.Object = n.Object.DeepCopy()
			delete(n.Object.Annotations, v1.DoNotDisruptAnnotationKey)
		}
		if n.Claim != nil {
			n.Claim = n.Claim.DeepCopy()
			delete(n.Claim.Annotations, v1.DoNotDisruptAnnotationKey)
		}
	}
	w := &View{World: v.World, Nodes: v.Nodes, pools: v.pools, claims: v.claims, pods: v.pods, budgets: v.liftedBudgets(lift), ownCosts: v.ownCosts}
	rules := &Mirror{budgets: w.budgets, now: now}
	pods := slices.Clone(n.World.Pods)
	n.Pods = slices.Clone(n.Pods)
	for k, p := range n.Pods {
		if slices.Contains(lift.Pods, p.UID) {
			p = p.DeepCopy()
			delete(p.Annotations, v1.DoNotDisruptAnnotationKey)
			n.Pods[k] = p
		}
		if len(pods) != len(n.Pods) {
			continue
		}
		if movable, _ := rules.movable(p, controller(p)); movable != pods[k].Movable {
			c := *pods[k]
			c.Movable = movable
			pods[k] = &c
		}
	}
	n.World = withPods(n.World, pods, v.World.Classes)
	r := &disruptionReader{v: w, now: now, cover: w.newCover()}
	facts := r.node(n)
	return n.World, facts, r.cover.left
}

// liftedBudgets is the disruption budgets with something thought away. Their order stays, as guards count by it.
func (v *View) liftedBudgets(lift Lift) map[string][]budget {
	if len(lift.Budgets)+len(lift.Dropped) == 0 {
		return v.budgets
	}
	out := make(map[string][]budget, len(v.budgets))
	for name, list := range v.budgets {
		out[name] = slices.Clone(list)
		for i := range out[name] {
			b := &out[name][i]
			id := types.NamespacedName{Namespace: toworld.Space(b.obj), Name: b.obj.Name}
			if slices.Contains(lift.Dropped, id) {
				b.selector, b.full = world.Selector{}, false
			}
			if slices.Contains(lift.Budgets, id) {
				b.obj, b.full = allowing(b.obj), false
			}
		}
	}
	return out
}

// allowing is the budget when it lets one more pod go.
func allowing(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	b = b.DeepCopy()
	b.Status.DisruptionsAllowed = max(0, b.Status.DisruptionsAllowed) + 1
	b.Status.ObservedGeneration = b.Generation
	if fullyBlocking(b) {
		one := intstr.FromInt32(1)
		b.Spec.MinAvailable, b.Spec.MaxUnavailable = nil, &one
	}
	return b
}

// FullyBlocking says whether a disruption budget never lets a pod go, whatever its pods do.
func FullyBlocking(b *policyv1.PodDisruptionBudget) bool { return fullyBlocking(b) }

// QuietSince is when a pod that is no daemon last came to the node or left it; zero if nothing says so.
func (v *View) QuietSince(n *Node) time.Time {
	if n.Claim == nil {
		return time.Time{}
	}
	return n.Stirred()
}

// Leaving is what draining needs to know of a pod.
func Leaving(pod *corev1.Pod) life.Pod {
	owner := controller(pod)
	p := life.Pod{
		Critical:     pod.Spec.PriorityClassName == "system-cluster-critical" || pod.Spec.PriorityClassName == "system-node-critical",
		Daemon:       owner == "DaemonSet",
		Mirror:       owner == "Node",
		Ended:        terminal(pod),
		Grace:        corev1.DefaultTerminationGracePeriodSeconds * time.Second,
		Started:      started(pod),
		DoNotDisrupt: pod.Annotations[v1.DoNotDisruptAnnotationKey],
	}
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		p.Mirror = true
	}
	taint := v1.DisruptedTaint()
	p.Tolerant = slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return (world.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: world.Effect(t.Effect)}).
			Tolerates(world.Taint{Key: taint.Key, Value: taint.Value, Effect: world.Effect(taint.Effect)})
	})
	if pod.DeletionTimestamp != nil {
		p.Leaving = pod.DeletionTimestamp.Time
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		p.Grace = time.Duration(*s) * time.Second
	}
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		p.LeavingGrace = time.Duration(*s) * time.Second
	}
	return p
}

// BudgetNodes counts a pool's nodes as its budgets for a reason do: those that are up, and those of them that are out already.
func (v *View) BudgetNodes(pool string, reason disrupt.Reason) (nodes, out int) {
	r := &disruptionReader{v: v}
	counts := map[string]*poolCount{}
	for _, n := range v.Nodes {
		if n.World.Pool == pool {
			r.count(counts, n)
		}
	}
	if c := counts[pool]; c != nil {
		return c.nodes, c.outFor(reason)
	}
	return 0, 0
}
