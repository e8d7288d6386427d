package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/plug"
	"karpenter/internal/control"
	"karpenter/internal/control/claim"
	"karpenter/internal/control/drain"
	"karpenter/internal/engine/world"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/internal/state/trim"
	"karpenter/internal/wait"
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

// provider makes the provider and keeps what it knows of its cloud current, on every replica: one that takes over knows it already.
// The cloud is asked for the first time while the caches fill.
func (w *wiring) provider(ctx context.Context) (err error) {
	parts := plug.Parts{Process: w.forCloud(w.kube), Manager: w.m, Recorder: w.recorder, Quota: w.quota, Ledger: w.ledger}
	if w.cloud, err = w.options.Cloud.Wire(ctx, parts); err != nil {
		return err
	}
	for _, refresh := range w.cloud.Refreshes {
		do := refresh.Do
		if refresh.First {
			again, first := headStart(ctx, w.clock, do)
			do, w.asked = again, append(w.asked, first)
		}
		loop := &control.Loop{Name: refresh.Name, Clock: w.clock, Log: w.log.With("controller", refresh.Name), Do: func(ctx context.Context) (time.Duration, error) {
			if err := do(ctx); err != nil {
				return 0, err
			}
			w.provisioner.Batch.Remind(types.UID(refresh.Name)) // pods that wait are planned for with what is known now
			return refresh.Every, nil
		}}
		if err := w.m.Add(everywhere{w.dog.Guard(loop)}); err != nil {
			return fmt.Errorf("%s: %w", refresh.Name, err)
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

// everywhere is a loop that also runs in processes that do not lead.
type everywhere struct{ *control.Loop }

// NeedLeaderElection tells controller-runtime that every replica runs it.
func (everywhere) NeedLeaderElection() bool { return false }

// reading says how objects are read.
func (w *wiring) reading() state.Options {
	return state.Options{
		Aliases:             w.options.Kind.Aliases,
		ProviderDomains:     w.options.Kind.Domains,
		Class:               w.served(),
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
		Types:   w.types, Resources: w.cloud.Resources, Now: w.clock.Now,
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

// cloudPatience is how long the first decision waits for the cloud's answers about types and prices. If there are none, pods are told so.
const cloudPatience = 10 * time.Second

// awaitFed marks the mirror as filled once every informer has delivered its first list, and the cloud has been asked what it sells.
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
	name, kubelet := state.SplitClass(class)
	ask := w.cloud.Provider.Types
	if with, ok := w.cloud.Provider.(cloud.KubeletCatalogue); ok {
		ask = func(class string) (*cloud.Types, error) { return with.TypesWith(class, kubelet) }
	}
	found, err := ask(name)
	if err != nil {
		return nil, nil, 0, err
	}
	return found.Resources, found.List, found.Version, nil
}
