package kit

import (
	"context"
	"sync"
	"time"

	"karpenter/internal/wait"
)

// leaveBehind is how long questions wait for a call that is under way before the next one is made beside it. Calls have deadlines,
// so that few can be left behind at a time.
const leaveBehind = 5 * time.Second

// Gather turns many questions about single ids into few calls: whoever asks while a call is under way waits for the next one,
// which asks for all of them. Nobody waits longer than for two calls, one question alone waits for nothing, and a call that hangs
// keeps only those waiting who asked it.
type Gather[T any] struct {
	// Ask answers for ids; an id that has no answer is left out.
	Ask func(ctx context.Context, ids []string) (map[string]T, error)
	// Made is told of every call: for how many questions, and how long the first had waited.
	Made  func(size int, waited time.Duration)
	Clock Clock
	// Most is how many ids one call may carry.
	Most int

	mu      sync.Mutex
	running bool
	waiting []question[T]
}

type question[T any] struct {
	id     string
	asked  time.Time
	answer chan reply[T]
}

type reply[T any] struct {
	value T
	found bool
	err   error
}

// Get asks about one id.
func (g *Gather[T]) Get(ctx context.Context, id string) (value T, found bool, err error) {
	answer := make(chan reply[T], 1)
	g.mu.Lock()
	g.waiting = append(g.waiting, question[T]{id, g.Clock.Now(), answer})
	if !g.running {
		g.running = true
		// Others share the call, so it must outlive whoever came first.
		wait.Go(g.Clock, func() { g.run(context.WithoutCancel(ctx)) })
	}
	g.mu.Unlock()
	if r, ok := wait.Receive(ctx, g.Clock, wait.Forever, answer); ok {
		return r.value, r.found, r.err
	}
	return value, false, ctx.Err()
}

// run makes calls until nobody waits.
func (g *Gather[T]) run(ctx context.Context) {
	for {
		g.mu.Lock()
		batch := g.waiting[:min(len(g.waiting), g.Most)]
		g.waiting = g.waiting[len(batch):]
		if len(batch) == 0 {
			g.running, g.waiting = false, nil
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		seen := map[string]bool{}
		var ids []string
		for _, q := range batch {
			if !seen[q.id] {
				seen[q.id] = true
				ids = append(ids, q.id)
			}
		}
		g.Made(len(batch), g.Clock.Now().Sub(batch[0].asked))
		done := make(chan struct{})
		wait.Go(g.Clock, func() {
			defer close(done)
			values, err := g.Ask(ctx, ids)
			for _, q := range batch {
				v, found := values[q.id]
				q.answer <- reply[T]{v, found, err}
			}
		})
		patient, cancel := wait.Timeout(ctx, g.Clock, leaveBehind)
		wait.Receive(patient, g.Clock, wait.Forever, done)
		cancel()
	}
}
