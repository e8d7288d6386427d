package forecast

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// Held is a pool that makes no nodes, and why.
type Held struct {
	Pool string `json:"pool"`
	// Why completes "pool x …".
	Why string `json:"why"`
}

// HeldBack says of a pool why its replacements are not tried for now, by what the controller has written on it; empty if they are.
func HeldBack(pool *v1.NodePool, now time.Time) string {
	text, why, _ := strings.Cut(pool.Annotations[v1.FailedReplacementsAnnotationKey], " why=")
	var until time.Time
	version, count := "", 0
	for _, word := range strings.Fields(text) {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "count":
			count, _ = strconv.Atoi(value)
		case "until":
			until, _ = time.Parse(time.RFC3339, value)
		case "version":
			version = value
		}
	}
	// Another spec may well do better, and starts afresh.
	if count == 0 || !until.After(now) || !strings.HasPrefix(version, fmt.Sprintf("%s/%d/", pool.UID, pool.Generation)) {
		return ""
	}
	return fmt.Sprintf("is held back: %d of its replacements failed in a row, the last one because: %s; none is tried before %s unless the pool or its class changes",
		count, why, until.UTC().Format(time.RFC3339))
}

// Lifted is what holds pools back without those that the change makes start afresh: pools that change, or whose class does.
func (c *Change) Lifted(held map[string]string) map[string]string {
	out := maps.Clone(held)
	for _, p := range c.Objects.Pools {
		ref := p.Spec.Template.Spec.NodeClassRef
		if c.pools[p.Name] || ref != nil && c.changed(ref) {
			delete(out, p.Name)
		}
	}
	return out
}

// judgePools says of pools that are new or different, or whose class is, whether they can be used, as the controller will.
func (c *Change) judgePools() {
	for i, p := range c.Objects.Pools {
		ref := p.Spec.Template.Spec.NodeClassRef
		if ref == nil || !c.pools[p.Name] && !c.changed(ref) {
			continue
		}
		class, known := c.classReady(ref)
		valid := p.ValidationCondition(c.kindOf(ref).Labels())
		if len(p.Status.Conditions) == 0 && valid.Status == metav1.ConditionTrue && class.Status == metav1.ConditionTrue {
			continue // one without a word is usable
		}
		next := p.DeepCopy()
		set := next.StatusConditions()
		set.Set(valid, c.Now)
		if known || len(p.Status.Conditions) == 0 {
			set.Set(class, c.Now)
		}
		c.Objects.Pools[i] = next
	}
}

// classReady is the condition of pools about a class; known is false where that is taken on trust.
func (c *Change) classReady(ref *v1.NodeClassReference) (cond v1.Condition, known bool) {
	cond = v1.Condition{Type: v1.ConditionNodeClassReady, Status: metav1.ConditionTrue}
	if c.changed(ref) {
		return cond, true
	}
	at := slices.IndexFunc(c.NodeClasses, func(n cloud.KnownClass) bool { return n.Is(ref) })
	if at < 0 {
		if len(c.NodeClasses) == 0 || c.Classes[ref.Name] != nil {
			return cond, false
		}
		cond.Status, cond.Reason, cond.Message = metav1.ConditionFalse, v1.ReasonNodeClassNotFound, fmt.Sprintf("there is no %s %q", c.kindOf(ref).GroupVersionKind.Kind, ref.Name)
		return cond, true
	}
	if root := c.NodeClasses[at].Ready(); root.Status == metav1.ConditionFalse {
		cond.Status, cond.Reason, cond.Message = metav1.ConditionFalse, root.Reason, root.Message
	}
	return cond, true
}

// facts is what decisions are made from besides the view.
func (r *run) facts() *ledger.Facts {
	return &ledger.Facts{Held: r.start.Held, Past: ledger.NewPast(r.past)}
}

// heldPools lists the pools of a world that make no nodes, and the static ones that lack some.
func heldPools(view *state.View, snap *world.Snapshot, lacking map[string]string) []Held {
	var out []Held
	for _, p := range snap.Pools {
		switch {
		case p.Refused != "":
			out = append(out, Held{p.Name, whyRefused(view.Pool(p.Name), p.Refused)})
		case p.Static:
			if lacking[p.Name] != "" {
				out = append(out, Held{p.Name, lacking[p.Name]})
			}
		default:
			if full := atLimit(view, p.Name); full != "" {
				out = append(out, Held{p.Name, full})
			}
		}
	}
	slices.SortFunc(out, func(a, b Held) int { return strings.Compare(a.Pool, b.Pool) })
	return out
}

// whyRefused says why a pool is refused: of one that is not ready what its conditions say, which the sum of them does not.
func whyRefused(pool *state.Pool, refused string) string {
	if pool == nil || !strings.HasPrefix(refused, "is not ready") {
		return refused
	}
	var parts []string
	set := pool.Object.StatusConditions()
	for _, kind := range []string{v1.ConditionValidationSucceeded, v1.ConditionNodeClassReady} {
		if c := set.Get(kind); c != nil && c.Status == metav1.ConditionFalse && c.Message != "" {
			parts = append(parts, c.Message)
		}
	}
	if len(parts) == 0 {
		return refused
	}
	return "is not ready: " + strings.Join(parts, "; ")
}

// atLimit says that a pool is as large as it may be, or nothing.
func atLimit(view *state.View, name string) string {
	pool := view.Pool(name)
	if pool == nil || len(pool.Object.Spec.Limits) == 0 {
		return ""
	}
	used := corev1.ResourceList{}
	for _, n := range view.Nodes {
		if n.World.Pool == name {
			add(used, view.List(n.World.Capacity))
			add(used, corev1.ResourceList{"nodes": one})
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(pool.Object.Spec.Limits)) {
		limit := pool.Object.Spec.Limits[kind]
		if have := used[kind]; have.Cmp(limit) >= 0 {
			return fmt.Sprintf("has reached its limits: %s of %s %s are in use", have.String(), limit.String(), kind)
		}
	}
	return ""
}
