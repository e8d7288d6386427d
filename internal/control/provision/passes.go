package provision

import (
	"strconv"
	"time"

	"karpenter/internal/control"
	"karpenter/internal/meter"
)

// Passes shows how a controller plans: for how long, and for how many pods (O29, O30). Its series are those of the pass that is at
// work or, at zero, of the last one: most are over within milliseconds, and nobody would ever scrape them. It is for one goroutine at a time.
type Passes struct {
	Meter *meter.Set
	Clock control.Clock
	// Controller is the value of the label.
	Controller string

	count  int
	labels []string
	began  time.Time
}

// Begin shows that a pass looks for a place for some pods, in place of the pass before.
func (p *Passes) Begin(pods int) {
	if p.labels != nil {
		p.Meter.Drop(meter.SchedulerQueueDepth, p.labels...)
		p.Meter.Drop(meter.SchedulerUnfinished, p.labels...)
	}
	p.count++
	p.labels = []string{"controller", p.Controller, "scheduling_id", strconv.Itoa(p.count)}
	p.began = p.Clock.Now()
	p.Meter.Set(meter.SchedulerQueueDepth, float64(pods), p.labels...)
	p.Meter.Set(meter.SchedulerUnfinished, 0, p.labels...)
}

// Tick shows for how long the pass has been at work.
func (p *Passes) Tick(now time.Time) {
	p.Meter.Set(meter.SchedulerUnfinished, now.Sub(p.began).Seconds(), p.labels...)
}

// End shows that the pass is over.
func (p *Passes) End() {
	p.Meter.Set(meter.SchedulerQueueDepth, 0, p.labels...)
	p.Meter.Set(meter.SchedulerUnfinished, 0, p.labels...)
	p.Meter.Observe(meter.SchedulingDuration, p.Clock.Since(p.began).Seconds(), "controller", p.Controller)
}
