package operator

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"karpenter/internal/control"
	"karpenter/internal/meter"
)

// World is what the controller runs in where Run does not make it: a simulation. Its provider has been connected already.
type World struct {
	Options *Options
	Manager manager.Manager
	// Paced is a client with a pace of its own, for what must hold up nothing else.
	Paced client.Client
	// Version is the API server's.
	Version string
	Events  record.EventRecorder
	Clock   control.Clock
	Log     *slog.Logger
	// Workers is how many the engine has; without any it does one thing after another. What it decides does not depend on it.
	Workers int
}

// Assemble hands the same reconcilers and loops to a manager that Run does, for a world that somebody else has made. Nothing listens on a
// port.
func Assemble(ctx context.Context, world World) error {
	p := &process{
		options: world.Options, version: world.Version, clock: world.Clock, log: world.Log, set: meter.New(prometheus.NewRegistry(), world.Options.Meter),
		dog: NewWatchdog(world.Clock, nil), ready: newReadiness(partCaches), began: world.Clock.Now(), shared: true,
	}
	w := &wiring{
		process: p, m: world.Manager, recorder: control.NewRecorder(world.Events, world.Clock.Now),
		paced: func(string, int) (client.Client, error) { return world.Paced, nil }, workers: world.Workers,
	}
	w.openLedger()
	return w.all(ctx)
}

// CacheOptions are those of the caches that the reconcilers read from.
func CacheOptions() cache.Options { return cacheOptions() }
