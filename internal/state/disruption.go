package state

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/state/toworld"
)

// DisruptionOptions is what decisions about nodes need to know and objects do not say.
type DisruptionOptions struct {
	// Past are moves of late.
	Past []disrupt.Past
	// Nominated says until when pods are expected on a node, by its name; a zero time is never. nil expects none.
	Nominated func(node string) time.Time
	// Moved says what is known of a pod that was moved for its cost, by UID. nil knows of none.
	Moved func(pod string) (Moved, bool)
	// Hold says why a pool is left alone for now, Turn that it is its turn all the same, and Horizon for which share of the usual time
	// its savings count; nil stands for "", false and 1. Blind says that a pool which is held keeps empty nodes too.
	Hold    func(pool string) string
	Blind   bool
	Turn    func(pool string) bool
	Horizon func(pool string) float64
	// Busy says what a claim is already part of, by its name; "" is nothing. nil knows of nothing.
	Busy func(claim string) string
	// Repair says which node conditions condemn an instance; without any nothing is repaired. They must be right (life.NewRepairRules).
	Repair []life.RepairPolicy
}

// Moved is what is remembered of a pod that was moved for its cost: how often that has happened of late, when last, and when its
// place has paid for it.
type Moved struct {
	Times    int
	At, Paid time.Time
	// Move is the id of the last move, and Was the pod that was there before it, as namespace/name; empty if that is not known.
	Move, Was string `json:",omitempty"`
}

// Disruption is everything that a decision about taking nodes away is made from. It reads nothing but the view.
func (v *View) Disruption(opt DisruptionOptions, now time.Time) *disrupt.Input {
	r := &disruptionReader{v: v, opt: opt, now: now, cover: v.newCover(), rules: rules(opt.Repair)}
	in := &disrupt.Input{World: v.World, Nodes: make([]disrupt.Node, len(v.Nodes)), Past: opt.Past}
	counts := map[string]*poolCount{}
	for i, n := range v.Nodes {
		in.Nodes[i] = r.node(n)
		r.count(counts, n)
	}
	in.Guarded = r.cover.left
	for _, w := range v.World.Pools {
		if p := v.Pool(w.Name); p != nil {
			in.Pools = append(in.Pools, r.pool(p, counts[w.Name]))
		}
	}
	return in
}

// Static is what static pools are scaled by: of nodes of other pools it says nothing.
func (v *View) Static(now time.Time) *disrupt.Input {
	in := &disrupt.Input{World: v.World, Nodes: make([]disrupt.Node, len(v.Nodes))}
	static := map[string]bool{}
	for _, p := range v.World.Pools {
		static[p.Name] = p.Static
	}
	r := &disruptionReader{v: v, now: now, cover: &cover{}} // PodDisruptionBudgets have no say in it
	for i, n := range v.Nodes {
		if n.Claim != nil && static[n.World.Pool] {
			r.readPods(n, &in.Nodes[i])
			r.static(n, &in.Nodes[i])
			drifted(n.Claim, &in.Nodes[i])
		}
	}
	return in
}

// disruptionReader reads one view at one moment.
type disruptionReader struct {
	v     *View
	opt   DisruptionOptions
	now   time.Time
	cover *cover
	rules *life.RepairRules
}

// node is what is known of a node besides what the world says.
func (r *disruptionReader) node(n *Node) disrupt.Node {
	out := disrupt.Node{Fixed: r.fixed(n)}
	r.readPods(n, &out)
	if n.Claim == nil {
		return out
	}
	out.Deadline = n.Claim.Spec.TerminationGracePeriod != nil
	r.static(n, &out)
	out.Illness = r.illness(n)
	if from, moved := n.Claim.Annotations[v1.MovedFromAnnotationKey]; moved {
		out.Made = n.Claim.CreationTimestamp.Time
		out.From = origin(from)
	}
	drifted(n.Claim, &out)
	out.Consolidatable, out.NotYet = r.quiet(n)
	return out
}

// drifted is what a claim says about its drift.
func drifted(claim *v1.NodeClaim, out *disrupt.Node) {
	c := condition(claim, v1.ConditionDrifted)
	if c == nil || c.Status != "True" {
		return
	}
	out.Drift, out.DriftedAt = c.Reason, c.LastTransitionTime.Time
	if c.Message != "" && c.Message != c.Reason {
		out.Drift = strings.TrimPrefix(c.Reason+": "+c.Message, ": ")
	}
	if out.Drift == "" {
		out.Drift = v1.ConditionDrifted
	}
}

// static is what decides which nodes a static pool counts and gives up (P104, P105).
func (r *disruptionReader) static(n *Node, out *disrupt.Node) {
	_, out.Moving = n.Claim.Annotations[v1.MoveAnnotationKey]
	out.Going = n.Claim.DeletionTimestamp != nil || n.Object != nil && n.Object.DeletionTimestamp != nil || n.World.Deleting && !out.Moving && !disrupted(n.Object)
	out.Ending = toworld.Holds(n.Claim, v1.ConditionInstanceTerminating)
	out.Unlaunched = n.Claim.Status.ProviderID == ""
	if n.Claim.Annotations[v1.DoNotDisruptAnnotationKey] == "true" || n.Object != nil && n.Object.Annotations[v1.DoNotDisruptAnnotationKey] == "true" {
		out.Protected = true
	}
	if out.Left = 1; n.Claim.Spec.ExpireAfter.Duration != nil && *n.Claim.Spec.ExpireAfter.Duration > 0 {
		age := r.now.Sub(n.Claim.CreationTimestamp.Time)
		out.Left = min(1, max(0, 1-age.Seconds()/n.Claim.Spec.ExpireAfter.Duration.Seconds()))
	}
}

// origin reads what a move has written on a claim that it made: "from=pool/type/zone/capacity-type,…" among other words.
func origin(text string) (from []disrupt.Past) {
	for _, word := range strings.Fields(text) {
		list, ok := strings.CutPrefix(word, "from=")
		if !ok {
			continue
		}
		for _, item := range strings.Split(list, ",") {
			if part := strings.Split(item, "/"); len(part) == 4 {
				from = append(from, disrupt.Past{Pool: part[0], Type: part[1], Zone: part[2], CapacityType: part[3]})
			}
		}
	}
	return from
}

// fixed says why a node is not to be touched, whatever the reason (D6).
func (r *disruptionReader) fixed(n *Node) string {
	if n.Claim != nil && r.opt.Busy != nil {
		if what := r.opt.Busy(n.Claim.Name); what != "" {
			return what
		}
	}
	switch w := n.World; {
	case w.Deleting:
		return "it is being deleted already"
	case n.Claim == nil && w.Pool == "":
		return "Karpenter did not make it"
	case n.Claim == nil:
		return "no NodeClaim stands behind it"
	case w.InFlight:
		return "it has not joined the cluster yet"
	case toworld.Holds(n.Claim, v1.ConditionRebooting):
		return beingRebooted
	case !w.Initialized:
		return "it is not initialized yet"
	case w.Pool == "":
		return "it belongs to no pool: it has no label " + v1.NodePoolLabelKey
	case len(n.Pods) != len(w.Pods):
		return "its pods are not known"
	}
	if n.Object.Annotations[v1.DoNotDisruptAnnotationKey] == "true" || n.Claim.Annotations[v1.DoNotDisruptAnnotationKey] == "true" {
		return "it has the annotation " + v1.DoNotDisruptAnnotationKey
	}
	if p := r.v.Pool(n.World.Pool); p != nil && len(p.World.Types) == 0 {
		return fmt.Sprintf("no instance types of pool %s are known", n.World.Pool)
	}
	if r.opt.Nominated != nil {
		if until := r.opt.Nominated(n.World.Name); r.now.Before(until) {
			return fmt.Sprintf("pods are expected on it within %s", until.Sub(r.now).Round(time.Second))
		}
	}
	return ""
}

// quiet says whether the node has seen no pod come or go for as long as its pool wants, and if not how long that takes (D24). The
// condition on the claim may be older than the pods of this view, and the pods may be older than what the condition counts
// from, so that either may say that it is too early.
func (r *disruptionReader) quiet(n *Node) (ok bool, notYet string) {
	p := r.v.Pool(n.World.Pool)
	if p == nil || p.Object.Spec.Replicas != nil || p.Object.Spec.Disruption.ConsolidateAfter.IsNever() {
		return false, ""
	}
	wait := *p.Object.Spec.Disruption.ConsolidateAfter.Duration
	since := n.Stirred()
	if left := since.Add(wait).Sub(r.now); left > 0 {
		return false, fmt.Sprintf("it has been quiet for %s of the %s that pool %s waits (consolidateAfter): %s left",
			words(r.now.Sub(since)), words(wait), n.World.Pool, words(left))
	}
	if toworld.Holds(n.Claim, v1.ConditionConsolidatable) || !since.IsZero() {
		return true, ""
	}
	return false, "nothing says since when it has been quiet: its claim has no condition " + v1.ConditionConsolidatable
}

func words(d time.Duration) string { return max(d, 0).Round(time.Second).String() }

// Stirred is when a pod that is no daemon last came to a node of a claim, finished there or was told to leave, or when the node was
// initialized if none did since.
func (n *Node) Stirred() time.Time {
	n.stirredOnce.Do(func() { n.stirred = n.lastStir() })
	return n.stirred
}

func (n *Node) lastStir() time.Time {
	last := n.Claim.Status.LastPodEventTime.Time
	if c := condition(n.Claim, v1.ConditionInitialized); c != nil && c.Status == "True" && c.LastTransitionTime.After(last) {
		last = c.LastTransitionTime.Time
	}
	for i, p := range n.Pods {
		if len(n.World.Pods) == len(n.Pods) && (n.World.Pods[i].Daemon || n.World.Pods[i].Mirror) {
			continue
		}
		if at := bound(p); at.After(last) {
			last = at
		}
		if p.DeletionTimestamp != nil {
			told := p.DeletionTimestamp.Time
			if p.DeletionGracePeriodSeconds != nil {
				told = told.Add(-time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
			}
			if told.After(last) {
				last = told
			}
		}
	}
	return last
}

// bound is when the scheduler says that it bound the pod; zero if it does not.
func bound(p *corev1.Pod) time.Time {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func condition(c *v1.NodeClaim, kind string) *v1.Condition {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == kind {
			return &c.Status.Conditions[i]
		}
	}
	return nil
}
