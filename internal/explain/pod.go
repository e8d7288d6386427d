package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// slowBinding is from when on a pod that has room on a node and is not bound yet is worth a remark.
const slowBinding = time.Minute

// Pod says why a pod waits and what would help, or why it runs where it does and whether it keeps its node.
func (c *Cluster) Pod(namespace, name string) (*Answer, error) {
	namespace = cmp.Or(namespace, corev1.NamespaceDefault)
	ref := ledger.Ref{Kind: "Pod", Namespace: namespace, Name: name}
	a := &Answer{Subject: ref}
	full := namespace + "/" + name
	at, ok := c.find(full)
	if !ok {
		for _, p := range c.view.Idle() {
			if cmp.Or(p.Namespace, corev1.NamespaceDefault) == namespace && p.Name == name {
				c.idlePod(a, p)
				a.History = c.history(ref)
				return a, nil
			}
		}
		return nil, c.noPod(full)
	}
	obj := c.podObject(at)
	switch {
	case obj != nil && obj.Spec.NodeName != "":
		c.boundPod(a, at, obj)
	case at.node >= 0 && obj != nil && obj.Status.NominatedNodeName == c.world.Nodes[at.node].Name:
		c.nominatedPod(a, at, obj)
	case at.node >= 0: // a claim has been made for it
		c.expectedPod(a, at)
	default:
		c.waitingPod(a, at)
	}
	c.podFacts(a, at, obj)
	a.remember(c.history(ref))
	return a, nil
}

// podObject is the pod as the API has it, or nil.
func (c *Cluster) podObject(at place) *corev1.Pod {
	if at.node >= 0 {
		for _, p := range c.view.Nodes[at.node].Pods { // UIDs may be missing in text
			if p.Name == at.pod.Name && cmp.Or(p.Namespace, corev1.NamespaceDefault) == c.world.Classes[at.pod.Class].Namespace {
				return p
			}
		}
	}
	if at.pod.UID == "" {
		return nil // pods of files that people write may have none, and are not told apart by it
	}
	return c.view.Pod(types.UID(at.pod.UID))
}

// waiting is since when a pod is known to be unschedulable; zero if nothing says so.
func waiting(p *corev1.Pod) time.Time {
	if p == nil {
		return time.Time{}
	}
	for i := range p.Status.Conditions {
		if x := &p.Status.Conditions[i]; x.Type == corev1.PodScheduled && x.LastTransitionTime.Unix() > 0 {
			return x.LastTransitionTime.Time
		}
	}
	if p.CreationTimestamp.Unix() <= 0 {
		return time.Time{}
	}
	return p.CreationTimestamp.Time
}

// noPod is the error about a pod that is not there.
func (c *Cluster) noPod(full string) error {
	names := make([]string, 0, len(c.pods))
	for n := range c.pods {
		names = append(names, n)
	}
	for _, p := range c.view.Idle() {
		names = append(names, cmp.Or(p.Namespace, corev1.NamespaceDefault)+"/"+p.Name)
	}
	slices.Sort(names)
	space, name, _ := strings.Cut(full, "/")
	like := ""
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, "/"+name) }); i >= 0 {
		like = names[i] // the name is right and the namespace is not
	} else {
		var here []string
		for _, n := range names {
			if rest, ok := strings.CutPrefix(n, space+"/"); ok {
				here = append(here, rest)
			}
		}
		if like = why.Similar(name, here); like != "" {
			like = space + "/" + like
		}
	}
	return &NotFound{Kind: "pod", Name: full, Similar: like, Note: "pods that have finished are not looked at"}
}

// idlePod is about a pod that nothing is planned for: it has not been found unschedulable.
func (c *Cluster) idlePod(a *Answer, p *corev1.Pod) {
	owner := ""
	for _, r := range p.OwnerReferences {
		if r.Controller != nil && *r.Controller || r.Kind == "Node" {
			owner = r.Kind
		}
	}
	var text string
	switch {
	case p.DeletionTimestamp != nil:
		text = "it is being deleted"
	case owner == "Node":
		text = "it is a static pod, which its kubelet runs"
	case owner == "DaemonSet":
		text = "it belongs to a DaemonSet: nodes are made with room for daemons, but never for one"
	case len(p.Spec.SchedulingGates) > 0:
		gates := make([]string, len(p.Spec.SchedulingGates))
		for i, g := range p.Spec.SchedulingGates {
			gates[i] = g.Name
		}
		text = "it is held back by " + why.Count(len(gates), "scheduling gate") + ": " + why.List(gates, maxNamed)
	case p.Status.NominatedNodeName != "":
		text = fmt.Sprintf("kube-scheduler is about to bind it to node %s", p.Status.NominatedNodeName)
	case p.Spec.NodeName != "":
		text = fmt.Sprintf("it is bound to node %s, which is not there", p.Spec.NodeName)
	case p.Spec.SchedulerName != "" && p.Spec.SchedulerName != corev1.DefaultSchedulerName:
		text = fmt.Sprintf("scheduler %s has not said that it is unschedulable", p.Spec.SchedulerName)
	default:
		text = "kube-scheduler has not said that it is unschedulable"
	}
	a.Verdict = "is not planned for: " + text
	a.Why = []why.Reason{why.New(why.Refused, "%s", text)}
	for i := range p.Status.Conditions {
		if x := &p.Status.Conditions[i]; x.Type == corev1.PodScheduled && x.Message != "" {
			a.Why = append(a.Why, why.New(why.Hint, "the scheduler says: %s", x.Message))
		}
	}
}

// waitingPod is about a pod that needs a node.
func (c *Cluster) waitingPod(a *Answer, at place) {
	plan := c.Plan()
	is := func(p *world.Pod) bool { return p == at.pod || p.UID == at.pod.UID && p.Name == at.pod.Name }
	for _, n := range plan.Nodes {
		if slices.ContainsFunc(n.Pods, is) {
			c.plannedPod(a, n)
			return
		}
	}
	for _, f := range plan.Existing {
		if slices.ContainsFunc(f.Pods, is) {
			c.roomForPod(a, at, f.Node)
			return
		}
	}
	for _, u := range plan.Unplaced {
		if slices.ContainsFunc(u.Pods, is) {
			c.stuckPod(a, at, u)
			return
		}
	}
	a.Verdict = "is pending: it is not part of the plan yet"
	a.Why = []why.Reason{why.New(why.Refused, "it was created after the plan was made")}
}

// plannedPod is about a pod that a new node is planned for.
func (c *Cluster) plannedPod(a *Answer, n *pack.NewNode) {
	first := n.Choices[0]
	a.Verdict = fmt.Sprintf("is pending until a new node is launched: %s of pool %s in %s, %s, %s", first.Type.Name, n.Pool.Name, first.Offering.Zone, first.Offering.CapacityType, why.Money(n.Price()))
	if others := len(n.Pods) - 1; others > 0 {
		a.Verdict += ", shared with " + why.Count(others, "other pod")
	}
	a.Why = n.Why
	for _, x := range n.Choices[1:] {
		if x.Type != first.Type {
			a.Nearest = alternative(n.Pool.Name, x)
			a.Nearest.Text += fmt.Sprintf(", %s more", why.Money(x.Offering.Price-n.Price()))
			break
		}
	}
}

// roomForPod is about a pod that fits on a node that is there or on its way.
func (c *Cluster) roomForPod(a *Answer, at place, n *world.Node) {
	if n.InFlight || !n.Initialized {
		c.coming(a, n)
		return
	}
	a.Verdict = fmt.Sprintf("is pending until kube-scheduler binds it: node %s (%s) has room for it", n.Name, instance(n))
	a.Why = []why.Reason{why.New(why.Chosen, "node %s satisfies everything that it asks for", n.Name)}
	if since := waiting(c.podObject(at)); !since.IsZero() && c.opt.Now.Sub(since) > slowBinding {
		a.Why = append(a.Why, why.New(why.Hint, "it has waited for %s: see the scheduler's events of the pod (kubectl describe pod)", span(c.opt.Now.Sub(since))))
	}
}

// nominatedPod is about a pod that is to go to a node which it is nominated for.
func (c *Cluster) nominatedPod(a *Answer, at place, obj *corev1.Pod) {
	n := c.world.Nodes[at.node]
	a.Verdict = fmt.Sprintf("is pending until kube-scheduler binds it: it is nominated for node %s (%s)", n.Name, instance(n))
	a.Why = []why.Reason{why.New(why.Chosen, "its status.nominatedNodeName names node %s, which has room for it", n.Name)}
	for _, x := range c.view.Nominees {
		if x.Pod == obj && x.Preempting {
			a.Why = []why.Reason{why.New(why.Chosen, "its status.nominatedNodeName names node %s, where pods of lower priority are being deleted", n.Name)}
		}
	}
}

// expectedPod is about a pod that a claim has been made for.
func (c *Cluster) expectedPod(a *Answer, at place) { c.coming(a, c.world.Nodes[at.node]) }

// coming is about a pod whose node is on its way.
func (c *Cluster) coming(a *Answer, n *world.Node) {
	claim := cmp.Or(n.Claim, n.Name)
	a.Verdict = fmt.Sprintf("is pending until its node is ready: NodeClaim %s (%s)", claim, instance(n))
	v := c.view.Claim(claim)
	if v == nil || v.Claim == nil {
		a.Why = []why.Reason{why.New(why.Chosen, "NodeClaim %s is about to be created", claim)}
		return
	}
	l := c.lifeOf(v.Claim)
	a.Verdict += ", " + l.short
	a.Why = l.why
}

// boundPod is about a pod that is on a node.
func (c *Cluster) boundPod(a *Answer, at place, obj *corev1.Pod) {
	expected := at.node
	if at.node = slices.IndexFunc(c.view.Nodes, func(n *state.Node) bool { return n.World.Name == obj.Spec.NodeName && !n.World.InFlight }); at.node < 0 {
		a.Verdict = fmt.Sprintf("is bound to node %s, which is not there", obj.Spec.NodeName)
		return
	}
	n := c.view.Nodes[at.node].World
	a.Verdict = fmt.Sprintf("runs on node %s (%s)", n.Name, cmp.Or(instance(n), "of unknown price"))
	switch {
	case at.pod.Terminating:
		a.Verdict = fmt.Sprintf("is ending on node %s", n.Name)
	case n.Deleting && at.pod.Movable:
		a.Verdict = fmt.Sprintf("runs on node %s, which is being deleted", n.Name)
		next := &Answer{}
		if expected != at.node && expected >= 0 {
			c.coming(next, c.world.Nodes[expected])
		} else {
			c.waitingPod(next, at)
		}
		a.Why = append(a.Why, why.Reason{Code: why.Chosen, Text: "then it " + next.Verdict, Because: next.Why})
		a.Nearest, a.Change = next.Nearest, next.Change
		return
	}
	if n.Pool == "" {
		a.Why = append(a.Why, why.New(why.Refused, "Karpenter did not launch node %s and does not remove it", n.Name))
		return
	}
	c.podHolds(a, at, c.view.Nodes[at.node], obj)
}

// podHolds says whether a pod keeps its node from being removed, and what that costs.
func (c *Cluster) podHolds(a *Answer, at place, n *state.Node, obj *corev1.Pod) {
	switch {
	case at.pod.Daemon:
		a.Why = append(a.Why, why.New(why.Chosen, "it belongs to a DaemonSet: it ends with its node"))
	case at.pod.Mirror:
		a.Why = append(a.Why, why.New(why.Chosen, "it is a static pod, which its kubelet runs: it ends with its node"))
	}
	var own []state.Blocker
	others := 0
	for _, b := range c.view.Blockers(n, c.opt.Now) {
		if obj != nil && b.Pod.UID == obj.UID && b.Pod.Name == obj.Name {
			own = append(own, b)
		} else {
			others++
		}
	}
	if len(own) == 0 {
		if !at.pod.Daemon && !at.pod.Mirror {
			a.Why = append(a.Why, why.New(why.Chosen, "it does not keep its node from being removed"))
		}
		return
	}
	a.Verdict += ", and keeps that node from being removed: " + own[0].Text
	a.Why = append(a.Why, why.New(why.Refused, "%s", own[0].Text))
	if others > 0 {
		a.Why = append(a.Why, why.New(why.Refused, "%s keep it too", why.Count(others, "other pod")))
	}
	q := c.askAbout(int32(at.node))
	q.keep(blockerTweaks(own))
	a.Change, a.Tried = q.search()
}

// podFacts lists what is known of a pod.
func (c *Cluster) podFacts(a *Answer, at place, obj *corev1.Pod) {
	class := c.world.Classes[at.pod.Class]
	a.fact("requests", c.amounts(class.Requests))
	if class.Priority != 0 {
		a.fact("priority", fmt.Sprint(class.Priority))
	}
	if since := waiting(obj); !since.IsZero() && at.node < 0 {
		a.fact("waiting for", span(c.opt.Now.Sub(since)))
	}
	if obj == nil {
		return
	}
	if !obj.CreationTimestamp.IsZero() && obj.CreationTimestamp.Unix() > 0 {
		a.fact("age", span(c.opt.Now.Sub(obj.CreationTimestamp.Time)))
	}
	if s := obj.Spec.SchedulerName; s != "" && s != corev1.DefaultSchedulerName {
		a.fact("scheduler", s)
	}
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil && obj.Spec.NodeName == "" && !state.Tried(obj) {
		a.fact("planned because", fmt.Sprintf("the scheduler has found others of %s %s unschedulable, and has not tried this one yet", owner.Kind, owner.Name))
	}
	c.movedPod(a, obj)
	for _, b := range c.view.Budgets(obj) {
		a.fact("disruption budget", fmt.Sprintf("%s/%s, %s allowed now", cmp.Or(b.Namespace, corev1.NamespaceDefault), b.Name, why.Count(int(b.Status.DisruptionsAllowed), "eviction")))
	}
}

func (a *Answer) fact(name, value string) {
	if value != "" {
		a.Facts = append(a.Facts, Fact{name, value})
	}
}
