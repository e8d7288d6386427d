package operator

import (
	"context"
	"errors"
	"testing"

	"k8s.io/utils/clock"
)

// TestHeadStart: what is begun early is not done a second time when its turn comes, and its failure is not lost.
func TestHeadStart(t *testing.T) {
	calls, let := make(chan int, 10), make(chan error)
	n := 0
	do := func(context.Context) error {
		n++
		calls <- n
		return <-let
	}
	again, first := headStart(t.Context(), clock.RealClock{}, do)
	<-calls // without anybody asking
	failure := errors.New("AWS is away")
	let <- failure
	<-first
	if err := again(t.Context()); !errors.Is(err, failure) || len(calls) > 0 {
		t.Errorf("its turn: %v after %d more calls", err, len(calls))
	}
	go func() { let <- nil }()
	if err := again(t.Context()); err != nil || <-calls != 2 {
		t.Errorf("the next turn: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	waits, _ := headStart(t.Context(), clock.RealClock{}, func(ctx context.Context) error { <-ctx.Done(); return nil })
	if err := waits(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a process that ends: %v", err)
	}
}
