package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/aws/awsplug"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/cloud/simaws/catalog"
	"karpenter/internal/control"
	"karpenter/internal/operator"
	"karpenter/internal/sim/kube"
	"karpenter/internal/wait"
)

const (
	region      = "us-west-2"
	clusterName = "sim"
	nodeRole    = "KarpenterNodeRole-sim"
	// replicaPrefix is what the users of processes of the controller begin with.
	replicaPrefix = "karpenter-"
	// restartAfter is how long after a crash the next process starts.
	restartAfter = 3 * time.Second
	// lagMost is how late a watch may be while all is well.
	lagMost = 200 * time.Millisecond
)

// World is a cluster in simulated time.
type World struct {
	Seed    uint64
	loop    *loop
	draw    *rand.Rand
	scheme  *runtime.Scheme
	server  *kube.Server
	aws     *simaws.Sim
	handler http.Handler
	types   *catalog.Catalog
	// users write as what plays a part of the cluster.
	kubelet, scheduler, owner client.Client
	replica                   *replica
	replicas                  int
	// copies is how many processes there are to be, standby are those that do not lead, and lease says who does.
	copies  int
	standby []*replica
	stale   []*replica // have lost the lease and do not know it
	lease   lease
	apps    []*app
	wanted  int // how often workloads have been changed
	workers int // of the engine
	// gates and awsGates are features that are on or off, as FEATURE_GATES and AWS_FEATURE_GATES have them.
	gates, awsGates string

	log     *slog.Logger
	history io.Writer // nil keeps nothing
	last    []string  // the end of the history
	hash    uint64
	lines   int
	fatal   error
	closed  bool
	over    time.Duration // when the play was over
	restart time.Time
	// api has the shares of the controller's writes that go wrong, by how.
	api map[string]float64
	// Faults counts what has gone wrong by order.
	Faults int

	// effects is what the controller has done so far, eventful what it had done when calm began; at some of those it crashes.
	effects, eventful int
	crashes           []crashPoint
	// incidents wait for an effect; here is what the one is about that they are done at.
	incidents []*incident
	here      about
	// bound is how many pods were bound late.
	bound int

	// lost is since when the nodes of pods are gone.
	lost map[types.UID]time.Time

	// sick are nodes by name with which something is wrong, reboots when instances were rebooted.
	sick    map[string]*patient
	reboots map[string][]time.Time

	pods tally

	rules
}

// crashPoint is an effect that the controller crashes at, before or after it happens.
type crashPoint struct {
	at    int
	after bool
}

// replica is a process of the controller.
type replica struct {
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	cache  *kube.Cache
	clock  simClock
	dead   bool

	manager *simManager
	fence   *operator.Fence
	// paused is until when the process stands still, held until when its watches of kinds do.
	paused time.Time
	held   map[string]time.Time
	// coming are the kinds of which something is on its way to the cache.
	coming map[schema.GroupVersionKind]bool
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// NewWorld makes a cluster without nodes, pools or pods; everything that happens in it follows from the seed.
func NewWorld(seed uint64, history io.Writer) (*World, error) {
	sold, err := few()
	if err != nil {
		return nil, fmt.Errorf("making a world: %w", err)
	}
	return newWorld(seed, history, sold)
}

// scheme has the kinds that there are.
var scheme = sync.OnceValues(func() (*runtime.Scheme, error) { return operator.NewScheme(aws.Kind()) })

// newWorld makes a cluster whose AWS has these instance types.
func newWorld(seed uint64, history io.Writer, sold *catalog.Catalog) (*World, error) {
	w := &World{types: sold, Seed: seed, draw: rand.New(rand.NewPCG(seed, 1)), history: history, api: map[string]float64{}, copies: 1, lost: map[types.UID]time.Time{}, sick: map[string]*patient{}, reboots: map[string][]time.Time{}, pods: newTally(), rules: newRules()}
	w.loop = newLoop(epoch, w.draw)
	log := slog.DiscardHandler
	if history != nil {
		log = slog.NewTextHandler(history, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{} // which is not the world's
			}
			return a
		}})
	}
	w.log = slog.New(panics{log, w})
	var err error
	if w.scheme, err = scheme(); err != nil {
		return nil, fmt.Errorf("making a world: %w", err)
	}
	w.server = kube.NewServer(w.scheme, func() time.Time { return w.loop.now }, kube.Seed(seed), kube.WithoutValidation())
	w.server.Hook, w.server.Stored = w.requested, w.pods.note
	w.kubelet, w.scheduler, w.owner = w.server.Client("kubelet"), w.server.Client("kube-scheduler"), w.server.Client("user")
	w.aws, err = simaws.New(simaws.Options{
		Catalog: w.types,
		Clock:   simClock{w.loop, nil}, Seed: seed, Region: region, OnCall: w.called, Watcher: (*kubelets)(w), SteadySpot: true, Brief: true, Queue: clusterName, KubernetesVersions: []string{"1.37"},
		Clusters: []simaws.Cluster{{Name: clusterName, Version: "1.37", Endpoint: "https://sim.local"}},
	})
	if err != nil {
		return nil, fmt.Errorf("making a world: %w", err)
	}
	w.handler = w.aws.Handler()
	w.rules.server, w.lag, w.rules.vcpus = w.server, lagMost, w.vcpus
	w.now = func() time.Time { return w.loop.now }
	w.instances = func(visit func(simaws.Glimpse)) {
		if err := w.aws.EachInstance(region, visit); err != nil {
			w.fatal = err
		}
	}
	w.report = func(b *Breach) {
		if w.fatal == nil {
			w.fatal = b
			w.note("breach of %s", b)
		}
	}
	if err := w.aws.Do(region, "iam", url.Values{"Action": {"CreateRole"}, "RoleName": {nodeRole}, "AssumeRolePolicyDocument": {`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`}}); err != nil {
		return nil, fmt.Errorf("making a world: %w", err)
	}
	w.loop.start(w.runAWS)
	return w, nil
}

// note adds a line to the history.
func (w *World) note(format string, args ...any) {
	if w.closed {
		return
	}
	line := fmt.Sprintf("%10.3f ", w.loop.now.Sub(epoch).Seconds()) + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	_, _ = io.WriteString(h, line)
	w.hash = w.hash*1099511628211 ^ h.Sum64()
	if w.lines++; len(w.last) < lastLines {
		w.last = append(w.last, line)
	} else {
		w.last[(w.lines-1)%lastLines] = line
	}
	if w.history != nil {
		_, _ = io.WriteString(w.history, line+"\n")
	}
}

// lastLines is how many lines of history a breach shows.
const lastLines = 50

// Last are the last lines of the history.
func (w *World) Last() (lines []string) {
	for i := range w.last {
		lines = append(lines, w.last[(w.lines+i)%len(w.last)])
	}
	return lines
}

// Elapsed is how much time has passed in the world.
func (w *World) Elapsed() time.Duration {
	if w.closed {
		return w.over
	}
	return w.loop.now.Sub(epoch)
}

// Events is how much has happened.
func (w *World) Events() int { return w.lines }

// Effects is how often the controller has written something or called AWS.
func (w *World) Effects() int { return w.effects }

// Crashes is how often the controller has crashed.
func (w *World) Crashes() int { return w.crashed }

// Hash is the same for the same history.
func (w *World) Hash() string { return fmt.Sprintf("%016x/%d", w.hash, w.lines) }

// requested sees every request to the API server, before and after it takes effect.
func (w *World) requested(op *kube.Op) error {
	r := w.process(op.User)
	ours := r != nil
	if ours && !op.Done {
		w.standStill(r)
	}
	if strings.HasPrefix(op.User, replicaPrefix) && !ours || ours && r.dead && !op.Done {
		return errDead
	}
	if !op.Writes() {
		if ours && !op.Done {
			return w.refused()
		}
		return nil
	}
	if ours && !op.Done {
		if err := r.fence.Check(); err != nil {
			return err
		}
	}
	if op.Done {
		w.note("%s", op)
		w.wrote(op, ours)
		if ours && op.Err == nil {
			w.leads(r, op.String())
		}
	}
	if !ours {
		return nil
	}
	if e := w.writing(op); w.effect(r, &e) {
		return errDead
	}
	return w.apiFault(op)
}

// apiFault is what the API server answers instead, if it is drawn.
func (w *World) apiFault(op *kube.Op) error {
	if !op.Done {
		if err := w.refused(); err != nil {
			return err
		}
	}
	switch {
	case !op.Done && w.hit("conflict"):
		w.Faults++
		return apierrors.NewConflict(schema.GroupResource{Group: op.Kind.Group, Resource: op.Kind.Kind}, op.Key.Name, errors.New("by order of a fault"))
	case op.Done && op.Err == nil && w.hit("lose"):
		w.Faults++
		return apierrors.NewTimeoutError("by order of a fault", 1)
	}
	return nil
}

// hit draws whether a request goes wrong in a way.
func (w *World) hit(kind string) bool { return w.api[kind] > 0 && w.draw.Float64()*100 < w.api[kind] }

// refused is what the API server answers to any request instead, if it is drawn.
func (w *World) refused() error {
	if !w.hit("refuse") {
		return nil
	}
	w.Faults++
	return apierrors.NewServiceUnavailable("by order of a fault")
}

// errDead is what a process gets that is no more.
var errDead = errors.New("this process has crashed")

// effect counts what the controller does to the world, before and after it takes effect, and says whether it crashes there.
func (w *World) effect(r *replica, e *effect) bool {
	if !e.after {
		w.effects++
		e.number = w.effects
	}
	w.happen(*e)
	if at := slices.Index(w.crashes, crashPoint{e.number, e.after}); at >= 0 {
		w.crashes = slices.Delete(w.crashes, at, at+1)
		w.Crash()
	}
	return r.dead
}

// startReplica starts a process of the controller, which does not lead yet.
func (w *World) startReplica() error {
	w.replicas++
	r := &replica{name: fmt.Sprint(replicaPrefix, w.replicas), clock: simClock{w.loop, &queues{}}, held: map[string]time.Time{}, coming: map[schema.GroupVersionKind]bool{}}
	if w.copies > 1 {
		r.fence = operator.NewFence(r.clock.Now)
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	w.standby = append(w.standby, r)
	var err error
	if r.cache, err = kube.NewCache(w.server, operator.CacheOptions()); err != nil {
		return err
	}
	if err := r.cache.Start(r.ctx); err != nil {
		return err
	}
	live := w.server.Client(r.name)
	m := &simManager{
		loop: w.loop, clock: r.clock, cache: r.cache, live: live, scheme: w.scheme, mapper: w.server.RESTMapper(), log: logr.Discard(), elected: make(chan struct{}),
		client: control.NewFresh(w.server.CachedClient(r.name, r.cache), live, r.clock.Now),
		failed: func(err error) {
			if w.fatal == nil {
				w.fatal = err
			}
		},
	}
	options, err := operator.ParseOptions(operator.Source{Getenv: func(name string) string {
		return map[string]string{"CLUSTER_NAME": clusterName, "SYSTEM_NAMESPACE": "kube-system", "DISABLE_CLUSTER_STATE_OBSERVABILITY": "true", "INTERRUPTION_QUEUE": clusterName, "FEATURE_GATES": w.gates, "AWS_FEATURE_GATES": w.awsGates}[name]
	}}, awsplug.Plugin())
	if err != nil {
		return err
	}
	sdk := sdkaws.Config{
		Region: region, BaseEndpoint: sdkaws.String("http://aws.sim"), HTTPClient: &http.Client{Transport: transport{w, r}},
		Credentials: sdkaws.CredentialsProviderFunc(func(context.Context) (sdkaws.Credentials, error) {
			return sdkaws.Credentials{AccessKeyID: "sim", SecretAccessKey: "secret"}, nil
		}),
		Retryer: func() sdkaws.Retryer { return sdkaws.NopRetryer{} },
	}
	options.Cloud.(*awsplug.Cloud).Given(sdk, aws.Cluster{Name: clusterName, UID: "sim-uid", Endpoint: "https://sim.local", CABundle: "Y2E=", ServiceCIDR: "10.100.0.0/16", DNS: []string{"10.100.0.10"}, Version: "1.37"}, r.fence.Check)
	world := operator.World{Options: options, Manager: m, Paced: live, Version: "1.37", Clock: r.clock, Log: w.log, Events: nobody{}, Workers: w.workers}
	if err := operator.Assemble(r.ctx, world); err != nil {
		return err
	}
	w.loop.start(func() { w.deliver(r) })
	r.manager = m
	return m.Start(r.ctx)
}

// Crash ends the controller where it stands: what it does from now on has no effect.
func (w *World) Crash() {
	if r := w.replica; r != nil && !r.dead {
		w.crashed++
		w.note("crash of %s", r.name)
		w.end()
	}
}

// end ends the process that there is.
func (w *World) end() {
	if r := w.replica; r != nil && !r.dead {
		r.end()
		w.restart = w.loop.now.Add(restartAfter)
		if w.copies > 1 {
			w.restart = w.lease.until(w.loop.now)
		}
		w.loop.at(w.restart)
	}
}

// deliver brings what has changed to a replica's caches, each kind as late as is drawn for it.
func (w *World) deliver(r *replica) {
	for !r.dead {
		w.loop.await(wait.Forever, func() bool { return r.dead || w.behind(r) })
		for _, kind := range r.cache.Pending() {
			if r.dead {
				return
			}
			if w.stands(r, kind.Kind) {
				continue
			}
			r.coming[kind.Kind] = true
			w.loop.start(func() {
				w.loop.await(time.Duration(w.draw.Int64N(int64(w.lag))), func() bool { return r.dead })
				r.coming[kind.Kind] = false
				for range max(1, r.cache.Events(kind.Kind)) {
					if r.dead || w.stands(r, kind.Kind) {
						return
					}
					r.cache.Deliver(kind.Kind)
				}
			})
		}
	}
}

// Run lets so much time pass.
func (w *World) Run(d time.Duration) error {
	end := w.loop.now.Add(d)
	for w.fatal == nil {
		if w.dirty || w.loop.now.Sub(w.checked) >= checkEvery {
			w.dirty, w.checked = false, w.loop.now
			w.check()
		}
		if w.vacant() {
			if err := w.StartController(); err != nil {
				return err
			}
		}
		if w.loop.turn() {
			continue
		}
		if !w.loop.advance(end) {
			break
		}
	}
	return w.fatal
}

// Close ends everything that waits in the world, so that nothing of it is kept.
func (w *World) Close() {
	w.end()
	for _, r := range slices.Concat(w.standby, w.stale) {
		r.end()
	}
	if w.closed = true; w.fatal == nil {
		w.fatal = errClosed
	}
	defer w.loop.close()
	for end := w.loop.now.Add(time.Hour); len(w.loop.tasks) > 0; {
		if !w.loop.turn() && !w.loop.advance(end) {
			return
		}
	}
}

var errClosed = errors.New("this world has ended")

// nobody hears events.
type nobody struct{ record.EventRecorder }

// Event implements record.EventRecorder.
func (nobody) Event(runtime.Object, string, string, string) {}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// panics hands a log on, and looks in it for panics: the controller survives those, so that nothing else would tell.
type panics struct {
	slog.Handler
	w *World
}

// Enabled implements slog.Handler.
func (h panics) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h panics) Handle(ctx context.Context, r slog.Record) error {
	said := r.Message
	r.Attrs(func(a slog.Attr) bool {
		said += " " + a.Value.String()
		return true
	})
	if strings.Contains(said, "panic") {
		h.w.breached("S13", "%s", said)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h panics) WithAttrs(attrs []slog.Attr) slog.Handler {
	return panics{h.Handler.WithAttrs(attrs), h.w}
}

// WithGroup implements slog.Handler.
func (h panics) WithGroup(name string) slog.Handler { return panics{h.Handler.WithGroup(name), h.w} }
