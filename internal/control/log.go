package control

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
)

// Logger is the log of one reconcile: that of the manager, which knows controller, object and id of the round (O53). Outside of a
// reconcile it is the one given.
func Logger(ctx context.Context, log *slog.Logger) *slog.Logger {
	found := logr.FromContextAsSlogLogger(ctx)
	if found == nil {
		return log
	}
	// What the manager itself says is kept quiet; what is said here is for operators.
	if hushed, ok := found.Handler().(interface{ Loud() slog.Handler }); ok {
		return slog.New(hushed.Loud())
	}
	return log
}
