package state_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/state"
)

// Between a decision and its being carried out pods, disruption budgets, annotations, nodes, claims, pools and the time change.
// What the check at the moment of acting lets through must break nothing that is then in force (D50, D51, T23). It is judged by
// the objects alone. Moves that the check refuses are judged too: many of them must be ones that would have done harm, else
// nothing has been shown.
func TestD50_NothingIsBrokenBetweenDecisionAndAction(t *testing.T) {
	const workers = 4
	decisions := 100_000 / workers
	if testing.Short() {
		decisions /= 20
	}
	for k := range workers {
		t.Run(strconv.Itoa(k), func(t *testing.T) {
			t.Parallel()
			s := &safety{T: t, theatre: newTheatre(int64(k))}
			for range decisions {
				s.round()
			}
			t.Logf("%d decisions with %d moves, %d carried out, %d called off, %d of which would have done harm", decisions, s.moves, s.held, s.moves-s.held, s.harm)
			if s.held < decisions/20 || s.harm < decisions/20 {
				t.Error("too little has happened to show anything")
			}
		})
	}
}

// safety counts what rounds come to.
type safety struct {
	*testing.T
	*theatre
	moves, held, harm int
}

// round decides, lets things happen, and carries out what still holds.
func (s *safety) round() {
	d := disrupt.Decide(s.input(), disrupt.Options{}, s.now)
	var focus []string
	for _, m := range d.Moves {
		focus = append(focus, m.Nodes...)
	}
	for range s.rng.Intn(4) {
		s.happen(focus...)
	}
	s.moves += len(d.Moves)
	if len(d.Moves) > 0 {
		s.act(d.Moves)
	}
	s.goOn()
	s.happen()
}

func (s *safety) input() *disrupt.Input {
	return s.mirror.View().Disruption(state.DisruptionOptions{Busy: func(claim string) string {
		if m := s.find(claim); m != nil && m.begun {
			return "it is part of a move"
		}
		return ""
	}}, s.now)
}

// act carries out the moves that hold, and judges all.
func (s *safety) act(moves []*disrupt.Move) {
	check := disrupt.NewCheck(s.input(), disrupt.Options{}, s.now)
	j := &judge{theatre: s.theatre, leaving: map[string]bool{}}
	var begun []*disrupt.Move
	for _, m := range moves {
		reason, ok := check.Holds(m)
		breach := j.breach(m)
		switch {
		case ok && breach != "":
			s.Fatalf("at %s, %s: %s", s.now.Format(time.TimeOnly), m.Why.Line(), breach)
		case ok:
			s.held++
			begun = append(begun, m)
			for _, name := range m.Nodes {
				j.leaving[name] = true
			}
		case breach != "":
			s.harm++
		case reason.Line() == "":
			s.Fatalf("%s: does not hold, and nobody says why", m.Why.Line())
		}
	}
	for _, m := range begun {
		s.begin(m)
	}
}

// judge says what carrying out a move would break, after those that have been carried out.
type judge struct {
	*theatre
	leaving map[string]bool // nodes that moves of this round take away
}

func (j *judge) breach(move *disrupt.Move) string {
	taken := map[string]bool{}
	for _, name := range move.Nodes {
		m := j.find(name)
		if m == nil || j.out(m) || !initialized(m.claim) {
			return "node " + name + " is not there, is starting or is leaving"
		}
		for _, annotations := range []map[string]string{m.node.Annotations, m.claim.Annotations} {
			if annotations[v1.DoNotDisruptAnnotationKey] == "true" {
				return "node " + name + " is protected"
			}
		}
		pool := j.pools[m.node.Labels[v1.NodePoolLabelKey][1]-'0']
		for _, why := range []string{j.reasonBreach(move, m, pool), j.budgetBreach(move, pool, taken), j.podBreach(move, m)} {
			if why != "" {
				return why
			}
		}
		taken[name] = true
	}
	return j.guardBreach(move, move.Nodes, map[string]bool{})
}

// out says whether a node is on its way out already.
func (j *judge) out(m *instance) bool {
	return j.leaving[m.node.Name] || m.begun || m.claim.DeletionTimestamp != nil || m.node.DeletionTimestamp != nil
}

// reasonBreach says whether the reason of the move does not hold for the node.
func (j *judge) reasonBreach(move *disrupt.Move, m *instance, pool *v1.NodePool) string {
	d := pool.Spec.Disruption
	if move.Reason == disrupt.Drifted {
		if !hasCondition(m.claim, v1.ConditionDrifted) {
			return "node " + m.node.Name + " has not drifted"
		}
		return ""
	}
	if move.Reason == disrupt.Underutilized && d.ConsolidationPolicy == v1.ConsolidationPolicyWhenEmpty {
		return "pool " + pool.Name + " consolidates empty nodes only"
	}
	for _, p := range j.pods {
		if p.Spec.NodeName != m.node.Name || daemon(p) {
			continue
		}
		if since := p.Status.Conditions[0].LastTransitionTime.Time; j.now.Sub(since) < *d.ConsolidateAfter.Duration {
			return fmt.Sprintf("pod %s came %s ago, and pool %s waits for %s", p.Name, j.now.Sub(since), pool.Name, d.ConsolidateAfter.Duration)
		}
		if move.Reason == disrupt.Empty && p.DeletionTimestamp == nil {
			return "node " + m.node.Name + " is not empty: pod " + p.Name
		}
	}
	return ""
}

func daemon(p *corev1.Pod) bool {
	return p.OwnerReferences[0].Kind == "DaemonSet" || p.OwnerReferences[0].Kind == "Node"
}

// stuck says whether nothing would ever evict the pod, so that no place is looked for.
func (j *judge) stuck(p *corev1.Pod) bool {
	list := j.covering(p)
	return evictable(p) && (len(list) > 1 || len(list) == 1 && list[0].Spec.MaxUnavailable.IntVal == 0 && !free(list[0], p))
}

// budgetBreach counts the pool's nodes as its budgets do.
func (j *judge) budgetBreach(move *disrupt.Move, pool *v1.NodePool, taken map[string]bool) string {
	total, out := 0, 0
	for _, m := range j.instances {
		if m.node.Labels[v1.NodePoolLabelKey] != pool.Name || !initialized(m.claim) {
			continue
		}
		total++
		if j.out(m) || taken[m.node.Name] || m.node.Status.Conditions[0].Status != corev1.ConditionTrue {
			out++
		}
	}
	for _, b := range pool.Spec.Disruption.Budgets {
		if len(b.Reasons) > 0 && string(b.Reasons[0]) != string(move.Reason) || !j.open(b) {
			continue
		}
		allowed, _ := strconv.Atoi(strings.TrimSuffix(b.Nodes, "%"))
		if strings.HasSuffix(b.Nodes, "%") {
			allowed = (total*allowed + 99) / 100
		}
		if b.Schedule != nil && *b.Schedule == "every day" {
			allowed = 0 // nobody knows what that means
		}
		if out >= allowed {
			return fmt.Sprintf("budget %+v of pool %s: %d of %d are out", b, pool.Name, out, total)
		}
	}
	return ""
}

// open says whether a budget is in force: always, or for so long after a minute of every hour.
func (j *judge) open(b v1.Budget) bool {
	if b.Schedule == nil || *b.Schedule == "every day" {
		return true
	}
	minute, _ := strconv.Atoi(strings.Fields(*b.Schedule)[0])
	since := time.Duration((j.now.Minute()-minute+60)%60)*time.Minute + time.Duration(j.now.Second())*time.Second
	return since < b.Duration.Duration
}

// podBreach looks at the pods of a node: none may be protected, and each needs a place.
func (j *judge) podBreach(move *disrupt.Move, m *instance) string {
	forced := forced(move, m)
	for _, p := range j.pods {
		if p.Spec.NodeName != m.node.Name || p.DeletionTimestamp != nil {
			continue
		}
		protected := j.protected(p)
		if protected && !forced {
			return "pod " + p.Name + " is protected"
		}
		if !protected && !daemon(p) && !(forced && j.stuck(p)) && move.Reason != disrupt.Empty && !placed(move, p) {
			return "pod " + p.Name + " has no place"
		}
	}
	return ""
}

// forced says whether the move gets past pods that forbid it.
func forced(move *disrupt.Move, m *instance) bool {
	return move.Reason == disrupt.Drifted && m.claim.Spec.TerminationGracePeriod != nil
}

// guardBreach looks for an order in which the nodes of a move may begin to go one after the other: each needs every disruption
// budget over its pods to allow something then. taken are those that have begun.
func (j *judge) guardBreach(move *disrupt.Move, rest []string, taken map[string]bool) (why string) {
	for i, name := range rest {
		if why = j.nodeGuards(move, j.find(name), taken); why != "" {
			continue
		}
		taken[name] = true
		why = j.guardBreach(move, slices.Concat(rest[:i], rest[i+1:]), taken)
		if delete(taken, name); why == "" {
			return ""
		}
	}
	return why
}

func (j *judge) nodeGuards(move *disrupt.Move, m *instance, taken map[string]bool) string {
	if forced(move, m) {
		return ""
	}
	for _, p := range j.pods {
		if p.Spec.NodeName == m.node.Name && p.DeletionTimestamp == nil {
			if why := j.podGuard(p, taken); why != "" {
				return why
			}
		}
	}
	return ""
}

func (j *judge) protected(p *corev1.Pod) bool {
	switch text := p.Annotations[v1.DoNotDisruptAnnotationKey]; text {
	case "true":
		return true
	case "10m", "1m":
		length, _ := time.ParseDuration(text)
		return j.now.Sub(p.Status.StartTime.Time) < length
	}
	return false
}

// placed says whether the move knows where the pod goes.
func placed(move *disrupt.Move, p *corev1.Pod) bool {
	for _, n := range move.Add {
		for _, x := range n.Pods {
			if x.UID == string(p.UID) {
				return true
			}
		}
	}
	for _, f := range move.Filled {
		for _, x := range f.Pods {
			if x.UID == string(p.UID) {
				return true
			}
		}
	}
	return false
}

// covering lists the disruption budgets of a pod.
func (j *judge) covering(p *corev1.Pod) []*policyv1.PodDisruptionBudget {
	return slices.DeleteFunc(slices.Clone(j.guards), func(b *policyv1.PodDisruptionBudget) bool {
		return b.Namespace != p.Namespace || b.Spec.Selector.MatchLabels["app"] != p.Labels["app"]
	})
}

// podGuard says whether evicting the pod is what a disruption budget forbids, or has been promised to pods of other nodes.
func (j *judge) podGuard(p *corev1.Pod, taken map[string]bool) string {
	if !evictable(p) || j.protected(p) {
		return ""
	}
	covering := j.covering(p)
	switch {
	case len(covering) == 0:
		return ""
	case len(covering) > 1:
		return "pod " + p.Name + " is under two disruption budgets"
	}
	b := covering[0]
	if free(b, p) {
		return ""
	}
	left := b.Status.DisruptionsAllowed
	if b.Status.ObservedGeneration < b.Generation {
		left = 0
	}
	for _, other := range j.pods {
		m := j.find(other.Spec.NodeName)
		if m == nil || !j.out(m) && !taken[m.node.Name] || other.DeletionTimestamp != nil || !evictable(other) || j.protected(other) || free(b, other) {
			continue
		}
		if slices.Contains(j.covering(other), b) && len(j.covering(other)) == 1 {
			left--
		}
	}
	if left <= 0 {
		return "disruption budget " + b.Name + " does not allow to evict pod " + p.Name
	}
	return ""
}

// evictable says whether the drain would evict the pod at all.
func evictable(p *corev1.Pod) bool {
	return p.OwnerReferences[0].Kind != "Node" && len(p.Spec.Tolerations) == 0
}

// free says whether the budget lets the pod go in any case, since it does no work.
func free(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	return b.Spec.UnhealthyPodEvictionPolicy != nil && p.Status.Conditions[1].Status != corev1.ConditionTrue
}
