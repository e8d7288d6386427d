package sim

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"
)

// memoryMost is how much a process that plays may use before it looks for what it can give back: worlds are small and short-lived, and
// looking costs more than playing.
const memoryMost = 1 << 30

// LessGarbageCollection is for processes that do nothing but play.
func LessGarbageCollection() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryMost)
}

// player plays a plan.
type player struct {
	history io.Writer
	// look, if any, is called now and then; it may end the play by an error.
	look func(*World) error
}

// Play plays a plan in a new world. The error is a Breach if an invariant did not hold. look, if any, is called now and then and may
// end the play.
func Play(p *Plan, history io.Writer, look func(*World) error) (w *World, err error) {
	return (&player{history, look}).play(p)
}

// lookEvery is how much simulated time passes at most before a player looks up.
const playStep = time.Minute

func (x *player) play(p *Plan) (w *World, err error) {
	if w, err = NewWorld(p.Seed, x.history); err != nil {
		return nil, err
	}
	w.workers = p.Workers
	defer func() {
		w.over = w.Elapsed()
		w.Close()
	}()
	defer func() {
		if what := recover(); what != nil { // no panic leaves a reconcile
			w.loop.runs = nil
			err = &Breach{"S13", fmt.Sprintf("panic: %v\n%s", what, debug.Stack())}
		}
	}()
	started := false
	for _, s := range p.Steps {
		if s.At > 0 && !started {
			started = true
			if err := w.StartController(); err != nil {
				return w, err
			}
			w.Start()
		}
		for w.Elapsed() < s.At {
			if err := w.Run(min(playStep, s.At-w.Elapsed())); err != nil {
				return w, err
			}
			if x.look != nil {
				if err := x.look(w); err != nil {
					return w, err
				}
			}
		}
		w.note("%s", s)
		if err := s.do(w); err != nil {
			return w, fmt.Errorf("%s%s: %w", s.from, s, err)
		}
		if w.fatal != nil {
			return w, w.fatal
		}
	}
	return w, nil
}

// Shrink looks for a shorter plan that breaches the same invariant, by leaving out what comes after the breach, then half of the steps, a
// quarter of them and so on, for so many plays at most, or until look, if any, returns an error. It returns the shortest that it found.
func Shrink(p *Plan, rule string, plays int, look func(*World) error) *Plan {
	best := p
	fails := func(c *Plan) bool {
		if plays <= 0 {
			return false
		}
		plays--
		w, err := Play(c, nil, look)
		if look != nil && w != nil && look(w) != nil {
			plays = 0
		}
		b, ok := errors.AsType[*Breach](err)
		if !ok || b.Rule != rule {
			return false
		}
		if cut := c.until(w.over); len(cut.Steps) < len(c.Steps) {
			c = cut
		}
		best = c
		return true
	}
	fails(p)
	for size := len(best.Steps) / 2; size >= 1 && plays > 0; {
		shorter := false
		for at := 0; at < len(best.Steps) && plays > 0; {
			if c := best.without(at, size); c != nil && fails(c) {
				shorter = true
				continue
			}
			at += size
		}
		if !shorter {
			size /= 2
		}
	}
	return best
}

// until is the plan without what comes after a time, unless it judges the end.
func (p *Plan) until(at time.Duration) *Plan {
	out := &Plan{Seed: p.Seed}
	for _, s := range p.Steps {
		if s.At <= at {
			out.Steps = append(out.Steps, s)
		}
	}
	if len(out.Steps) == len(p.Steps) {
		return p
	}
	out.add(at+time.Second, "end")
	return out
}

// without is the plan without some steps, nil if that leaves out what a plan cannot do without.
func (p *Plan) without(at, size int) *Plan {
	out := &Plan{Seed: p.Seed, Steps: slices.Clone(p.Steps)}
	left := slices.Clone(out.Steps[at:min(len(out.Steps), at+size)])
	out.Steps = slices.Delete(out.Steps, at, min(len(out.Steps), at+size))
	kept := slices.DeleteFunc(left, func(s Step) bool { return !slices.Contains([]string{"pool", "app", "end", "calm"}, s.Words[0]) })
	if len(kept) == len(p.Steps[at:min(len(p.Steps), at+size)]) {
		return nil
	}
	out.Steps = slices.Insert(out.Steps, at, kept...)
	return out
}
