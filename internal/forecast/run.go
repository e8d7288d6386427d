package forecast

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/model"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// run is a forecast in the making.
type run struct {
	start    Start
	objects  *dump.Objects
	problems []dump.Problem
	pods     map[string]int // namespace/name to index in objects.Pods
	past     []disrupt.Past
	serial   int
	made     map[string][]why.Reason // nodes of the forecast, by name, and why they are what they are
	now      time.Time
	acted    time.Time // when the last thing was done
	out      *Outcome
}

func newRun(s Start) *run {
	o := *s.Objects
	o.Pods, o.Nodes, o.Claims = slices.Clone(o.Pods), slices.Clone(o.Nodes), slices.Clone(o.Claims)
	r := &run{
		start: s, objects: &o, now: s.Record.Now, acted: s.Record.Now, past: slices.Clone(s.Past), pods: map[string]int{},
		made: map[string][]why.Reason{}, out: &Outcome{},
	}
	r.start.Record.Read()
	r.index()
	r.out.Boot, r.out.Observed = boot(o.Claims)
	return r
}

// index finds pods by name.
func (r *run) index() {
	clear(r.pods)
	for i, p := range r.objects.Pods {
		if p.Namespace == "" {
			c := *p
			c.Namespace = corev1.NamespaceDefault
			p = &c
			r.objects.Pods[i] = p
		}
		r.pods[p.Namespace+"/"+p.Name] = i
	}
}

// boot is how long nodes took from claim to being initialized: the median, and of how many.
func boot(claims []*v1.NodeClaim) (time.Duration, int) {
	var took []time.Duration
	for _, c := range claims {
		up := c.StatusConditions().Get(v1.ConditionInitialized)
		if up == nil || up.Status != "True" || c.CreationTimestamp.IsZero() {
			continue
		}
		if d := up.LastTransitionTime.Sub(c.CreationTimestamp.Time); d > 0 {
			took = append(took, d)
		}
	}
	if len(took) == 0 {
		return defaultBoot, 0
	}
	slices.Sort(took)
	return took[len(took)/2], len(took)
}

// view is the cluster as it is now.
func (r *run) view() *state.View {
	o, rec := *r.objects, r.start.Record
	o.Pods, o.Nodes = slices.Clone(o.Pods), slices.Clone(o.Nodes) // reading sorts them
	rec.Now = r.now
	view, problems := state.Rebuild(&o, rec)
	r.problems = problems
	return view
}

// noteUnplaced remembers the pods that this plan leaves unschedulable.
func (r *run) noteUnplaced(view *state.View, plan *pack.Plan) {
	r.out.Unplaced = nil
	for _, u := range plan.Unplaced {
		x := model.Unschedulable(model.PodNames(view.World, u.Pods), u.Reasons)
		slices.Sort(x.Pods)
		r.out.Unplaced = append(r.out.Unplaced, x)
	}
	slices.SortFunc(r.out.Unplaced, func(a, b model.Pending) int { return strings.Compare(a.Pods[0], b.Pods[0]) })
}

// settleStarting has nodes that are on their way come up.
func (r *run) settleStarting(view *state.View) {
	for _, n := range view.Nodes {
		if n.Claim == nil || n.World.Deleting || n.World.Initialized && !n.World.InFlight {
			continue
		}
		node := n.Object
		if node == nil {
			node = &corev1.Node{}
			node.Name, node.Labels = n.World.Name, map[string]string{}
			node.CreationTimestamp = n.Claim.CreationTimestamp
		}
		node = node.DeepCopy()
		for _, l := range n.World.Labels {
			node.Labels[l.Key] = l.Value
		}
		for _, key := range []string{world.LabelRegistered, world.LabelInitialized} {
			node.Labels[key] = "true"
		}
		node.Labels[world.LabelHostname] = node.Name
		node.Spec.Taints = nil
		for _, t := range n.World.Taints {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
		}
		node.Status.Allocatable, node.Status.Capacity = view.List(n.World.Allocatable), view.List(n.World.Capacity)
		node.Status.Conditions = ready()
		claim := n.Claim.DeepCopy()
		if claim.Status.ProviderID == "" {
			claim.Status.ProviderID = "forecast:///" + claim.Name
		}
		node.Spec.ProviderID, claim.Status.NodeName = claim.Status.ProviderID, node.Name
		up(claim, r.now)
		r.put(node, claim)
	}
}

// put adds a node with its claim, or replaces those of the same names.
func (r *run) put(node *corev1.Node, claim *v1.NodeClaim) {
	r.objects.Nodes = append(slices.DeleteFunc(r.objects.Nodes, func(n *corev1.Node) bool { return n.Name == node.Name }), node)
	r.objects.Claims = append(slices.DeleteFunc(r.objects.Claims, func(c *v1.NodeClaim) bool { return c.Name == claim.Name }), claim)
}

// up says on a claim that its node is up since a moment.
func up(c *v1.NodeClaim, now time.Time) {
	set := c.StatusConditions()
	for _, kind := range []string{v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized} {
		set.SetTrue(kind, now)
	}
}

func ready() []corev1.NodeCondition {
	return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
}

// node describes a node, with its pods that are no daemons.
func (r *run) node(view *state.View, n *state.Node) model.PlannedNode {
	m := model.PlannedNode{Node: model.NodeOf(n.World)}
	m.Why, m.New = r.made[n.World.Name]
	m.Node.Node = n.World.Name
	for _, p := range n.World.Pods {
		if !p.Daemon && !p.Mirror {
			m.Pods = append(m.Pods, view.World.PodName(p))
		}
	}
	return m
}

// bound is the condition of a pod that has just been given a place.
func bound(now time.Time) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}
}

// bind puts pods on a node, and says whether there were any.
func (r *run) bind(s *world.Snapshot, pods []*world.Pod, node string) (any bool) {
	condition := bound(r.now)
	for _, p := range pods {
		i, ok := r.pods[s.PodName(p)]
		if !ok {
			continue
		}
		c := *r.objects.Pods[i]
		c.Spec.NodeName, c.DeletionTimestamp = node, nil
		c.Status.Phase, c.Status.NominatedNodeName = corev1.PodRunning, ""
		c.Status.Conditions = append(slices.DeleteFunc(slices.Clone(c.Status.Conditions), func(x corev1.PodCondition) bool {
			return x.Type == corev1.PodScheduled || x.Type == corev1.PodReady
		}), condition, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		r.objects.Pods[i] = &c
		any = true
	}
	return any
}

// drop removes nodes, with their claims. Of pods that are still bound to them those that something makes anew become pending;
// the others are gone.
func (r *run) drop(names map[string]bool, claims map[string]bool) {
	r.objects.Nodes = slices.DeleteFunc(r.objects.Nodes, func(n *corev1.Node) bool { return names[n.Name] })
	r.objects.Claims = slices.DeleteFunc(r.objects.Claims, func(c *v1.NodeClaim) bool { return claims[c.Name] })
	for i, p := range r.objects.Pods {
		if p.Spec.NodeName != "" && names[p.Spec.NodeName] && madeAnew(p) {
			r.objects.Pods[i] = unbound(p)
		}
	}
	r.objects.Pods = slices.DeleteFunc(r.objects.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" && names[p.Spec.NodeName] })
	r.index()
}

// madeAnew says whether something makes another pod, on any node, when this one goes.
func madeAnew(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller && o.Kind != "DaemonSet" && o.Kind != "Node"
	})
}

// unbound is the pod that takes the place of one that had a node, and waits.
func unbound(p *corev1.Pod) *corev1.Pod {
	c := *p
	c.Spec.NodeName, c.DeletionTimestamp = "", nil
	c.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
	}}
	return &c
}

// dropLeaving ends nodes that are on their way out. Their pods have been given places before.
func (r *run) dropLeaving(view *state.View) bool {
	names, claims := map[string]bool{}, map[string]bool{}
	for _, n := range view.Nodes {
		if !n.World.Deleting {
			continue
		}
		names[n.World.Name] = true
		if n.Claim != nil {
			claims[n.Claim.Name] = true
		}
	}
	if len(names) == 0 {
		return false
	}
	r.drop(names, claims)
	return true
}

// labelsOf are the labels of a node that is made from a plan.
func labelsOf(n *pack.NewNode, name string) map[string]string {
	labels := n.NodeLabels()
	maps.Copy(labels, map[string]string{world.LabelHostname: name, world.LabelRegistered: "true", world.LabelInitialized: "true"})
	return labels
}
