package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
)

// budgetHorizon is how far ahead windows of budgets are looked for.
const budgetHorizon = 7 * 24 * time.Hour

// BudgetWindow is a stretch of time in which a pool's budgets allow a number of nodes to be out for a reason.
type BudgetWindow struct {
	From    time.Time `json:"from"`
	Allowed int       `json:"allowed"` // v1.Unlimited for no bound
}

// BudgetWindows lists how many of a pool's nodes may be out for a reason, from now on for a while: the first window holds now,
// each lasts until the next begins.
func BudgetWindows(pool *v1.NodePool, reason disrupt.Reason, nodes int, span [2]time.Time) []BudgetWindow {
	now, end := span[0], span[1]
	points := []time.Time{now}
	budgets := pool.DisruptionBudgets()
	for i := range budgets {
		windows, err := budgets[i].Windows(now, end)
		if err != nil {
			continue // it allows nothing, at any time
		}
		for _, w := range windows {
			points = append(points, w.From, w.To)
		}
	}
	points = slices.DeleteFunc(points, func(t time.Time) bool { return !t.Before(end) })
	slices.SortFunc(points, time.Time.Compare)
	points = slices.CompactFunc(points, time.Time.Equal)
	var out []BudgetWindow
	for _, t := range points {
		allowed, _ := pool.AllowedDisruptions(v1.DisruptionReason(reason), nodes, t)
		if len(out) == 0 || out[len(out)-1].Allowed != allowed {
			out = append(out, BudgetWindow{t, allowed})
		}
	}
	return out
}

// opening says from when on a pool's budgets allow more nodes to be out for a reason than now, if that comes.
func (c *Cluster) opening(pool string, reason disrupt.Reason) string {
	p := c.view.Pool(pool)
	if p == nil {
		return ""
	}
	nodes, _ := c.view.BudgetNodes(pool, reason)
	windows := BudgetWindows(p.Object, reason, nodes, [2]time.Time{c.opt.Now, c.opt.Now.Add(budgetHorizon)})
	for _, w := range windows[1:] {
		if w.Allowed > windows[0].Allowed {
			return fmt.Sprintf("%s from %s", allowance(w.Allowed), c.moment(w.From))
		}
	}
	return ""
}

// budgetText says what a pool's budgets allow for a reason, now and next.
func (c *Cluster) budgetText(p *v1.NodePool, reason disrupt.Reason, left int) string {
	nodes, out := c.view.BudgetNodes(p.Name, reason)
	windows := BudgetWindows(p, reason, nodes, [2]time.Time{c.opt.Now, c.opt.Now.Add(budgetHorizon)})
	text := fmt.Sprintf("%s of %s", allowance(windows[0].Allowed), why.Count(nodes, "node"))
	if out > 0 {
		text += fmt.Sprintf(", %d out already, %d left", out, min(left, nodes))
	}
	if len(windows) > 1 {
		text += fmt.Sprintf("; %s from %s", allowance(windows[1].Allowed), c.moment(windows[1].From))
	}
	return text
}

// reasons are those for which budgets count.
var reasons = disrupt.Reasons()

// budgetReasons says which budgets of a pool let no more node go now, for some reasons.
func (c *Cluster) budgetReasons(pool string, is func(disrupt.Reason) bool) []why.Reason {
	p := c.view.Pool(pool)
	i := slices.IndexFunc(c.in.Pools, func(x disrupt.Pool) bool { return x.Name == pool })
	nodes, out := c.view.BudgetNodes(pool, disrupt.Underutilized)
	if p == nil || i < 0 || nodes == 0 || c.in.Pools[i].Trouble != "" {
		return nil
	}
	var texts, names []string
	for _, reason := range reasons {
		if by := closed(p.Object, reason, nodes, c.opt.Now); is(reason) && c.in.Pools[i].Allowed[reason] == 0 && by != "" {
			texts, names = append(texts, by), append(names, string(reason))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	busy := ""
	if out > 0 {
		busy = fmt.Sprintf(", and %s out already", are(out))
	}
	if same := slices.Compact(slices.Clone(texts)); len(same) == 1 {
		return []why.Reason{why.New(why.Limit, "no node of pool %s may be disrupted for %s now: %s%s", pool, strings.Join(names, ", "), same[0], busy)}
	}
	var list []why.Reason
	for k, text := range texts {
		list = append(list, why.New(why.Limit, "no node of pool %s may be disrupted for %s now: %s%s", pool, names[k], text, busy))
	}
	return list
}

// are counts nodes with their verb.
func are(n int) string {
	if n == 1 {
		return "1 node is"
	}
	return fmt.Sprintf("%d nodes are", n)
}

// allowance prints how many nodes may be out.
func allowance(n int) string {
	if n >= v1.Unlimited {
		return "any number"
	}
	return fmt.Sprint(n)
}

// closed names the budgets that hold now and allow the least, for people.
func closed(p *v1.NodePool, reason disrupt.Reason, nodes int, now time.Time) string {
	var names []string
	least := v1.Unlimited
	budgets := p.DisruptionBudgets()
	for i := range budgets {
		b := &budgets[i]
		n, err := b.Allowed(now, nodes)
		if err != nil || !b.AppliesTo(v1.DisruptionReason(reason)) || n > least || n == v1.Unlimited {
			continue
		}
		if n < least {
			names = nil
		}
		least = n
		text := fmt.Sprintf("budget nodes: %q", cmp.Or(b.Nodes, "0"))
		if b.Schedule != nil {
			text += fmt.Sprintf(", schedule: %q for %s", *b.Schedule, b.Duration.String())
		}
		names = append(names, text)
	}
	return strings.Join(names, "; ")
}
