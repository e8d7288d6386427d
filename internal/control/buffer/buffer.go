package buffer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	"karpenter/internal/control"
	"karpenter/internal/control/provision"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

const (
	// name is the controller's name in logs and metrics.
	name = "capacitybuffer"
	// pollEvery is how often kinds are looked at that are not watched (P3).
	pollEvery = 30 * time.Second
	// A watch of a kind takes a moment to begin, and does not show what was deleted before. So for youngFor the buffers that name a kind
	// are looked at every youngEvery besides.
	youngFor   = 30 * time.Second
	youngEvery = 5 * time.Second
	// workers is how many buffers are resolved at once.
	workers = 4
)

// Mirror is what decisions are made from; state.Mirror is one.
type Mirror interface {
	Put(obj state.Object)
	Drop(obj state.Object)
}

// Reconciler resolves buffers.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server itself.
	Live   client.Reader
	Mirror Mirror
	// Wake is called when what a buffer asks for has changed: pods may need nodes, or nodes may be removed (N11).
	Wake  func(buffer types.UID)
	Clock control.Clock
	Meter *meter.Set
	Log   *slog.Logger

	bell       control.Bell
	manager    manager.Manager
	controller controller.Controller

	mu sync.Mutex
	// shown is what the mirror has, by buffer; fared how buffers fare in the last plan, by namespace/name.
	shown   map[types.NamespacedName]*corev1.Pod
	fared   map[string]provision.Fared
	watched map[schema.GroupVersionKind]time.Time // since when
}

// Register makes the manager run the reconciler, on every replica.
func (r *Reconciler) Register(m manager.Manager) error {
	options := control.Workers(workers, r.Clock)
	options.NeedLeaderElection = new(false)
	c, err := builder.ControllerManagedBy(m).Named(name).For(&bufferv1.CapacityBuffer{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(r.bell.Source()).WithOptions(options).Build(r)
	if err != nil {
		return err
	}
	r.manager, r.controller = m, c
	return m.Add(manager.RunnableFunc(r.elected))
}

// elected has every buffer looked at once this process may write.
func (r *Reconciler) elected(ctx context.Context) error {
	list := &bufferv1.CapacityBufferList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil // the cache answers this; it cannot fail once it has synced
	}
	for i := range list.Items {
		r.bell.RingIn(list.Items[i].Namespace, list.Items[i].Name)
	}
	return nil
}

// leads says whether this process may write.
func (r *Reconciler) leads() bool {
	if r.manager == nil {
		return true
	}
	select {
	case <-r.manager.Elected():
		return true
	default:
		return false
	}
}

// Hydrate shows the mirror every buffer, before anything is decided: a node that holds spare pods must not be taken for an empty one.
func (r *Reconciler) Hydrate(ctx context.Context) error {
	list := &bufferv1.CapacityBufferList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing buffers: %w", err)
	}
	var errs []error
	for i := range list.Items {
		_, _, err := r.look(ctx, &list.Items[i])
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Reconcile resolves a buffer and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	b := &bufferv1.CapacityBuffer{}
	err := r.Client.Get(ctx, request.NamespacedName, b)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err != nil || b.DeletionTimestamp != nil || b.Strategy() != bufferv1.ActiveCapacity {
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	f, s, err := r.look(ctx, b)
	if err != nil {
		return reconcile.Result{}, err
	}
	result := reconcile.Result{}
	switch {
	case f != nil && f.polled:
		result.RequeueAfter = pollEvery
	case f != nil && r.young(f.kind):
		result.RequeueAfter = youngEvery
	}
	if !r.leads() {
		return result, nil
	}
	before := b.DeepCopy()
	r.write(b, f, s)
	_, err = control.PatchStatus(ctx, r.Client, b, before)
	return result, err
}

// standing is what a buffer comes to: so many spare pods, or why it cannot be resolved.
type standing struct {
	replicas int32
	failure  *unresolved
}

// look resolves a buffer and shows the mirror what it comes to. An error is that of the API server, and changes nothing.
func (r *Reconciler) look(ctx context.Context, b *bufferv1.CapacityBuffer) (*found, standing, error) {
	f, err := r.resolve(ctx, b)
	if f != nil && !f.polled {
		r.follow(f.kind)
	}
	var s standing
	if err == nil {
		if s.replicas, err = state.BufferReplicas(b, f.shape); err != nil {
			err = failed("%s", err)
		}
	}
	if err != nil && !errors.As(err, &s.failure) {
		return f, s, fmt.Errorf("resolving CapacityBuffer %s: %w", client.ObjectKeyFromObject(b), err)
	}
	var pod *corev1.Pod
	if s.failure == nil && s.replicas > 0 {
		pod = state.BufferPod(b, f.shape.Template, s.replicas)
	}
	r.show(client.ObjectKeyFromObject(b), pod)
	return f, s, nil
}

// show has the mirror show a buffer's spare pods, nil for none, and wakes whoever decides if that is news.
func (r *Reconciler) show(key types.NamespacedName, pod *corev1.Pod) {
	r.mu.Lock()
	was := r.shown[key]
	if equality.Semantic.DeepEqual(was, pod) {
		r.mu.Unlock()
		return
	}
	if r.shown == nil {
		r.shown, r.fared = map[types.NamespacedName]*corev1.Pod{}, map[string]provision.Fared{}
	}
	if pod == nil {
		delete(r.shown, key)
		delete(r.fared, key.String())
		r.Mirror.Drop(was)
	} else {
		r.shown[key] = pod
		r.Mirror.Put(pod)
	}
	r.mu.Unlock()
	if r.Wake != nil {
		r.Wake(types.UID("capacity-buffer/" + key.String()))
	}
}

// forget ends what is known of a buffer.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.show(key, nil)
	r.Meter.Drop(meter.BufferSparePods, "namespace", key.Namespace, "name", key.Name)
}

// follow watches a kind from now on.
func (r *Reconciler) follow(kind schema.GroupVersionKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.watched[kind].IsZero() || r.controller == nil {
		return
	}
	if r.watched == nil {
		r.watched = map[schema.GroupVersionKind]time.Time{}
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	watch := source.Kind[client.Object](r.manager.GetCache(), obj, handler.EnqueueRequestsFromMapFunc(r.usersOf(kind)), predicate.GenerationChangedPredicate{})
	if err := r.controller.Watch(watch); err != nil {
		r.Log.Error("could not watch a kind that buffers name", "kind", kind.Kind, "error", err)
		return
	}
	r.watched[kind] = r.Clock.Now()
}

// young says whether the watch of a kind may not show everything yet.
func (r *Reconciler) young(kind schema.GroupVersionKind) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Clock.Now().Sub(r.watched[kind]) < youngFor
}

// usersOf finds the buffers that name an object of a kind.
func (r *Reconciler) usersOf(kind schema.GroupVersionKind) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) (out []reconcile.Request) {
		list := &bufferv1.CapacityBufferList{}
		if err := r.Client.List(ctx, list, client.InNamespace(obj.GetNamespace())); err != nil {
			return nil // the cache answers this; it cannot fail once it has synced
		}
		for i := range list.Items {
			b := &list.Items[i]
			if names(b, kind, obj.GetName()) {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
			}
		}
		return out
	}
}

// names says whether a buffer names an object of a kind.
func names(b *bufferv1.CapacityBuffer, kind schema.GroupVersionKind, name string) bool {
	if ref := b.Spec.PodTemplateRef; ref != nil && kind == podTemplates {
		return ref.Name == name
	}
	ref := b.Spec.ScalableRef
	if ref == nil || ref.Name != name {
		return false
	}
	w := known(ref)
	return w != nil && w.kind == kind
}

// Fare takes note of how buffers fare in a plan. Those of which that is news are written.
func (r *Reconciler) Fare(list []provision.Fared) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range list {
		space, name, _ := cutKey(f.Buffer)
		if r.shown[types.NamespacedName{Namespace: space, Name: name}] == nil {
			continue
		}
		if was, ok := r.fared[f.Buffer]; ok && equality.Semantic.DeepEqual(was, f) {
			continue
		}
		r.fared[f.Buffer] = f
		for state, n := range map[string]int{"fits": f.Fits, "launching": f.New, "refused": f.Refused} {
			r.Meter.Set(meter.BufferSparePods, float64(n), "namespace", space, "name", name, "state", state)
		}
		r.bell.RingIn(space, name)
	}
}
