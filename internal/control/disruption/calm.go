package disruption

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/control/provision"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

const (
	// stillFor is how long a pool must have been at rest before anything of it is disrupted for its cost: pods that are bound may be
	// followed by others.
	stillFor = 5 * time.Second
	// maxWait is how long a pool in motion waits for its turn. Where pods always come and go, it gets one that often.
	maxWait = 5 * time.Minute
	// stirShare is the part of a pool's nodes, one in so many, that pods may come to and leave while it counts as at rest, and maxStir
	// for how long after that a node is not counted as quiet, however long its pool waits otherwise.
	stirShare = 20
	maxStir   = time.Minute
	// lookAgain is how soon a pool that is not at rest is looked at again.
	lookAgain = 2 * time.Second
)

// Arrivals says which pods are still to come.
type Arrivals interface {
	// Synced says whether what was there already has been seen.
	Synced() bool
	// Rollouts knows the ReplicaSets that do not have all their pods yet.
	Rollouts() *provision.Rollouts
	// Arriving counts the pods that the scheduler has not looked at yet.
	Arriving(now time.Time) int
}

// calm remembers which pools are in motion, and since when. A process that starts anew waits for them to come to rest once more.
// Facts for other readers are made while the loop decides, hence the lock.
type calm struct {
	mu    sync.Mutex
	pools map[string]motion
}

// motion is what is known of a pool.
type motion struct {
	// since is when its wait began, zero while it is at rest; last is when it was last seen in motion.
	since, last time.Time
}

// hold says why a pool is left alone for now, besides what the snapshot shows; "" if nothing stands in the way. turn says that it has
// waited for long enough.
func (c *calm) hold(pool string, now time.Time) (why string, turn bool) {
	c.mu.Lock()
	m, known := c.pools[pool]
	c.mu.Unlock()
	switch {
	case !known:
		return "", false
	case !m.since.IsZero() && now.Sub(m.since) >= maxWait:
		return "", true
	case now.Sub(m.last) < stillFor:
		return fmt.Sprintf("it was in motion %s ago", now.Sub(m.last).Round(time.Second)), false
	}
	return "", false
}

// moving says whether a pool is not at rest.
func (c *calm) moving(pool string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.pools[pool].since.IsZero()
}

// note takes in what a decision has found. A pool that has had its turn waits again.
func (c *calm) note(in *disrupt.Input, moving map[string]string, now time.Time) (unsettled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pools := map[string]motion{}
	for i := range in.Pools {
		p := &in.Pools[i]
		m := c.pools[p.Name]
		switch {
		case moving[p.Name] != "" || p.Hold != "" && !p.Turn && now.Sub(m.last) >= stillFor:
			m.last = now
			if m.since.IsZero() || p.Turn {
				m.since = now
			}
		case p.Hold == "":
			m.since = time.Time{}
		}
		pools[p.Name] = m
		unsettled = unsettled || moving[p.Name] != "" || p.Hold != ""
	}
	c.pools = pools
	return unsettled
}

// arrivals enters into the facts what is known to come, and holds pools that it may be for.
func (l *Loop) arrivals(view *state.View, f *ledger.Facts, now time.Time) {
	f.Hold, f.Turn, f.Coming = map[string]string{}, map[string]bool{}, map[string]int{}
	general := ""
	if l.Arrivals != nil {
		if n := l.Arrivals.Arriving(now); n > 0 {
			general = fmt.Sprintf("%s just created", pods(n))
		}
		for _, c := range l.Arrivals.Rollouts().Coming(now) {
			if c.Like != "" && view.Pod(c.Like) != nil {
				f.Coming[string(c.Like)] += c.Pods
			} else {
				general = fmt.Sprintf("%s still to be created by ReplicaSet %s", pods(c.Pods), c.Set)
			}
		}
	}
	f.Blind = general != ""
	stirred := stirring(view, f.Moved, now)
	expected := map[string]int{}
	for _, claim := range f.Expected {
		if n := view.Claim(claim); n != nil {
			expected[n.World.Pool]++
		}
	}
	for _, p := range view.World.Pools {
		why, turn := l.calm.hold(p.Name, now)
		switch n := expected[p.Name]; {
		case turn:
			f.Turn[p.Name] = true
		case n > 0:
			f.Hold[p.Name] = fmt.Sprintf("%s expected on its nodes", pods(n))
		case general != "":
			f.Hold[p.Name] = general
		case stirred[p.Name] != "":
			f.Hold[p.Name] = stirred[p.Name]
		case why != "":
			f.Hold[p.Name] = why
		}
	}
}

// stirring says of pools in which pods come and go right now where they do. While many nodes change, what is best for the few that
// have been quiet for long enough is not what is best for all: the others are about to have room too. That is not so of nodes that a
// moved pod has just come to: they have got fuller, as decided.
func stirring(view *state.View, moved map[string]state.Moved, now time.Time) map[string]string {
	nodes, stirred := map[string]int{}, map[string]int{}
	for _, n := range view.Nodes {
		pool := view.Pool(n.World.Pool)
		if n.Claim == nil || n.Object == nil || pool == nil || !n.World.Initialized || n.World.Deleting {
			continue
		}
		window := stillFor
		if after := pool.Object.Spec.Disruption.ConsolidateAfter; !after.IsNever() {
			window = min(max(window, *after.Duration), maxStir)
		}
		nodes[n.World.Pool]++
		came := func(p *corev1.Pod) bool { return now.Sub(moved[string(p.UID)].At) < window+stillFor }
		if now.Sub(n.Stirred()) < window && !slices.ContainsFunc(n.Pods, came) {
			stirred[n.World.Pool]++
		}
	}
	out := map[string]string{}
	for pool, n := range stirred {
		if n > nodes[pool]/stirShare {
			out[pool] = fmt.Sprintf("pods were bound to or left %d of its %d nodes a moment ago", n, nodes[pool])
		}
	}
	return out
}

// pods counts pods in a sentence.
func pods(n int) string {
	if n == 1 {
		return "1 pod is"
	}
	return fmt.Sprintf("%d pods are", n)
}
