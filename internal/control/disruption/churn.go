package disruption

import (
	"fmt"
	"sync"
	"time"

	"karpenter/internal/control"
	"karpenter/internal/engine/why"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

const (
	// churnMinutes is over how many minutes evictions for cost are counted.
	churnMinutes = 60
	// A pool churns if more than one in churnShare of its pods is evicted for its cost within that time, but not with fewer than
	// churnLeast evictions: those of a small pool say nothing.
	churnShare = 3
	churnLeast = 10
	// churnEvery is how often that is said of a pool.
	churnEvery = 15 * time.Minute
)

// churn counts the evictions for cost of the last hour, by pool.
type churn struct {
	mu    sync.Mutex
	pools map[string]*poolChurn
}

// poolChurn is what happened to a pool, minute by minute.
type poolChurn struct {
	minutes [churnMinutes]churnMinute
	told    time.Time // when it was last said that the pool churns
}

// churnMinute is the evictions of one minute, what they were to save an hour, and the most pods that the pool had.
type churnMinute struct {
	minute          int64 // since 1970
	evictions, pods int
	saves           float64
}

// at is the count of a minute of a pool. The caller holds the lock.
func (c *churn) at(pool string, now time.Time) (*poolChurn, *churnMinute) {
	if c.pools == nil {
		c.pools = map[string]*poolChurn{}
	}
	p := c.pools[pool]
	if p == nil {
		p = &poolChurn{}
		c.pools[pool] = p
	}
	minute := now.Unix() / 60
	m := &p.minutes[minute%churnMinutes]
	if m.minute != minute {
		*m = churnMinute{minute: minute}
	}
	return p, m
}

// evicted counts pods of a pool that were evicted for their cost.
func (c *churn) evicted(pool string, pods int, saves float64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, m := c.at(pool, now)
	m.evictions += pods
	m.saves += saves
}

// look takes note of how many pods each pool has, forgets other pools, and returns the last hour of those that churn and of which
// that has not been said of late.
func (c *churn) look(pods map[string]int, now time.Time) map[string]churnMinute {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.pools {
		if _, known := pods[name]; !known {
			delete(c.pools, name)
		}
	}
	out := map[string]churnMinute{}
	for name, n := range pods {
		p, m := c.at(name, now)
		m.pods = max(m.pods, n)
		hour := p.hour(now)
		if hour.evictions < churnLeast || hour.evictions*churnShare <= hour.pods || now.Sub(p.told) < churnEvery {
			continue
		}
		p.told = now
		out[name] = hour
	}
	return out
}

// hour adds up the last hour.
func (p *poolChurn) hour(now time.Time) (sum churnMinute) {
	for _, m := range p.minutes {
		if m.minute > now.Unix()/60-churnMinutes {
			sum.evictions += m.evictions
			sum.saves += m.saves
			sum.pods = max(sum.pods, m.pods)
		}
	}
	return sum
}

// churn shows how many pods each pool has, and warns of pools that churn.
func (s *reporter) churn(view *state.View, now time.Time) {
	pods := map[string]int{}
	for _, p := range view.World.Pools {
		pods[p.Name] = 0
	}
	for _, n := range view.Nodes {
		if _, known := pods[n.World.Pool]; !known {
			continue
		}
		for _, p := range n.World.Pods {
			if p.Movable && !p.Terminating {
				pods[n.World.Pool]++
			}
		}
	}
	for pool, n := range pods {
		s.l.Meter.Set(meter.NodePoolsPods, float64(n), "nodepool", pool)
		s.l.Meter.Add(meter.ConsolidationEvictions, 0, "nodepool", pool) // so that the first increase is seen
		s.l.Meter.Add(meter.ConsolidationSavings, 0, "nodepool", pool)
	}
	for name, hour := range s.l.churn.look(pods, now) {
		pool := view.Pool(name)
		if pool == nil {
			continue
		}
		text := fmt.Sprintf("Consolidation evicted %d pods within the last hour, of a pool with at most %d: more than one in %d. It was to save %s. "+
			"If that is too much, raise spec.disruption.consolidateAfter (now %s) or the annotation karpenter.sh/restart-cost; "+
			"\"karpenter explain pod\" says why a pod was moved", hour.evictions, hour.pods, churnShare, why.Money(hour.saves), pool.Object.Spec.Disruption.ConsolidateAfter.String())
		s.l.Recorder.Tell(control.Event{Object: pool.Object, Warning: true, Reason: EventChurn, Every: churnEvery, Message: text})
		s.l.Log.Warn("consolidation churns", "NodePool", name, "evictions", hour.evictions, "pods", hour.pods, "savings", why.Money(hour.saves))
	}
}

// evicted counts pods that leave a node because it is deleted for its cost, and what that is to save.
func (s *reporter) evicted(pool string, pods int, saves float64) {
	s.l.Meter.Add(meter.ConsolidationEvictions, float64(pods), "nodepool", pool)
	s.l.Meter.Add(meter.ConsolidationSavings, max(0, saves), "nodepool", pool)
	s.l.churn.evicted(pool, pods, saves, s.l.Clock.Now())
}

// settled counts where pods have come to that were evicted for their cost.
func (s *reporter) settled(pool string, as outcome) {
	s.l.Meter.Add(meter.ConsolidationPlaced, 1, "nodepool", pool, "outcome", string(as))
}
