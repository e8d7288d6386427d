package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/control"
	"karpenter/internal/control/claim"
	"karpenter/internal/control/drain"
	"karpenter/internal/engine/world"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/internal/state/trim"
	"karpenter/internal/wait"
)

// How often what AWS has is looked up. Spot prices move within hours, and a stale one sends pods to the wrong capacity type; what
// types exist and what they cost on demand changes a few times a year.
const (
	typesEvery    = 12 * time.Hour
	onDemandEvery = 12 * time.Hour
	spotEvery     = 10 * time.Minute
	shiftsEvery   = 30 * time.Second
)

// cacheOptions keeps in memory only what is read.
func cacheOptions() cache.Options { return cache.Options{DefaultTransform: trim.Object} }

// Fields that claims and pools are indexed by (O59), besides those of the packages that need them.
const (
	fieldClassGroup = "nodeClassRef.group"
	fieldClassKind  = "nodeClassRef.kind"
	fieldClassName  = "nodeClassRef.name"
)

// indexes adds the field indexes that reconcilers ask the cache by (O59).
func (w *wiring) indexes(ctx context.Context) error {
	indexer := w.m.GetFieldIndexer()
	if err := drain.Index(ctx, indexer); err != nil {
		return err
	}
	if err := claim.Index(ctx, indexer); err != nil {
		return err
	}
	for _, kind := range []struct {
		object client.Object
		prefix string
		ref    func(client.Object) *karpv1.NodeClassReference
	}{
		{&karpv1.NodeClaim{}, "spec.", func(o client.Object) *karpv1.NodeClassReference { return o.(*karpv1.NodeClaim).Spec.NodeClassRef }},
		{&karpv1.NodePool{}, "spec.template.spec.", func(o client.Object) *karpv1.NodeClassReference {
			return o.(*karpv1.NodePool).Spec.Template.Spec.NodeClassRef
		}},
	} {
		for field, value := range map[string]func(*karpv1.NodeClassReference) string{
			fieldClassGroup: func(r *karpv1.NodeClassReference) string { return r.Group },
			fieldClassKind:  func(r *karpv1.NodeClassReference) string { return r.Kind },
			fieldClassName:  func(r *karpv1.NodeClassReference) string { return r.Name },
		} {
			err := indexer.IndexField(ctx, kind.object, kind.prefix+field, func(o client.Object) []string {
				if ref := kind.ref(o); ref != nil {
					return []string{value(ref)}
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("indexing %T by %s: %w", kind.object, kind.prefix+field, err)
			}
		}
	}
	return nil
}

// poolsOf are the pools that name a class, as the cache shows them; none while it does not.
func (w *wiring) poolsOf(ctx context.Context, class string) (out []*karpv1.NodePool) {
	list := &karpv1.NodePoolList{}
	if err := w.m.GetClient().List(ctx, list); err != nil {
		return nil // the trial goes on with any type that the class can use
	}
	for i := range list.Items {
		ref := list.Items[i].Spec.Template.Spec.NodeClassRef
		if ref != nil && ref.Group == served.Group && ref.Kind == served.Kind && ref.Name == class {
			out = append(out, &list.Items[i])
		}
	}
	return out
}

// cloud makes the provider and keeps what it knows of AWS current, on every replica: one that takes over knows it already. AWS is
// asked for the first time while the caches fill.
func (w *wiring) cloud(ctx context.Context) error {
	w.classes = &classes{}
	if err := w.classes.follow(ctx, w.m.GetCache()); err != nil {
		return err
	}
	options := w.awsOptions(w.clients, w.cluster)
	options.Class, options.Meter = w.classes.Get, w.set
	options.Pools = func(class string) []*karpv1.NodePool { return w.poolsOf(ctx, class) }
	w.provider = aws.New(options)
	for _, refresh := range []struct {
		name  string
		every time.Duration
		do    func(context.Context) error
		first bool // before anything can be decided
	}{
		{"providers.instancetype", typesEvery, w.provider.RefreshTypes, true},
		{"providers.pricing.ondemand", onDemandEvery, w.provider.RefreshOnDemand, false}, // there is a list in the binary
		{"providers.pricing.spot", spotEvery, w.provider.RefreshSpot, true},
		{"zonalshift", shiftsEvery, func(ctx context.Context) error {
			_, err := w.provider.RefreshShifts(ctx)
			return err
		}, true},
	} {
		if refresh.name == "zonalshift" && !w.options.EnableZonalShift {
			continue
		}
		do := refresh.do
		if refresh.first {
			again, first := headStart(ctx, w.clock, do)
			do, w.asked = again, append(w.asked, first)
		}
		loop := &control.Loop{Name: refresh.name, Clock: w.clock, Log: w.log.With("controller", refresh.name), Do: func(ctx context.Context) (time.Duration, error) {
			if err := do(ctx); err != nil {
				return 0, err
			}
			w.provisioner.Batch.Remind(types.UID(refresh.name)) // pods that wait are planned for with what is known now
			return refresh.every, nil
		}}
		if err := w.m.Add(everywhere{w.dog.Guard(loop)}); err != nil {
			return fmt.Errorf("%s: %w", refresh.name, err)
		}
	}
	return nil
}

// headStart does something at once, in the background. The first call of again waits for that and returns its error, later ones do it
// again; first is closed when it has been done for the first time, with or without success.
func headStart(ctx context.Context, clock control.Clock, do func(context.Context) error) (again func(context.Context) error, first <-chan struct{}) {
	done := make(chan struct{})
	var err error
	wait.Go(clock, func() {
		defer close(done)
		err = do(ctx)
	})
	waited := false
	return func(ctx context.Context) error {
		if waited {
			return do(ctx)
		}
		waited = true
		if _, ok := wait.Receive(ctx, clock, wait.Forever, done); !ok {
			return context.Cause(ctx)
		}
		return err
	}, done
}

func (p *process) awsOptions(clients aws.Clients, cluster aws.Cluster) aws.Options {
	o := p.options
	return aws.Options{
		Clients: clients, Clock: p.clock, Region: p.sdk.Region, Cluster: cluster,
		MemoryOverhead: o.VMMemoryOverheadPercent, ReservedENIs: o.ReservedENIs, ReservedCapacity: o.Gates.ReservedCapacity,
		RebootForRepair: o.AWSGates.RebootForRepair, KubeletExpressions: o.AWSGates.NodeClassCEL, DisableDryRun: o.DisableDryRun, IsolatedVPC: o.IsolatedVPC, ZonalShift: o.EnableZonalShift,
	}
}

// everywhere is a loop that also runs in processes that do not lead.
type everywhere struct{ *control.Loop }

// NeedLeaderElection tells controller-runtime that every replica runs it.
func (everywhere) NeedLeaderElection() bool { return false }

// calmer looks at a class that is ready no more often than the settings say.
type calmer struct {
	*aws.Provider
	options *Options
}

// Reconcile implements class.Resolver.
func (c calmer) Reconcile(ctx context.Context, class *awsv1.EC2NodeClass) time.Duration {
	again := c.Provider.Reconcile(ctx, class)
	if class.StatusConditions(c.options.Gates.ReservedCapacity).Root().Status != "True" {
		return again
	}
	return max(again, min(c.options.AMIRefreshInterval, c.options.SubnetRefreshInterval, c.options.SecurityGroupRefreshInterval))
}

// reading says how objects are read.
func (w *wiring) reading() state.Options {
	return state.Options{
		Aliases:             map[string]string{awsv1.LabelCSIZone: corev1.LabelTopologyZone},
		ProviderDomains:     []string{awsv1.Group, "topology.k8s.aws"},
		Class:               served,
		DefaultSpread:       w.options.DefaultSpread,
		AllowResourceClaims: !w.options.IgnoreDRARequests,
		OwnDeletionCosts:    w.options.Gates.PodDeletionCostManagement,
		NodeOverlays:        w.options.Gates.NodeOverlay,
	}
}

// state makes the mirror of the cluster and feeds it.
func (w *wiring) state(ctx context.Context) error {
	w.mirror = state.NewMirror(state.MirrorOptions{
		Options: w.reading(),
		Types:   w.types, Resources: aws.Resources(), Now: w.clock.Now,
	})
	var fed []toolscache.InformerSynced
	for _, kind := range w.mirror.Kinds() {
		object, ok := kind.(client.Object)
		if !ok {
			return fmt.Errorf("%T cannot be watched", kind)
		}
		informer, err := w.m.GetCache().GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		registration, err := informer.AddEventHandler(w.mirror.Handler())
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		fed = append(fed, registration.HasSynced)
	}
	begin := w.clock.Now()
	return w.m.Add(filling(func(ctx context.Context) error { return w.awaitFed(ctx, begin, fed) }))
}

// filling waits, on every replica, until the mirror has been filled.
type filling func(context.Context) error

// Start implements manager.Runnable.
func (f filling) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection tells controller-runtime that every replica runs it.
func (filling) NeedLeaderElection() bool { return false }

// cloudPatience is how long the first decision waits for AWS's answers about types and prices. If there are none, pods are told so.
const cloudPatience = 10 * time.Second

// awaitFed marks the mirror as filled once every informer has delivered its first list, and AWS has been asked what it sells.
func (w *wiring) awaitFed(ctx context.Context, begin time.Time, fed []toolscache.InformerSynced) error {
	if !w.m.GetCache().WaitForCacheSync(ctx) || !toolscache.WaitForCacheSync(ctx.Done(), fed...) {
		if ctx.Err() != nil {
			return nil
		}
		return errors.New("the caches did not fill")
	}
	for _, first := range w.asked {
		wait.Receive(ctx, w.clock, max(0, cloudPatience-w.clock.Since(begin)), first)
	}
	if ctx.Err() != nil {
		return nil
	}
	w.hydrateBuffers(ctx)
	w.mirror.SetSynced()
	w.set.Set(meter.ClusterStateSynced, 1)
	w.ready.done(partCaches)
	w.log.Info("caches are filled", "duration", w.clock.Since(begin))
	return nil
}

// types is what a class can launch, in the form that the mirror takes.
func (w *wiring) types(class string) ([]string, []*world.InstanceType, uint64, error) {
	found, err := w.provider.TypesWith(state.SplitClass(class))
	if err != nil {
		return nil, nil, 0, err
	}
	return found.Resources, found.List, found.Version, nil
}
