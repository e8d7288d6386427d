package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"karpenter/cloud/plug"
	"karpenter/internal/control"
	"karpenter/internal/meter"
	"karpenter/internal/operator/webhook"
	"karpenter/internal/wait"
)

const (
	// A leader that cannot renew its lease stops acting after renewDeadline, and nobody else can take it before leaseDuration.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// shutdownGrace is how long what is under way may take when the process is asked to end.
	shutdownGrace = 10 * time.Second
)

// What must have come true once before the process is ready.
const (
	partKinds  = "kinds"
	partCloud  = "cloud"
	partCaches = "caches"
)

// Build says what the program was built from.
type Build struct{ Version, Commit string }

// process is a running controller.
type process struct {
	options *Options
	build   Build
	config  *rest.Config
	clock   control.Clock
	log     *slog.Logger
	set     *meter.Set
	dog     *Watchdog
	ready   *readiness
	began   time.Time
	// shared says that memory is not the controller's alone, so that how it is used is not its business.
	shared bool
	// fence is nil where there is no lease.
	fence *fence
	// version is that of the API server.
	version string
	// api is where decisions are served, on the port of metrics; nil if they are not.
	api *leaderProxy
}

// Process is what Run needs to be told.
type Process struct {
	Options *Options
	Build   Build
	// Config reaches the API server, as it was found.
	Config *rest.Config
	Clock  control.Clock
	Log    *slog.Logger
}

// Run is the controller: it returns when the context ends, with nil, or when the lease is lost or it cannot go on.
func Run(ctx context.Context, given Process) error {
	p := &process{
		options: given.Options, build: given.Build, clock: given.Clock, log: given.Log, set: meter.New(prometheus.NewRegistry(), given.Options.Meter),
		dog: NewWatchdog(clock.RealClock{}, crmetrics.Registry), ready: newReadiness(partKinds, partCloud, partCaches),
		began: given.Clock.Now(),
	}
	p.set.Set(meter.BuildInfo, 1, "version", p.build.Version, "commit", p.build.Commit, "goversion", runtime.Version(), "goarch", runtime.GOARCH)
	limitMemory(p.options.MemoryLimitBytes, p.options.EnableProfiling)
	var decisions http.Handler
	if p.options.DecisionAPI {
		p.api = &leaderProxy{}
		decisions = p.api
	}
	stopMetrics, err := servePort(p.options.MetricsPort, "METRICS_PORT", metricsHandler(p.options.EnableProfiling, p.set.Handler(crmetrics.Registry), decisions), p.log)
	if err != nil {
		return err
	}
	defer stopMetrics()
	stopHealth, err := servePort(p.options.HealthProbePort, "HEALTH_PROBE_PORT", healthHandler(p.dog.Check, p.ready.Check), p.log)
	if err != nil {
		return err
	}
	defer stopHealth()
	p.config = tuned(given.Config, p.options, p.agent(), p.set)
	lease := leaseConfig(given.Config, p.agent()+" lease")
	if !p.options.DisableLeaderElection {
		p.fence = newFence(time.Now) // by what passes here, whatever the API server's clock says
		lease.Wrap(p.fence.watch)
	}
	kube, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := p.options.Cloud.Connect(ctx, p.forCloud(kube)); err != nil {
		return err
	}
	for _, warning := range p.options.Warnings {
		p.log.Warn("setting without effect", "setting", warning)
	}
	err = p.run(ctx, kube, lease)
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		p.log.Info("stopped")
		return nil
	}
	return err
}

// forCloud is what a provider may know of the process.
func (p *process) forCloud(kube kubernetes.Interface) plug.Process {
	return plug.Process{
		Version: p.build.Version, Config: p.config, Kube: kube, Fence: p.fence.check, ReservedCapacity: p.options.Gates.ReservedCapacity,
		Clock: p.clock, Log: p.log, Meter: p.set,
	}
}

func (p *process) agent() string { return "karpenter/" + p.build.Version }

// run waits for what must be there, wires the reconcilers and runs them.
func (p *process) run(ctx context.Context, kube kubernetes.Interface, lease *rest.Config) error {
	ctrllog.SetLogger(logr.FromSlogHandler(quiet{p.log.Handler()}))
	err := p.persist(ctx, partKinds, func(context.Context) (err error) {
		if err := missingKinds(kube.Discovery(), p.options.Kind); err != nil {
			return err
		}
		p.version, err = plug.ServerVersion(kube.Discovery())
		return err
	})
	if err != nil {
		return err
	}
	if err := p.persist(ctx, partCloud, p.options.Cloud.Find); err != nil {
		return err
	}
	scheme, err := NewScheme(p.options.Kind)
	if err != nil {
		return err
	}
	events, stopEvents, err := newEvents(p.config, scheme)
	if err != nil {
		return err
	}
	defer stopEvents()
	lock, err := p.lock(lease, events)
	if err != nil {
		return err
	}
	m, err := p.manager(scheme, lock)
	if err != nil {
		return err
	}
	if err := p.persist(ctx, partKinds, func(context.Context) error { return knownKinds(m.GetRESTMapper(), p.options.Kind) }); err != nil {
		return err
	}
	w := &wiring{
		process: p, m: m, kube: kube, recorder: control.NewRecorder(events, p.clock.Now),
		paced: func(purpose string, perSecond int) (client.Client, error) { return pacedClient(m, purpose, perSecond) },
	}
	closeLedger := w.openLedger()
	defer closeLedger()
	if err := w.all(ctx); err != nil {
		return err
	}
	stopDashboard, err := w.dashboards(ctx, kube)
	if err != nil {
		return err
	}
	defer stopDashboard()
	upgraded := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.Elected():
			p.log.Info("leading")
		case <-ctx.Done():
		}
	}()
	go func() {
		if err := p.watchVersion(ctx, kube.Discovery()); err != nil {
			upgraded <- err
			cancel()
		}
	}()
	if err := m.Start(ctx); err != nil {
		return fmt.Errorf("running the reconcilers: %w", err)
	}
	select {
	case err := <-upgraded:
		return err
	default:
		return nil
	}
}

func (p *process) manager(scheme *apiruntime.Scheme, lock resourcelock.Interface) (manager.Manager, error) {
	o := p.options
	duration, deadline, retry, grace := leaseDuration, renewDeadline, retryPeriod, shutdownGrace
	fenced := rest.CopyConfig(p.config)
	if p.fence != nil {
		fenced.Wrap(p.fence.guard)
	}
	caches := cacheOptions()
	caches.NewInformer = wait.Informers(p.clock)
	m, err := manager.New(fenced, manager.Options{
		Scheme:  scheme,
		Logger:  logr.FromSlogHandler(quiet{p.log.Handler()}),
		Metrics: server.Options{BindAddress: "0"}, // served by us, before there is a manager
		Cache:   caches,
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			cached, err := client.New(config, options)
			if err != nil {
				return nil, err
			}
			options.Cache = nil
			live, err := client.New(config, options)
			return control.NewFresh(cached, live, p.clock.Now), err
		},

		LeaderElection: !o.DisableLeaderElection, LeaderElectionID: o.LeaderElectionName, LeaderElectionNamespace: o.leaseNamespace(),
		LeaderElectionResourceLockInterface: lock, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &duration, RenewDeadline: &deadline, RetryPeriod: &retry, GracefulShutdownTimeout: &grace,

		Controller: config.Controller{
			MaxConcurrentReconciles: workers(o.CPURequests),
			EnableWarmup:            new(!o.DisableControllerWarmup),
			// A process may run more than one cluster's reconcilers, as tests do.
			SkipNameValidation: new(true),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the reconcilers: %w", err)
	}
	return m, nil
}

// lock is the lease that the leader holds, under the name of its pod: whoever is asked and does not lead names that one.
func (p *process) lock(config *rest.Config, events record.EventRecorder) (resourcelock.Interface, error) {
	if p.options.DisableLeaderElection {
		return nil, nil
	}
	config = rest.CopyConfig(config)
	config.Timeout = renewDeadline / 2 // one request that hangs must not cost the lease
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the lease: %w", err)
	}
	return &patientLock{log: p.log, Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: p.options.leaseNamespace(), Name: p.options.LeaderElectionName}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: hostName() + "_" + string(uuid.NewUUID()), EventRecorder: events},
	}}, nil
}

// hostName is the name of this pod. HOSTNAME comes before the name of the computer: in a container both are the pod's, and where a pod
// is run as a process only the former is.
func hostName() string {
	if name := os.Getenv("HOSTNAME"); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return "karpenter"
	}
	return name
}

// webhook serves v1beta1, on every replica, if there is a Service that the API server reaches it by.
func (w *wiring) webhook() error {
	o := w.options
	if !o.webhook() {
		return nil
	}
	target := webhook.Target{ServiceNamespace: o.SystemNamespace, ServiceName: o.KarpenterService, ServicePort: o.webhookServicePort()}
	server, err := webhook.Listen(w.config, target, webhook.Options{Class: w.served(), Clock: w.clock, Log: w.log}, o.WebhookPort)
	if err != nil {
		return fmt.Errorf("WEBHOOK_PORT=%d: %w", o.WebhookPort, err)
	}
	if err := w.m.Add(server); err != nil {
		return fmt.Errorf("adding the conversion webhook: %w", err)
	}
	return nil
}
