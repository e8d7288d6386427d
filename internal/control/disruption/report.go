package disruption

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// Reasons of events (O50, O51).
const (
	EventBlocked          = "DisruptionBlocked"
	EventUnconsolidatable = "Unconsolidatable"
	EventCandidate        = "ConsolidationCandidate"
	EventApproved         = "ConsolidationApproved"
	EventRejected         = "ConsolidationRejected"
	EventLaunching        = "DisruptionLaunching"
	EventWaiting          = "DisruptionWaitingReadiness"
	EventTerminating      = "DisruptionTerminating"
	EventChurn            = "ConsolidationChurn"
)

const (
	keptEvery   = 15 * time.Minute // D32
	budgetEvery = time.Minute      // D17
	failedEvery = 15 * time.Minute
	// Events about nodes that stay are held to this pace: a fleet of thousands has as many reasons. Those that have to wait are
	// told at a later decision.
	keptPerSecond = 10
	keptAtOnce    = 100
	// maxMessage is what the API server takes as an event's message.
	maxMessage = 1024
)

// reporter tells users and operators what is done and why: events, one log line per decision, metrics.
type reporter struct {
	l    *Loop
	pace flowcontrol.PassiveRateLimiter
	said map[string]said // by claim: why it stays
	// troubles are the budgets that could not be read, by pool, so that each is logged once (D4).
	troubles map[string]string
}

type said struct {
	text  string
	until time.Time
}

func newReporter(l *Loop) *reporter {
	return &reporter{
		l: l, pace: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(keptPerSecond, keptAtOnce, l.Clock),
		said: map[string]said{}, troubles: map[string]string{},
	}
}

// about tells the same of a node and its claim.
func (s *reporter) about(n *state.Node, e control.Event) {
	e.Message = e.Message[:min(len(e.Message), maxMessage)]
	objects := []client.Object{n.Claim}
	if n.Object != nil {
		objects = append(objects, n.Object)
	}
	for _, o := range objects {
		e.Object = o
		s.l.Recorder.Tell(e)
	}
}

// budgets shows how many nodes each pool may lose now, and how many it is without already (O28, D17).
func (s *reporter) budgets(view *state.View, in *disrupt.Input) {
	nodes, out, going := map[string]int{}, map[string]int{}, map[string]int{}
	for i, n := range view.Nodes {
		if !n.Counts() {
			continue
		}
		nodes[n.World.Pool]++
		if in.World.Nodes[i].Deleting || rebooting(n.Claim) {
			going[n.World.Pool]++
		}
		if in.World.Nodes[i].Deleting || rebooting(n.Claim) || !control.Ready(n.Object) {
			out[n.World.Pool]++
		}
	}
	for _, p := range in.Pools {
		pool := view.Pool(p.Name)
		if p.Trouble != "" && s.troubles[p.Name] != p.Trouble {
			s.l.Log.Error("disruption budgets cannot be understood, nothing is disrupted", "NodePool", p.Name, "error", p.Trouble)
		}
		s.troubles[p.Name] = p.Trouble
		for _, reason := range disrupt.Reasons() {
			consuming := out[p.Name]
			if reason == disrupt.Unhealthy {
				consuming = going[p.Name]
			}
			s.l.Meter.Set(meter.NodePoolsAllowedDisruptions, float64(p.Allowed[reason]), "nodepool", p.Name, "reason", lower(reason))
			s.l.Meter.Set(meter.NodePoolsNodesConsumingBudgets, float64(consuming), "nodepool", p.Name, "reason", lower(reason))
			if reason == disrupt.Unhealthy && len(s.l.Repair) == 0 {
				continue
			}
			if p.Allowed[reason] == 0 && nodes[p.Name] > 0 && (!p.Static || reason == disrupt.Drifted) && pool != nil {
				s.l.Recorder.Tell(control.Event{
					Object: pool.Object, Reason: EventBlocked, Every: budgetEvery,
					Message: fmt.Sprintf("No allowed disruptions for disruption reason %s due to blocking budget", reason),
				})
			}
		}
	}
	for name := range s.troubles {
		if view.Pool(name) == nil {
			delete(s.troubles, name)
			s.l.Meter.Drop(meter.NodePoolsAllowedDisruptions, "nodepool", name)
			s.l.Meter.Drop(meter.NodePoolsNodesConsumingBudgets, "nodepool", name)
			s.l.Meter.Drop(meter.NodePoolsPods, "nodepool", name)
		}
	}
}

// decided tells why nodes stay that somebody might expect to go (D6, D32), and counts those that could go (O37).
func (s *reporter) decided(view *state.View, in *disrupt.Input, d *disrupt.Decision) {
	eligible := map[disrupt.Reason]int{disrupt.Empty: 0, disrupt.Drifted: 0, disrupt.Underutilized: 0, disrupt.Unhealthy: 0}
	now := s.l.Clock.Now()
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if n.Illness != nil && n.Illness.Fixed == "" && !now.Before(n.Illness.Due) && (n.PodsFixed == "" || n.Illness.Grace != nil) {
			eligible[disrupt.Unhealthy]++
		}
		if n.Fixed != "" || n.PodsFixed != "" && !(n.Deadline && n.Drift != "") {
			continue
		}
		if n.Drift != "" {
			eligible[disrupt.Drifted]++
		}
		switch {
		case !n.Consolidatable || n.PodsFixed != "":
		case n.Cost <= 1:
			eligible[disrupt.Empty]++
		default:
			eligible[disrupt.Underutilized]++
		}
	}
	for reason, n := range eligible {
		s.l.Meter.Set(meter.DisruptionEligibleNodes, float64(n), "reason", lower(reason))
	}
	for _, score := range d.Rejected {
		s.weighed(in, score, "rejected")
	}
	for claim, last := range s.said {
		if !now.Before(last.until) {
			delete(s.said, claim)
		}
	}
	for _, k := range d.Kept {
		if k.Why.Code == why.Breaker {
			s.repairBlocked(view, view.Nodes[k.Node], in.Nodes[k.Node].Illness, k.Why)
			continue
		}
		s.kept(view.Nodes[k.Node], &in.Nodes[k.Node], k.Why, now)
	}
}

// kept tells why one node stays.
func (s *reporter) kept(n *state.Node, facts *disrupt.Node, reason why.Reason, now time.Time) {
	ill := facts.Illness != nil && !now.Before(facts.Illness.Due)
	if n.Claim == nil || deleted(n) || !facts.Consolidatable && facts.Drift == "" && !ill {
		return
	}
	event := EventUnconsolidatable
	switch {
	case ill:
		event = EventBlocked
	case facts.Fixed != "" || facts.PodsFixed != "":
		event = EventBlocked
	case reason.Code == why.Limit:
		event = EventRejected
	case facts.Drift != "":
		event = EventBlocked
	}
	text := event + strings.Map(letters, reason.Line()) // how long something still takes is no news
	if s.said[n.Claim.Name].text == text || !s.pace.TryAccept() {
		return
	}
	s.said[n.Claim.Name] = said{text, now.Add(keptEvery)}
	s.about(n, control.Event{Reason: event, Message: sentence(reason.Line()), Every: keptEvery})
}

func letters(r rune) rune {
	if r >= '0' && r <= '9' {
		return -1
	}
	return r
}

func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// begun tells that a move is carried out (O35, O36, O54).
func (s *reporter) begun(st *start) {
	decision, reason := st.decision(), lower(st.reason)
	labels := []string{"decision", decision, "reason", reason, "consolidation_type", st.kind}
	s.l.Meter.Add(meter.DisruptionDecisions, 1, labels...)
	pools := map[string]bool{}
	for _, n := range st.nodes {
		pool := n.World.Pool
		if !pools[pool] {
			s.l.Meter.Add(meter.DisruptionDecisionsByPool, 1, append([]string{"nodepool", pool}, labels...)...)
		}
		pools[pool] = true
		if st.reason != disrupt.Drifted && st.reason != disrupt.Unhealthy {
			s.about(n, control.Event{Reason: EventCandidate, Message: sentence(st.move.Why.Line())})
		}
		if st.reason == disrupt.Underutilized && policy(st.plan.in, pool) == string(disrupt.Balanced) { // D42
			s.about(n, control.Event{Reason: EventApproved, Message: sentence(st.move.Why.Line())})
		}
	}
	if st.first {
		because := "static-at-limit"
		if st.move.Slot {
			because = "no-reserved-capacity"
		}
		for pool := range pools {
			s.l.Meter.Add(meter.TerminateFirstDecisions, 1, "nodepool", pool, "reason", reason, "terminate_first_reason", because)
		}
	}
	for _, score := range st.move.Scores {
		s.weighed(st.plan.in, score, "approved")
	}
	s.l.Log.Info("disrupting node(s)", "command-id", st.id, "reason", reason, "decision", decision,
		"disrupted-node-count", len(st.nodes), "replacement-node-count", len(st.to), "pod-count", st.move.Evicts,
		"disrupted-nodes", control.FirstFew(nodeNames(st.nodes)), "replacement-nodes", control.FirstFew(st.to), "savings", why.Money(st.move.Saves),
		"why", st.move.Why.Line())
}

// weighed counts a consolidation that was approved or rejected for what it is worth to a pool (O40, O41).
func (s *reporter) weighed(in *disrupt.Input, score disrupt.Score, decision string) {
	labels := []string{"nodepool", score.Pool, "decision", decision, "policy", policy(in, score.Pool)}
	s.l.Meter.Observe(meter.ConsolidationScore, score.Value, labels...)
	s.l.Meter.Add(meter.ConsolidationMoves, 1, labels...)
}

// policy is the consolidation policy of a pool.
func policy(in *disrupt.Input, pool string) string {
	for i := range in.Pools {
		if in.Pools[i].Name == pool {
			return string(in.Pools[i].Policy)
		}
	}
	return ""
}

// waiting tells what a move waits for (D53).
func (s *reporter) waiting(c *command) {
	for _, r := range c.made {
		if initialized(r.Claim) {
			continue
		}
		event, text := EventWaiting, fmt.Sprintf("Waiting on readiness to continue disruption: nodeclaim/%s", r.Claim.Name)
		if r.Claim.Status.ProviderID == "" {
			event, text = EventLaunching, fmt.Sprintf("Launching nodeclaim/%s in place of %s (%s)", r.Claim.Name, control.FirstFew(nodeNames(c.stay)), c.reason)
		}
		s.about(r, control.Event{Reason: event, Message: text})
	}
}

// ended tells that a node is going because of a move of that kind of consolidation, or of none (O3, O4).
func (s *reporter) ended(n *state.Node, r record, kind string) {
	reason := lower(r.reason)
	s.l.memory.removed(n, s.l.Clock.Now())
	s.about(n, control.Event{Reason: EventTerminating, Message: "Disrupting Node: " + string(r.reason)})
	moved := 0
	for _, p := range n.World.Pods {
		if p.Movable && !p.Terminating {
			moved++
		}
	}
	within := state.Grace(n.Claim)
	if r.reason == disrupt.Unhealthy {
		within = r.grace
		control.Unhealthy(s.l.Meter, n.Claim, r.condition, within)
	}
	var policy karpv1.ConsolidationPolicy
	if kind != "" {
		policy = s.policyOf(n)
	}
	labels := control.DisruptedLabels(n.Claim, reason, policy, within)
	s.l.Meter.Add(meter.NodeClaimsDisrupted, 1, labels...)
	s.l.Meter.Add(meter.PodsDisruptionInitiated, float64(moved), labels...)
	s.l.Meter.Add(meter.DisruptionNodes, 1, "nodepool", poolOf(n.Claim), "action", r.decision(), "method", reason, "consolidation_type", kind)
	if r.reason == disrupt.Underutilized {
		s.evicted(poolOf(n.Claim), moved, r.saves*n.World.Price)
	}
}

// policyOf is the consolidation policy of a node's pool as it is now.
func (s *reporter) policyOf(n *state.Node) karpv1.ConsolidationPolicy {
	if p := s.l.Mirror.View().Pool(poolOf(n.Claim)); p != nil {
		return p.Object.Spec.Disruption.ConsolidationPolicy
	}
	return ""
}

// calledOff tells that the nodes of a move stay after all.
func (s *reporter) calledOff(c *command, because string) {
	s.l.Meter.Add(meter.DisruptionQueueFailures, 1, "decision", c.decision(), "reason", lower(c.reason), "consolidation_type", c.kind())
	for _, n := range c.stay {
		s.about(n, control.Event{Reason: EventBlocked, Message: "The node stays: " + because})
	}
}

// replacementsFail tells that replacements of a pool fail so often that no more are tried.
func (s *reporter) replacementsFail(view *state.View, pool string, count int) {
	p := view.Pool(pool)
	if p == nil || count < maxFailures {
		return
	}
	_, text := s.l.breaker.held(pool, s.l.version(view, pool), s.l.Clock.Now())
	s.l.Recorder.Tell(control.Event{Object: p.Object, Warning: true, Reason: EventBlocked, Every: failedEvery, Message: sentence(text)})
	s.l.Log.Error("replacements keep failing, no more are made", "NodePool", pool, "error", text)
}
