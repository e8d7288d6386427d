package state

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// disruptedTaint is what a node gets that is to go. Pods that tolerate it are not evicted.
var disruptedTaint = []world.Taint{{Key: v1.DisruptedTaintKey, Effect: world.NoSchedule}}

// weight is what a pod means to whoever would remove its node, as far as it changes with neither time nor budgets.
type weight struct {
	// cost is what moving it costs, and restart what restarting it costs by its own word, less than 0 if it says nothing about it.
	cost, restart float64
	movable       bool
	terminating   bool
	shielded      bool // by an annotation, which may have run out
	evicted       bool // if its node goes, so that budgets have a say
}

// weights are those of the node's pods.
func (n *Node) weights(v *View) []weight {
	n.weighed.Do(func() {
		n.weight = make([]weight, len(n.Pods))
		for i, p := range n.Pods {
			w := n.World.Pods[i]
			x := weight{restart: -1, movable: w.Movable, terminating: w.Terminating, shielded: p.Annotations[v1.DoNotDisruptAnnotationKey] != ""}
			if w.Movable {
				x.cost = max(0, evictionCost(p, v.ownCosts))
			}
			if own, given, _ := v1.RestartCost(p.Annotations); given {
				x.restart = own
			}
			_, repelled := world.Untolerated(disruptedTaint, v.World.Classes[w.Class].Tolerations, false)
			x.evicted = repelled && !w.Mirror
			n.weight[i] = x
		}
	})
	return n.weight
}

// readPods finds out what the pods of a node cost to move and whether any of them forbids it (D7, D8, D11).
func (r *disruptionReader) readPods(n *Node, out *disrupt.Node) {
	out.Cost = 1
	if len(n.Pods) != len(n.World.Pods) {
		return
	}
	covering := r.cover.covering(n)
	usual := -1.0 // what restarting a pod of the pool costs, once it is known
	for i, w := range n.weights(r.v) {
		p := n.Pods[i]
		out.Cost += w.cost
		if w.terminating {
			continue // what it costs to restart it is lost already
		}
		if w.movable {
			if usual < 0 {
				usual = r.restartCost(n)
			}
			r.readRestart(p, w, usual, out)
		}
		if w.shielded {
			if shield := life.Protect(p.Annotations[v1.DoNotDisruptAnnotationKey], started(p), r.now); shield.Holds {
				out.Protected = true
				if out.PodsFixed == "" {
					out.PodsFixed = protection(p, shield, r.now)
				}
				continue
			}
		}
		if w.evicted && covering != nil && covering[i] != uncovered {
			r.guard(n, p, covering[i], out)
		}
	}
}

// restartCost is what restarting a pod costs that says nothing about it, by its pool's word or by default.
func (r *disruptionReader) restartCost(n *Node) float64 {
	if pool := r.v.Pool(n.World.Pool); pool != nil {
		if own, given, _ := v1.RestartCost(pool.Object.Annotations); given {
			return own
		}
	}
	return disrupt.DefaultRestartCost
}

// readRestart adds what restarting a pod costs: the pod's own word, or what is usual, weighed by its priority and deletion cost. It
// doubles with every recent move, and a pod that has not paid for the last one is not moved again for cost.
func (r *disruptionReader) readRestart(p *corev1.Pod, w weight, usual float64, out *disrupt.Node) {
	cost := w.restart
	if cost < 0 {
		cost = usual * w.cost
	}
	if r.opt.Moved == nil {
		out.Restart += cost
		return
	}
	moved, ok := r.opt.Moved(string(p.UID))
	if ok && r.now.Before(moved.Paid) && out.Unpaid == "" {
		out.Unpaid = fmt.Sprintf("pod %s was moved here for its cost %s ago, and pays for that for another %s", spaced(p), words(r.now.Sub(moved.At)), words(moved.Paid.Sub(r.now)))
	}
	out.Restart += cost * float64(int64(1)<<min(moved.Times, maxDoublings))
}

// maxDoublings bounds how dear a pod becomes that is moved again and again.
const maxDoublings = 10

func protection(p *corev1.Pod, shield life.Protection, now time.Time) string {
	text := fmt.Sprintf("pod %s has the annotation %s", spaced(p), v1.DoNotDisruptAnnotationKey)
	if !shield.Until.IsZero() {
		text += fmt.Sprintf(", which keeps it for another %s", words(shield.Until.Sub(now)))
	}
	return text
}

// guard notes which disruption budget covers a pod that would be evicted, and whether it forbids that (D7, D65).
func (r *disruptionReader) guard(n *Node, p *corev1.Pod, b int32, out *disrupt.Node) {
	if b == coveredTwice {
		if out.PodsFixed == "" {
			covering := r.cover.index.of(p, nil)
			names := make([]string, len(covering))
			for k, b := range covering {
				names[k] = r.cover.list[b].Name
			}
			out.PodsFixed = fmt.Sprintf("pod %s is covered by %d PodDisruptionBudgets (%s), which no eviction gets past", spaced(p), len(covering), strings.Join(names, ", "))
		}
		return
	}
	obj := r.cover.list[b]
	if alwaysAllows(obj) && !podReady(p) {
		return
	}
	if r.cover.allowed[b] <= 0 && out.PodsFixed == "" {
		out.PodsFixed = fmt.Sprintf("PodDisruptionBudget %s allows no eviction of pod %s now", spaced(obj), spaced(p))
	}
	if n.World.Deleting { // about to be evicted: what is left for others is less by that
		r.cover.left[b]--
	}
	for k := range out.Guards {
		if out.Guards[k].Budget == b {
			out.Guards[k].Pods++
			return
		}
	}
	out.Guards = append(out.Guards, disrupt.Guard{Budget: b, Pods: 1})
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func started(p *corev1.Pod) time.Time {
	if p.Status.StartTime == nil {
		return time.Time{}
	}
	return p.Status.StartTime.Time
}

// evictionCost is what moving a pod costs, 1 for an ordinary one: more for an important one, less, down to nothing, for one that
// says that it may go first (D11). own says that deletion costs are Karpenter's to give.
func evictionCost(p *corev1.Pod, own bool) float64 {
	cost := 1 + float64(disruptionCost(p.Annotations, own))/(1<<27)
	if p.Spec.Priority != nil {
		cost += float64(*p.Spec.Priority) / (1 << 25)
	}
	return min(max(cost, -10), 10)
}

// disruptionCost is how dear it is to evict a pod, in its owner's words: those that are meant for us, or else those for ReplicaSets,
// unless they are ours (N9). Words that are no whole number of 32 bits say nothing; wrongDisruptionCost tells of those that are meant for us.
func disruptionCost(annotations map[string]string, own bool) int64 {
	text, given := annotations[v1.DisruptionCostAnnotationKey]
	if !given {
		if text = annotations[corev1.PodDeletionCost]; own || text == annotations[v1.DeletionCostAnnotationKey] {
			return 0
		}
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return n
}

// disruptionCostPart is what of a pod a problem is about.
const disruptionCostPart = "disruption-cost"

// wrongDisruptionCost says what is wrong with the cost that a pod's owner has given it for us, if anything is.
func wrongDisruptionCost(annotations map[string]string) error {
	text, given := annotations[v1.DisruptionCostAnnotationKey]
	if _, err := strconv.ParseInt(text, 10, 32); !given || err == nil {
		return nil
	}
	return fmt.Errorf("annotation %s is %.64q and counts as 0: it must be a whole number from -2147483648 to 2147483647", v1.DisruptionCostAnnotationKey, text)
}

// cover is the disruption budgets of a view, in order of namespace and name.
type cover struct {
	list []*policyv1.PodDisruptionBudget
	// allowed is how many evictions each budget lets through now, left what pods that are about to be evicted leave of it.
	allowed, left []int32
	index         *coverIndex // nil covers nobody
}

// coverIndex finds the disruption budgets of a pod. Views share it as long as they have the same budgets with the same selectors.
type coverIndex struct {
	once   sync.Once
	spaces map[string]*spaceCover
}

// spaceCover is a namespace's budgets: those that name a label with one value by that label, and the others.
type spaceCover struct {
	byLabel map[world.Label][]int32
	rest    []int32
	all     map[int32]world.Selector
}

// nodeCover is which budget covers each pod of a node, by an index.
type nodeCover struct {
	index *coverIndex
	by    []int32
}

// What covers a pod that not just one budget does.
const (
	uncovered    = -1
	coveredTwice = -2
)

func (v *View) newCover() *cover {
	c := &cover{index: v.cover}
	if c.index == nil {
		c.index = &coverIndex{}
	}
	spaces := slices.Sorted(maps.Keys(v.budgets))
	for _, name := range spaces {
		for _, b := range v.budgets[name] {
			c.list = append(c.list, b.obj)
			c.allowed = append(c.allowed, evictions(b.obj))
		}
	}
	c.left = slices.Clone(c.allowed)
	c.index.once.Do(func() {
		c.index.spaces = map[string]*spaceCover{}
		id := int32(0)
		for _, name := range spaces {
			s := &spaceCover{byLabel: map[world.Label][]int32{}, all: map[int32]world.Selector{}}
			c.index.spaces[name] = s
			for _, b := range v.budgets[name] {
				s.add(id, b.selector)
				id++
			}
		}
	})
	return c
}

// covering says which budget covers each pod of a node; nil if there is none at all.
func (c *cover) covering(n *Node) []int32 {
	if len(c.list) == 0 {
		return nil
	}
	if known := n.covered.Load(); known != nil && known.index == c.index {
		return known.by
	}
	var found []int32
	by := make([]int32, len(n.Pods))
	for i, p := range n.Pods {
		switch found = c.index.of(p, found[:0]); len(found) {
		case 0:
			by[i] = uncovered
		case 1:
			by[i] = found[0]
		default:
			by[i] = coveredTwice
		}
	}
	n.covered.Store(&nodeCover{c.index, by})
	return by
}

// evictions is how many evictions a budget lets through now. One whose status is older than its spec says nothing about it.
func evictions(b *policyv1.PodDisruptionBudget) int32 {
	if b.Status.ObservedGeneration < b.Generation {
		return 0
	}
	return max(0, b.Status.DisruptionsAllowed)
}

func (s *spaceCover) add(id int32, sel world.Selector) {
	s.all[id] = sel
	for _, r := range sel.Need {
		if values, ok := r.Values(); ok && len(values) == 1 && !r.AdmitsAbsent() {
			l := world.Label{Key: r.Key, Value: values[0]}
			s.byLabel[l] = append(s.byLabel[l], id)
			return
		}
	}
	s.rest = append(s.rest, id)
}

// of appends the budgets that cover the pod, in order.
func (x *coverIndex) of(p *corev1.Pod, found []int32) []int32 {
	s := x.spaces[toworld.Space(p)]
	if s == nil {
		return found
	}
	note := func(ids []int32) {
		for _, id := range ids {
			if toworld.Matches(s.all[id], p.Labels) {
				found = append(found, id)
			}
		}
	}
	note(s.rest)
	for k, v := range p.Labels {
		note(s.byLabel[world.Label{Key: k, Value: v}])
	}
	slices.Sort(found)
	return found
}
