package explain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// Claim says how far a claim has come, what it waits for and until when, and why it is the instance that it is.
func (c *Cluster) Claim(name string) (*Answer, error) {
	ref := ledger.Ref{Kind: "NodeClaim", Name: name}
	n := c.view.Claim(name)
	if n == nil || n.Claim == nil {
		return c.strayClaim(name)
	}
	a := &Answer{Subject: ref}
	l := c.lifeOf(n.Claim)
	a.Why = l.why
	switch {
	case n.Claim.DeletionTimestamp != nil:
		c.leavingNode(a, n)
	case l.up:
		a.Verdict = fmt.Sprintf("has become node %s, %s", n.World.Name, l.short)
	default:
		a.Verdict = "is on its way: " + l.short
	}
	c.moveNote(a, n.Claim)
	c.chosen(a, n)
	c.claimFacts(a, n)
	a.Node = model.NewNodeDetail(n)
	for _, cond := range n.Claim.Status.Conditions {
		if cond.Status == metav1.ConditionFalse && cond.Message != "" {
			a.Why = append(a.Why, why.New(why.Refused, "%s is False: %s", cond.Type, cond.Message))
		}
	}
	a.remember(c.history(ref))
	return a, nil
}

// strayClaim is about a claim that no node stands for.
func (c *Cluster) strayClaim(name string) (*Answer, error) {
	var names []string
	for _, n := range c.view.Nodes {
		if n.Claim != nil {
			names = append(names, n.Claim.Name)
		}
	}
	_, strays := c.view.Strays()
	for _, s := range strays {
		if s.Name != name {
			names = append(names, s.Name)
			continue
		}
		l := c.lifeOf(s)
		return &Answer{
			Subject: ledger.Ref{Kind: "NodeClaim", Name: name}, Verdict: "is on its way: " + l.short + "; no node of the plan stands for it",
			Why: append(l.why, why.New(why.Hint, "another claim has the same instance, or it cannot be read")),
		}, nil
	}
	return nil, &NotFound{Kind: "NodeClaim", Name: name, Similar: why.Similar(name, names)}
}

// stage is how far a claim has come.
type stage struct {
	up    bool
	short string
	why   []why.Reason
}

// lifeOf says how far a claim has come, what it waits for, and when it is given up.
func (c *Cluster) lifeOf(cl *v1.NodeClaim) stage {
	set := cl.StatusConditions()
	facts := life.Claim{
		Created: cl.CreationTimestamp.Time, Deleting: cl.DeletionTimestamp != nil, ProviderID: cl.Status.ProviderID,
		Launched: milestone(set.Get(v1.ConditionLaunched)), Registered: milestone(set.Get(v1.ConditionRegistered)), Initialized: milestone(set.Get(v1.ConditionInitialized)),
	}
	if r := set.Get(v1.ConditionRebooting); r != nil && r.Status == metav1.ConditionFalse {
		facts.Rebooted = r.LastTransitionTime.Time
	}
	ago := func(x life.Condition) string {
		if x.Since.Unix() <= 0 {
			return ""
		}
		return " " + span(c.opt.Now.Sub(x.Since)) + " ago"
	}
	var s stage
	next := v1.ConditionLaunched
	switch {
	case facts.Deleting:
		s.short = "is being deleted"
		return s
	case facts.ProviderID == "":
		s.short = "not launched yet"
		if facts.Created.Unix() > 0 {
			s.short += ", made " + span(c.opt.Now.Sub(facts.Created)) + " ago"
		}
	case facts.Registered.Status != life.True:
		s.short, next = "launched"+ago(facts.Launched)+", not registered yet", v1.ConditionRegistered
	case facts.Initialized.Status != life.True:
		s.short, next = "registered"+ago(facts.Registered)+", not initialized yet", v1.ConditionInitialized
	default:
		s.up, s.short = true, "initialized"+ago(facts.Initialized)
		return s
	}
	if cond := set.Get(next); cond.Message != "" && cond.Reason != v1.ReasonAwaitingReconciliation {
		s.why = append(s.why, why.New(why.Refused, "%s: %s", cond.Reason, cond.Message))
	}
	switch cause, left := life.Late(facts, c.opt.Limits, c.opt.Now); {
	case cause != "":
		s.why = append(s.why, why.New(why.Limit, "it has had all the time that there is (%s) and is given up", cause))
	case left > 0:
		s.why = append(s.why, why.New(why.Chosen, "it is given up in %s if it is not %s by then", span(left), next))
	}
	if usual, of := c.usual(cl.Labels[v1.NodePoolLabelKey]); of > 0 && facts.Created.Unix() > 0 {
		s.why = append(s.why, why.New(why.Chosen, "expected %s: nodes of its pool take %s from claim to usable (middle of %d)", c.expected(facts.Created.Add(usual)), span(usual), of))
	}
	return s
}

// expected says when something should happen.
func (c *Cluster) expected(at time.Time) string {
	if left := at.Sub(c.opt.Now); left > 0 {
		return "in " + span(left)
	}
	return "any moment"
}

func milestone(x *v1.Condition) life.Condition {
	status := life.Unknown
	switch x.Status {
	case metav1.ConditionTrue:
		status = life.True
	case metav1.ConditionFalse:
		status = life.False
	}
	return life.Condition{Status: status, Reason: x.Reason, Since: x.LastTransitionTime.Time}
}

// usual is how long nodes of a pool have taken from claim to usable, in the middle, and how many there are to tell from.
func (c *Cluster) usual(pool string) (time.Duration, int) {
	var took []time.Duration
	for _, n := range c.view.Nodes {
		if n.Claim == nil || n.World.Pool != pool {
			continue
		}
		x := n.Claim.StatusConditions().Get(v1.ConditionInitialized)
		if d := x.LastTransitionTime.Sub(n.Claim.CreationTimestamp.Time); x.Status == metav1.ConditionTrue && d > 0 && d <= c.opt.Limits.Launch+c.opt.Limits.Register+c.opt.Limits.Initialize {
			took = append(took, d)
		}
	}
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], len(took)
}

// chosen says what the claim could choose from, and what of it would be cheapest now.
func (c *Cluster) chosen(a *Answer, n *state.Node) {
	pool := slices.IndexFunc(c.world.Pools, func(p *world.Pool) bool { return p.Name == n.World.Pool })
	if pool < 0 {
		return
	}
	asks := func(key string) []string {
		for _, r := range n.Claim.Spec.Requirements {
			if r.Key == key && r.Operator == corev1.NodeSelectorOpIn {
				return r.Values
			}
		}
		return nil
	}
	names, zones, capacityTypes := asks(world.LabelInstanceType), asks(world.LabelZone), asks(world.LabelCapacityType)
	if len(names) == 0 {
		return
	}
	var best *pack.Choice
	offers, _ := c.world.Pools[pool].Offers()
	for _, x := range offers {
		o := x.Offering
		if !o.Launchable() || !slices.Contains(names, x.Type.Name) || len(zones) > 0 && !slices.Contains(zones, o.Zone) || len(capacityTypes) > 0 && !slices.Contains(capacityTypes, o.CapacityType) {
			continue
		}
		if best == nil || o.Price < best.Offering.Price {
			best = &pack.Choice{Type: x.Type, Offering: o}
		}
	}
	a.Why = append(a.Why, why.Counted(why.Chosen, 1, len(names), fmt.Sprintf("the cloud could choose from %s that hold its pods", why.Count(len(names), "type"))))
	if best != nil && best.Type.Name != label(n.World, world.LabelInstanceType) {
		a.Nearest = alternative(n.World.Pool, *best)
		a.Nearest.Text += ", the cheapest of them now"
	}
}

// claimFacts lists what is known of a claim.
func (c *Cluster) claimFacts(a *Answer, n *state.Node) {
	cl := n.Claim
	a.fact("type", instance(n.World))
	a.fact("instance", cl.Status.ProviderID)
	a.fact("image", cl.Status.ImageID)
	a.fact("node", cl.Status.NodeName)
	a.fact("pool", n.World.Pool)
	if cl.CreationTimestamp.Unix() > 0 {
		a.fact("age", span(c.opt.Now.Sub(cl.CreationTimestamp.Time)))
	}
	if cond := cl.StatusConditions().Get(v1.ConditionDrifted); cond != nil && cond.Status == metav1.ConditionTrue {
		a.fact("drifted", cond.Reason)
	}
	c.expiry(a, cl)
}

// expiry notes when the claim ends by its age.
func (c *Cluster) expiry(a *Answer, cl *v1.NodeClaim) {
	if !cl.Spec.ExpireAfter.IsNever() && cl.CreationTimestamp.Unix() > 0 {
		a.fact("expires", c.moment(life.Expiry(cl.CreationTimestamp.Time, *cl.Spec.ExpireAfter.Duration, string(cl.UID))))
	}
}

// deadlineOf is when draining stops waiting for anything, zero for never.
func deadlineOf(cl *v1.NodeClaim) time.Time {
	recorded, _ := time.Parse(time.RFC3339, cl.Annotations[v1.TerminationTimestampAnnotationKey])
	var grace *time.Duration
	if cl.Spec.TerminationGracePeriod != nil {
		grace = &cl.Spec.TerminationGracePeriod.Duration
	}
	var deleted time.Time
	if cl.DeletionTimestamp != nil {
		deleted = cl.DeletionTimestamp.Time
	}
	return life.Deadline(recorded, deleted, grace)
}

// endNotes adds what the claim says about its end.
func (c *Cluster) endNotes(a *Answer, cl *v1.NodeClaim) {
	for _, kind := range []string{v1.ConditionDrained, v1.ConditionVolumesDetached, v1.ConditionInstanceTerminating} {
		for _, x := range cl.Status.Conditions {
			if x.Type == kind && (x.Message != "" && x.Message != x.Type || x.Status == metav1.ConditionTrue) {
				text := fmt.Sprintf("%s: %s", x.Type, x.Status)
				if x.Message != "" && x.Message != x.Type {
					text += ", " + x.Message
				}
				a.Why = append(a.Why, why.New(why.Chosen, "%s", text))
			}
		}
	}
}
