package provision

import (
	"context"
	"strconv"
	"sync"
	"time"

	"karpenter/internal/control"
	"karpenter/internal/meter"
	"karpenter/internal/wait"
)

// Passes shows how a controller plans: for how long, and for how many pods (O29, O30). Its series are those of the pass that is at
// work or, at zero, of the last one: most are over within milliseconds, and nobody would ever scrape them. There is one at a time.
type Passes struct {
	Meter *meter.Set
	Clock control.Clock
	// Controller is the value of the label.
	Controller string

	count  int
	labels []string
	began  time.Time
	mu     sync.Mutex
	over   chan struct{}
}

// Begin shows that a pass looks for a place for some pods, in place of the pass before.
func (p *Passes) Begin(ctx context.Context, pods int) {
	if p.labels != nil {
		p.Meter.Drop(meter.SchedulerQueueDepth, p.labels...)
		p.Meter.Drop(meter.SchedulerUnfinished, p.labels...)
	}
	p.count++
	p.labels = []string{"controller", p.Controller, "scheduling_id", strconv.Itoa(p.count)}
	p.began = p.Clock.Now()
	p.Meter.Set(meter.SchedulerQueueDepth, float64(pods), p.labels...)
	p.Meter.Set(meter.SchedulerUnfinished, 0, p.labels...)
	over := make(chan struct{})
	p.over = over
	wait.Go(p.Clock, func() {
		for {
			if _, is := wait.Receive(ctx, p.Clock, time.Second, over); is || ctx.Err() != nil {
				return
			}
			p.tick(over)
		}
	})
}

// tick shows for how long the pass that ends with over has been at work.
func (p *Passes) tick(over chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over == over {
		p.Meter.Set(meter.SchedulerUnfinished, p.Clock.Since(p.began).Seconds(), p.labels...)
	}
}

// End shows that the pass is over.
func (p *Passes) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.over)
	p.over = nil
	p.Meter.Set(meter.SchedulerQueueDepth, 0, p.labels...)
	p.Meter.Set(meter.SchedulerUnfinished, 0, p.labels...)
	p.Meter.Observe(meter.SchedulingDuration, p.Clock.Since(p.began).Seconds(), "controller", p.Controller)
}
