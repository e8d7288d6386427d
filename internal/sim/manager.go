package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"karpenter/internal/wait"
)

// requests is the queue of a controller.
type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// queues catches the queue that a controller makes when it starts.
type queues struct {
	mu   sync.Mutex
	last chan requests
}

func (q *queues) made(queue any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r, ok := queue.(requests); ok && q.last != nil {
		q.last <- r
	}
}

// simManager is a manager whose controllers and runnables are tasks of a loop. Controllers are controller-runtime's own, with their
// sources, handlers and predicates; only what their workers do is done by tasks.
type simManager struct {
	loop    *loop
	clock   simClock
	cache   cache.Cache
	client  client.Client
	live    client.Client
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	log     logr.Logger
	elected chan struct{}

	everywhere, leading []manager.Runnable
	failed              func(error)
}

var _ manager.Manager = &simManager{}

// Add implements manager.Manager.
func (m *simManager) Add(r manager.Runnable) error {
	if one, ok := r.(manager.LeaderElectionRunnable); ok && !one.NeedLeaderElection() {
		m.everywhere = append(m.everywhere, r)
		return nil
	}
	m.leading = append(m.leading, r)
	return nil
}

// Start implements manager.Manager: it starts what runs on every replica.
func (m *simManager) Start(ctx context.Context) error {
	for _, r := range m.everywhere {
		if err := m.run(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// lead starts what runs on the leader only.
func (m *simManager) lead(ctx context.Context) error {
	close(m.elected)
	for _, r := range m.leading {
		if err := m.run(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (m *simManager) run(ctx context.Context, r manager.Runnable) error {
	if c, ok := r.(reconciling); ok {
		return m.control(ctx, c)
	}
	m.loop.start(func() {
		if err := r.Start(ctx); err != nil && ctx.Err() == nil {
			m.failed(fmt.Errorf("%T: %w", r, err))
		}
	})
	return nil
}

// reconciling is a controller of controller-runtime.
type reconciling interface {
	manager.Runnable
	reconcile.Reconciler
}

// control starts a controller: it registers its handlers with the caches, and its workers find their queue empty and end. A task
// works on the queue instead.
func (m *simManager) control(ctx context.Context, c reconciling) error {
	found := make(chan requests, 1)
	m.clock.queues.mu.Lock()
	m.clock.queues.last = found
	m.clock.queues.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	var queue requests
	select {
	case queue = <-found:
	case err := <-ended:
		return errors.Join(fmt.Errorf("%T ended before it had a queue", c), err)
	}
	if started, ok := queue.(interface{ Asked() <-chan struct{} }); ok {
		select {
		case <-started.Asked(): // the first worker comes after all sources have started
		case err := <-ended:
			return errors.Join(fmt.Errorf("%T ended before it worked", c), err)
		}
	}
	m.loop.start(func() {
		wait.Serve(ctx, m.clock, queue, 0, func(request reconcile.Request) { reconcileOnce(ctx, c, queue, request) })
	})
	return nil
}

// reconcileOnce is one turn of a worker, as controller-runtime's.
func reconcileOnce(ctx context.Context, c reconcile.Reconciler, queue requests, request reconcile.Request) {
	result, err := c.Reconcile(ctx, request)
	switch {
	case err != nil:
		queue.AddRateLimited(request)
	case result.RequeueAfter > 0:
		queue.Forget(request)
		queue.AddAfter(request, result.RequeueAfter)
	default:
		queue.Forget(request)
	}
}

// GetClient implements cluster.Cluster.
func (m *simManager) GetClient() client.Client { return m.client }

// GetAPIReader implements cluster.Cluster.
func (m *simManager) GetAPIReader() client.Reader { return m.live }

// GetCache implements cluster.Cluster.
func (m *simManager) GetCache() cache.Cache { return m.cache }

// GetFieldIndexer implements cluster.Cluster.
func (m *simManager) GetFieldIndexer() client.FieldIndexer { return m.cache }

// GetScheme implements cluster.Cluster.
func (m *simManager) GetScheme() *runtime.Scheme { return m.scheme }

// GetRESTMapper implements cluster.Cluster.
func (m *simManager) GetRESTMapper() meta.RESTMapper { return m.mapper }

// GetLogger implements manager.Manager.
func (m *simManager) GetLogger() logr.Logger { return m.log }

// Elected implements manager.Manager.
func (m *simManager) Elected() <-chan struct{} { return m.elected }

// GetControllerOptions implements manager.Manager.
func (m *simManager) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true), RecoverPanic: new(false), UsePriorityQueue: new(false)}
}

// GetConfig implements cluster.Cluster. There is no address to talk to.
func (m *simManager) GetConfig() *rest.Config { return &rest.Config{} }

// GetHTTPClient implements cluster.Cluster.
func (m *simManager) GetHTTPClient() *http.Client { return nil }

// GetEventRecorderFor implements cluster.Cluster.
func (m *simManager) GetEventRecorderFor(string) record.EventRecorder { return nil }

// GetEventRecorder implements cluster.Cluster.
func (m *simManager) GetEventRecorder(string) recorder.EventRecorder { return nil }

// AddMetricsServerExtraHandler implements manager.Manager.
func (m *simManager) AddMetricsServerExtraHandler(string, http.Handler) error { return nil }

// AddHealthzCheck implements manager.Manager.
func (m *simManager) AddHealthzCheck(string, healthz.Checker) error { return nil }

// AddReadyzCheck implements manager.Manager.
func (m *simManager) AddReadyzCheck(string, healthz.Checker) error { return nil }

// GetWebhookServer implements manager.Manager.
func (m *simManager) GetWebhookServer() webhook.Server { return nil }

// GetConverterRegistry implements manager.Manager.
func (m *simManager) GetConverterRegistry() conversion.Registry { return conversion.NewRegistry() }
