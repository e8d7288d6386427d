package kit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"karpenter/cloud"
	"karpenter/internal/wait"
)

// How calls are spaced out. The gap doubles when the cloud complains and shrinks a little with every call that it takes, so it settles
// around what the cloud allows; what the cloud saves up for us meanwhile is spent as the gap shrinks.
const (
	firstGap  = 50 * time.Millisecond
	longGap   = 2 * time.Second
	gapShrink = 0.95
	// patience is how long a call waits for its turn before its caller is told to come back: long enough for a few hundred
	// others to pass, short enough that nobody's deadline runs out in line.
	patience = 5 * time.Minute
)

// Pace keeps calls of one kind within what the cloud allows, which nobody tells us. Calls go out as they come until the cloud complains;
// then they stand in line and go out one after the other, at a rate that follows the answers. A call that was refused for
// being one too many has done nothing, so it stands in line again.
type Pace struct {
	clock Clock
	// classify gives the error of a call its class.
	classify func(op string, err error) error
	// turn is held by whoever is first in line.
	turn chan struct{}

	mu   sync.Mutex
	gap  time.Duration
	last time.Time // when the last call went out
	cut  time.Time // when the gap grew last; complaints about calls from before are old news
}

// NewPace returns a pace without a gap. classify gives errors of calls their class: those of class Throttled slow it down.
func NewPace(clock Clock, classify func(op string, err error) error) *Pace {
	return &Pace{clock: clock, classify: classify, turn: make(chan struct{}, 1)}
}

// Do makes the call when its turn comes, again if the cloud refuses it for being one too many.
func (p *Pace) Do(ctx context.Context, op string, call func() error) error {
	begun := p.clock.Now()
	for {
		sent, err := p.wait(ctx)
		if err != nil {
			return p.classify(op, err)
		}
		err = p.classify(op, call())
		if cloud.ClassOf(err) != cloud.Throttled {
			p.ease()
			return err
		}
		p.slow(sent)
		if waited := p.clock.Now().Sub(begun); waited >= patience {
			return &cloud.Error{Class: cloud.Throttled, Op: op, Reason: cloud.ReasonOf(err), Err: fmt.Errorf("the cloud takes no more calls of this kind for now, after %v in line: %w", waited.Round(time.Second), err)}
		}
	}
}

// wait stands in line and returns when the call may go out.
func (p *Pace) wait(ctx context.Context) (sent time.Time, err error) {
	if !wait.Send(ctx, p.clock, p.turn, struct{}{}) {
		return sent, ctx.Err()
	}
	defer func() { <-p.turn }()
	p.mu.Lock()
	pause := p.last.Add(p.gap).Sub(p.clock.Now())
	p.mu.Unlock()
	if !wait.For(ctx, p.clock, pause) {
		return sent, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = p.clock.Now()
	return p.last, nil
}

// ease notes a call that the cloud took.
func (p *Pace) ease() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gap = time.Duration(float64(p.gap) * gapShrink); p.gap < firstGap/10 {
		p.gap = 0
	}
}

// slow notes that a call which went out at that time was one too many.
func (p *Pace) slow(sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !sent.After(p.cut) {
		return
	}
	p.gap, p.cut = min(max(2*p.gap, firstGap), longGap), p.clock.Now()
}
