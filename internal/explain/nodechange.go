package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// smallFleet is up to how many nodes a whole decision is made for every single change, since a node may go only together with
// others. In larger fleets it is looked at alone.
const smallFleet = 120

// nodeTrial is what decisions about nodes are made from with something changed, for the sake of one node that stays.
type nodeTrial struct {
	lift  state.Lift
	edits []func(*disrupt.Input)
	opt   disrupt.Options
	now   time.Time
}

// nodeTweak is one change; what begins a sentence about it. Once one that waits helps, those that wait longer are not tried.
type nodeTweak struct {
	what  string
	do    func(*nodeTrial)
	waits bool
}

// nodeQuestion is about one node that stays.
type nodeQuestion struct {
	c      *Cluster
	node   int32
	after  []*disrupt.Move
	tweaks []nodeTweak
	base   string // why it stays as it is
}

// askAbout makes ready to ask about a node, once what is decided about the others has been done.
func (c *Cluster) askAbout(node int32) *nodeQuestion {
	return &nodeQuestion{c: c, node: node, after: c.Decision().Moves}
}

// keep sets the changes to try.
func (q *nodeQuestion) keep(tweaks []nodeTweak) { q.tweaks = tweaks }

// alone says what becomes of the node as it is, looked at alone.
func (q *nodeQuestion) alone() disrupt.Verdict {
	return disrupt.Ask(q.c.in, disrupt.Question{Node: q.node, After: q.after, Options: q.c.opt.Disrupt}, q.c.opt.Now)
}

// answer is what would become of the node with some changes made.
type answer struct {
	disrupt.Verdict
	// whole says that a whole decision was made anew. It saves more than that of now by extra, and instead names nodes that would
	// stay though they are to go now.
	whole   bool
	extra   float64
	instead []string
}

// try says what would become of the node with some changes made.
func (q *nodeQuestion) try(tweaks ...nodeTweak) answer {
	t := &nodeTrial{opt: q.c.opt.Disrupt, now: q.c.opt.Now}
	for _, w := range tweaks {
		w.do(t)
	}
	in := q.input(t)
	v := disrupt.Ask(in, disrupt.Question{Node: q.node, After: q.after, Options: t.opt}, t.now)
	if v.Goes || len(tweaks) > 1 || len(in.Nodes) > smallFleet {
		return answer{Verdict: v}
	}
	t.opt.Found = nil
	d := disrupt.Decide(in, t.opt, t.now)
	removed := map[int32]bool{}
	out := answer{Verdict: v, whole: true, extra: q.c.Decision().After - d.After}
	for _, m := range d.Moves {
		for _, i := range m.Remove {
			removed[i] = true
		}
		if slices.Contains(m.Remove, q.node) {
			out.Goes, out.Move = true, m
		}
	}
	for _, m := range q.after {
		for _, i := range m.Remove {
			if !removed[i] {
				out.instead = append(out.instead, q.c.world.Nodes[i].Name)
			}
		}
	}
	return out
}

// input is what the trial's decisions are made from. Nothing of the original is touched.
func (q *nodeQuestion) input(t *nodeTrial) *disrupt.Input {
	in := *q.c.in
	in.Nodes, in.Pools, in.Guarded = slices.Clone(in.Nodes), slices.Clone(in.Pools), slices.Clone(in.Guarded)
	for i := range in.Pools {
		in.Pools[i].Allowed = maps.Clone(in.Pools[i].Allowed)
	}
	if t.lift.Annotation || len(t.lift.Pods)+len(t.lift.Budgets)+len(t.lift.Dropped) > 0 {
		_, was, left0 := q.c.view.Lifted(int(q.node), state.Lift{}, t.now)
		node, is, left := q.c.view.Lifted(int(q.node), t.lift, t.now)
		facts := &in.Nodes[q.node]
		if facts.Fixed == was.Fixed { // else something keeps it that objects do not say
			facts.Fixed = is.Fixed
		}
		facts.PodsFixed, facts.Cost, facts.Guards = is.PodsFixed, is.Cost, is.Guards
		for k := range in.Guarded {
			in.Guarded[k] += left[k] - left0[k]
		}
		snap := *in.World
		snap.Nodes = slices.Clone(snap.Nodes)
		snap.Nodes[q.node] = node
		in.World = &snap
	}
	for _, edit := range t.edits {
		edit(&in)
	}
	return &in
}

// search tries the changes one by one, then two together, and returns what helps, and what was tried without success.
func (q *nodeQuestion) search() (changes []Change, tried []why.Reason) {
	waited := false
	for _, w := range q.tweaks {
		if len(changes) == maxChanges {
			return changes, tried
		}
		if w.waits && waited {
			continue
		}
		v := q.try(w)
		if v.Goes {
			waited = waited || w.waits
			changes = append(changes, q.change(w.what, v))
		} else if len(tried) < maxTried && v.Why.Text != q.base { // else it is beside the point
			r := why.New(v.Why.Code, "%s would not be enough", w.what)
			r.Because = []why.Reason{v.Why}
			tried = append(tried, r)
		}
	}
	if len(changes) > 0 {
		return changes, tried
	}
	pairs := 0
	for i := range q.tweaks {
		for k := i + 1; k < len(q.tweaks) && pairs < maxPairs; k++ {
			pairs++
			if v := q.try(q.tweaks[i], q.tweaks[k]); v.Goes {
				return []Change{q.change(fmt.Sprintf("%s and %s together", q.tweaks[i].what, lower(q.tweaks[k].what)), v)}, tried
			}
		}
	}
	return nil, tried
}

// change is a sentence about a change and the move that it would allow.
func (q *nodeQuestion) change(what string, v answer) Change {
	n, m := q.c.world.Nodes[q.node], v.Move
	var with []string
	for _, i := range m.Remove {
		if i != q.node {
			with = append(with, q.c.world.Nodes[i].Name)
		}
	}
	text := fmt.Sprintf("%s would free %s", what, freed(n))
	if len(m.Add) > 0 {
		text = fmt.Sprintf("%s would let %s be replaced by %s", what, old(n), additions(m))
	}
	if len(with) > 0 {
		text += " together with " + why.List(with, maxNamed)
	}
	if len(v.instead) > 0 {
		text += ", in place of " + why.List(v.instead, maxNamed)
	}
	saves := m.Saves
	if v.whole {
		saves = v.extra
	}
	switch {
	case len(m.Add) == 0 && (!v.whole || same(saves-n.Price)): // what it is worth has been said
	case same(saves):
		text += ", at the same price"
	case saves < 0:
		text += fmt.Sprintf(", for %s more", why.Money(-saves))
	case v.whole:
		text += fmt.Sprintf(", saving %s besides what is decided on now", why.Money(saves))
	default:
		text += ", saving " + why.Money(saves)
	}
	return Change{Text: sentence(text), Frees: typeOf(n), Saves: saves}
}

// additions names the types that a move adds, with what they cost together.
func additions(m *disrupt.Move) string {
	var names []string
	many, cost := map[string]int{}, map[string]float64{}
	for _, n := range m.Add {
		name := n.Choices[0].Type.Name
		if many[name] == 0 {
			names = append(names, name)
		}
		many[name]++
		cost[name] += n.Price()
	}
	for i, name := range names {
		times := ""
		if many[name] > 1 {
			times = fmt.Sprintf("%d × ", many[name])
		}
		names[i] = fmt.Sprintf("%s%s (%s)", times, name, why.Money(cost[name]))
	}
	return why.List(names, maxNamed)
}

// blockerTweaks take away what keeps pods on their node: one more eviction for each disruption budget, and annotations.
func blockerTweaks(blockers []state.Blocker) []nodeTweak {
	var out []nodeTweak
	var protected []types.UID
	var until time.Time // when the last annotation ends by itself
	forever := false
	var names []string
	seen := map[types.NamespacedName]bool{}
	for _, b := range blockers {
		if b.Protected {
			protected = append(protected, b.Pod.UID)
			forever = forever || b.Until.IsZero()
			if b.Until.After(until) {
				until = b.Until
			}
			names = append(names, cmp.Or(b.Pod.Namespace, corev1.NamespaceDefault)+"/"+b.Pod.Name)
			continue
		}
		if len(b.Budgets) == 0 {
			continue
		}
		first := types.NamespacedName{Namespace: cmp.Or(b.Budgets[0].Namespace, corev1.NamespaceDefault), Name: b.Budgets[0].Name}
		if seen[first] {
			continue
		}
		seen[first] = true
		var others []types.NamespacedName
		for _, x := range b.Budgets[1:] {
			others = append(others, types.NamespacedName{Namespace: cmp.Or(x.Namespace, corev1.NamespaceDefault), Name: x.Name})
		}
		what := fmt.Sprintf("One more allowed disruption of PodDisruptionBudget %s", first)
		if state.FullyBlocking(b.Budgets[0]) {
			what += " (which never allows any now)"
		}
		if len(others) > 0 {
			what = fmt.Sprintf("Leaving pod %s/%s to PodDisruptionBudget %s alone", cmp.Or(b.Pod.Namespace, corev1.NamespaceDefault), b.Pod.Name, first)
		}
		out = append(out, nodeTweak{what: what, do: func(t *nodeTrial) {
			t.lift.Budgets, t.lift.Dropped = append(t.lift.Budgets, first), append(t.lift.Dropped, others...)
		}})
	}
	if len(protected) > 0 {
		noun := "pod "
		if len(names) > 1 {
			noun = "pods "
		}
		what := fmt.Sprintf("Taking the annotation %s off %s", v1.DoNotDisruptAnnotationKey, noun+why.List(names, maxNamed))
		if !forever {
			what += fmt.Sprintf(" (it ends by itself on %s)", clock(until))
		}
		out = append(out, nodeTweak{what: what, do: func(t *nodeTrial) {
			t.lift.Pods = append(t.lift.Pods, protected...)
		}})
	}
	return out
}

// nodeTweaks lists the changes that might let a node go, the smallest first.
func (q *nodeQuestion) nodeTweaks(n *state.Node) []nodeTweak {
	out := blockerTweaks(q.c.view.Blockers(n, q.c.opt.Now))
	if held(n) {
		out = append(out, nodeTweak{what: fmt.Sprintf("Taking the annotation %s off the node", v1.DoNotDisruptAnnotationKey), do: func(t *nodeTrial) { t.lift.Annotation = true }})
	}
	facts := &q.c.in.Nodes[q.node]
	at := slices.IndexFunc(q.c.in.Pools, func(p disrupt.Pool) bool { return p.Name == n.World.Pool })
	if at >= 0 {
		out = append(out, q.poolTweaks(n, at)...)
	}
	if label(n.World, world.LabelCapacityType) == world.CapacitySpot && !q.c.opt.Disrupt.SpotToSpot {
		out = append(out, nodeTweak{what: "Turning on the feature gate SpotToSpotConsolidation", do: func(t *nodeTrial) { t.opt.SpotToSpot = true }})
	}
	if !facts.Made.IsZero() {
		out = append(out, q.later(facts.Made)...)
	}
	return append(out, q.supply()...)
}

// held says whether the node or its claim carries do-not-disrupt.
func held(n *state.Node) bool {
	return n.Object != nil && n.Object.Annotations[v1.DoNotDisruptAnnotationKey] == "true" ||
		n.Claim != nil && n.Claim.Annotations[v1.DoNotDisruptAnnotationKey] == "true"
}

// poolTweaks change what the node's pool says about disruption.
func (q *nodeQuestion) poolTweaks(n *state.Node, at int) []nodeTweak {
	pool := &q.c.in.Pools[at]
	edit := func(f func(*disrupt.Input)) func(*nodeTrial) {
		return func(t *nodeTrial) { t.edits = append(t.edits, f) }
	}
	node := q.node
	var out []nodeTweak
	taken := 0
	for _, m := range q.after {
		for _, i := range m.Remove {
			if q.c.world.Nodes[i].Pool == pool.Name {
				taken++
			}
		}
	}
	if open, short := q.shortBudget(pool, taken); len(short) > 0 {
		what := fmt.Sprintf("One more node in the disruption budgets of pool %s", pool.Name)
		if open != "" {
			what += fmt.Sprintf(" (they allow %s)", open)
		}
		out = append(out, nodeTweak{what: what, do: edit(func(in *disrupt.Input) {
			for _, reason := range short {
				in.Pools[at].Allowed[reason] = taken + 1
			}
		})})
	}
	if pool.Hold != "" || q.c.Decision().Moving[pool.Name] != "" {
		out = append(out, nodeTweak{what: fmt.Sprintf("Waiting until pool %s is at rest", pool.Name), do: edit(func(in *disrupt.Input) { in.Pools[at].Rested = true })})
	}
	quiet := edit(func(in *disrupt.Input) {
		in.Nodes[node].Consolidatable, in.Nodes[node].NotYet, in.Pools[at].Never = true, "", false
	})
	switch {
	case pool.Never:
		out = append(out, nodeTweak{what: fmt.Sprintf("A consolidateAfter other than Never in pool %s", pool.Name), do: quiet})
	case !q.c.in.Nodes[q.node].Consolidatable:
		what := fmt.Sprintf("Waiting until consolidateAfter of pool %s has passed", pool.Name)
		if left, ok := q.c.quietIn(n); ok {
			what = fmt.Sprintf("Waiting another %s, until consolidateAfter of pool %s has passed,", span(left), pool.Name)
		}
		out = append(out, nodeTweak{what: what, do: quiet})
	}
	if pool.Policy != disrupt.WhenEmptyOrUnderutilized {
		out = append(out, nodeTweak{
			what: fmt.Sprintf("The consolidationPolicy %s in pool %s (now %s)", disrupt.WhenEmptyOrUnderutilized, pool.Name, pool.Policy),
			do:   edit(func(in *disrupt.Input) { in.Pools[at].Policy = disrupt.WhenEmptyOrUnderutilized }),
		})
	}
	return out
}

// shortBudget lists the reasons for which the node could go and budgets allow nothing more, and when they allow more.
func (q *nodeQuestion) shortBudget(pool *disrupt.Pool, taken int) (open string, short []disrupt.Reason) {
	for _, reason := range reasons {
		if pool.Allowed[reason] <= taken && q.concerns(reason) {
			short = append(short, reason)
			open = cmp.Or(open, q.c.opening(pool.Name, reason))
		}
	}
	return open, short
}

// concerns says whether the node could go for the reason.
func (q *nodeQuestion) concerns(reason disrupt.Reason) bool {
	facts := &q.c.in.Nodes[q.node]
	switch reason {
	case disrupt.Unhealthy:
		return facts.Illness != nil && !q.c.opt.Now.Before(facts.Illness.Due)
	case disrupt.Drifted:
		return facts.Drift != ""
	case disrupt.Empty:
		return facts.Cost <= 1
	case disrupt.Underutilized:
	}
	return facts.Cost > 1 && facts.Drift == ""
}

// quietIn is how long the node must still be left alone before it may be consolidated.
func (c *Cluster) quietIn(n *state.Node) (time.Duration, bool) {
	p := c.view.Pool(n.World.Pool)
	since := c.view.QuietSince(n)
	if p == nil || p.Object.Spec.Disruption.ConsolidateAfter.IsNever() || since.IsZero() {
		return 0, false
	}
	left := since.Add(*p.Object.Spec.Disruption.ConsolidateAfter.Duration).Sub(c.opt.Now)
	return left, left > 0
}

// later asks again at the ages from which on a node that a move has made may be moved again.
func (q *nodeQuestion) later(made time.Time) []nodeTweak {
	var out []nodeTweak
	for _, age := range []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
		at := made.Add(age + time.Second)
		if !at.After(q.c.opt.Now) {
			continue
		}
		out = append(out, nodeTweak{what: fmt.Sprintf("Waiting another %s, until it is %s old,", span(at.Sub(q.c.opt.Now)), span(age)), do: func(t *nodeTrial) { t.now = at }, waits: true})
	}
	return out
}

// supply changes what pools may launch: limits, minValues, stock.
func (q *nodeQuestion) supply() []nodeTweak {
	var limits, few, short []string
	for _, p := range q.c.world.Pools {
		if p.Static || p.Refused != "" {
			continue
		}
		if len(p.Limits) > 0 || p.MaxNodes >= 0 {
			limits = append(limits, p.Name)
		}
		if slices.ContainsFunc(p.Need, hasMinValues) {
			few = append(few, p.Name)
		}
		if slices.ContainsFunc(p.Types, outOfStock) {
			short = append(short, p.Name)
		}
	}
	change := func(names []string, f func(*world.Pool)) func(*nodeTrial) {
		return func(t *nodeTrial) {
			t.edits = append(t.edits, func(in *disrupt.Input) {
				x := &trial{world: *in.World}
				for _, name := range names {
					f(x.pool(name))
				}
				in.World = &x.world
			})
		}
	}
	var out []nodeTweak
	if len(few) > 0 {
		out = append(out, nodeTweak{what: "Dropping minValues from pool " + strings.Join(few, ", "), do: change(few, dropMinValues)})
	}
	if len(limits) > 0 {
		out = append(out, nodeTweak{what: "Raising the limits of pool " + strings.Join(limits, ", "), do: change(limits, func(p *world.Pool) { p.Limits, p.MaxNodes = nil, -1 })})
	}
	if len(short) > 0 {
		out = append(out, nodeTweak{what: "Stock of types that are out now", do: change(short, restock)})
	}
	return out
}
