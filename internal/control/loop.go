package control

import (
	"context"
	"log/slog"
	"time"

	"karpenter/internal/wait"
)

// How long a loop waits after a failure: twice as long each time, within these.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Loop does one thing again and again while this process leads. A failure is logged and tried again; it ends nothing.
type Loop struct {
	Name  string
	Clock Clock
	// Log names the controller in its lines.
	Log *slog.Logger
	// Do does it once, and says after how long to do it again.
	Do func(ctx context.Context) (again time.Duration, err error)
	// Beat, if any, is called after every round, for whoever watches that the loop goes on.
	Beat func(loop string)
}

// Start runs the loop until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	retry := firstRetry
	for {
		again, err := l.Do(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if l.Beat != nil {
			l.Beat(l.Name)
		}
		if err != nil {
			l.Log.Error("loop failed, trying again", "error", err, "again-in", retry)
			again, retry = retry, min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		if !wait.For(ctx, l.Clock, again) {
			return nil
		}
	}
}

// NeedLeaderElection keeps the loop from running in processes that do not lead.
func (l *Loop) NeedLeaderElection() bool { return true }
