package claim

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
)

const (
	// lifecycleWorkers is how many claims are worked on at once. A launch holds one worker per batch, and so does nothing else for
	// long, so a cloud that does not answer for fifty batches leaves half of them.
	lifecycleWorkers = 100
	// maxSteps bounds how many steps a claim takes in one go: all that there are, and some.
	maxSteps = 8
	// maxMessage is how much of an error a condition shows (L4), maxEvent how much an event may say (N10): as much as the API server takes.
	maxMessage = 300
	maxEvent   = 1024
)

// Reasons of events about claims and nodes.
const (
	eventClassNotReady = "NodeClassNotReady"
	eventTaintMissing  = "UnregisteredTaintMissing"
	eventStranger      = "ProviderIDMismatch"
	eventInitLate      = "InitializationTimeout"
)

// Why a claim is deleted, beside the deadlines of package life. The values are those of the metric label reason (O3).
const (
	causeNoCapacity    = "insufficient_capacity"
	causeClassNotReady = "nodeclass_not_ready"
	causeExpired       = "expired"
	causeCollected     = "garbage_collected"
)

// Health is told how the instances of pools fare (L14).
type Health interface {
	// Joined says that the claim's instance has become a node.
	Joined(claim *karpv1.NodeClaim)
	// Failed says that it has not in time. Reason and message are those of its last condition.
	Failed(claim *karpv1.NodeClaim, reason, message string)
}

// Hook is something that must be done before pods may use a node (C10).
type Hook interface {
	// Name is shown to users while the hook is pending.
	Name() string
	// Registered is asked until it is not pending any more. It may be asked again later and must not mind.
	Registered(ctx context.Context, claim *karpv1.NodeClaim) (HookAnswer, error)
}

// Opener decides when pods are let in on nodes that have joined.
type Opener interface {
	// Open opens a node with the function that it is given, or says how long the node is to stay closed still.
	Open(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, open func() error) (wait time.Duration, err error)
	// Opened is told of a node that was opened before it was ready, and is now.
	Opened(ctx context.Context, claim *karpv1.NodeClaim)
}

// Waiting knows which pods a claim was made for.
type Waiting interface {
	// NoCapacity tells the pods that are planned for a claim, and have no node yet, why it gets no instance (N10).
	NoCapacity(claim, message string)
}

// Overlays knows what NodeOverlays make of instance types for claims; state.Mirror does.
type Overlays interface {
	// Synced says whether the overlays are known.
	Synced() bool
	// Overlaid is what the claim may be launched as; ok is false if overlays change nothing about it.
	Overlaid(claim *karpv1.NodeClaim) (resources []string, list []*world.InstanceType, ok bool)
	// Extended is the room of an instance of the type with what overlays add to it.
	Extended(claim *karpv1.NodeClaim, instanceType string, capacity, allocatable corev1.ResourceList) (_, _ corev1.ResourceList)
}

// HookAnswer is what a hook says.
type HookAnswer struct {
	// Pending keeps the node from pods; After is when to ask again, one second if zero.
	Pending bool
	After   time.Duration
	// Labels are put on the claim and its node.
	Labels map[string]string
}

// Lifecycle brings claims to life: finalizer, launch, registration, initialization, and an end for those that do not get there
// in time. Its fields must be set before Register; those marked optional may be nil.
type Lifecycle struct {
	// Client reads from a cache, Live from the API server itself; Live is optional.
	Client   client.Client
	Live     client.Reader
	Launcher cloud.Launcher
	// InstanceID reads the instance's id out of a provider ID.
	InstanceID func(providerID string) (string, error)
	// Class is the kind of node class that this process serves.
	Class schema.GroupKind
	// Limits are the deadlines; the zero value stands for life.DefaultLimits.
	Limits life.Limits
	// Devices reads what device drivers publish, uncached; optional: without it devices are ignored (IGNORE_DRA_REQUESTS).
	Devices client.Reader
	// Hooks must all be done before a node is registered; optional.
	Hooks []Hook
	// Opener is optional; without it nodes are opened as soon as they have joined.
	Opener Opener
	// Health is optional.
	Health Health
	// Waiting is optional.
	Waiting Waiting
	// Overlays is optional; without it there are none.
	Overlays Overlays
	// Quota is what taking away nodes that did not become usable is paid from; optional.
	Quota *control.Quota
	// Wrote is told of every claim and node that was written, as the API server has it now; optional.
	Wrote    func(client.Object)
	Clock    control.Clock
	Recorder *control.Recorder
	Meter    *meter.Set
	Log      *slog.Logger
	// Ledger keeps what is launched, refused and given up; optional.
	Ledger *ledger.Ledger

	inFlight inFlight
	begin    sync.Once
	bell     control.Bell
}

// Wake has a claim looked at again at once.
func (r *Lifecycle) Wake(claim string) { r.bell.Ring(claim) }

// Register makes the manager run the reconciler on every change of a claim or its node.
func (r *Lifecycle) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodeclaim.lifecycle").
		For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, byNode(m.GetClient())).
		WatchesRawSource(r.bell.Source()).
		WithOptions(control.Workers(lifecycleWorkers, r.Clock)).
		Complete(r)
}

// Reconcile takes one claim as far as it goes now.
func (r *Lifecycle) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	r.start()
	claim := &karpv1.NodeClaim{}
	err := r.Client.Get(ctx, request.NamespacedName, claim, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) || err == nil && claim.Status.ProviderID != "" {
		r.inFlight.forget(request.Name)
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.Spec.NodeClassRef.Is(r.Class) {
		return reconcile.Result{}, nil
	}
	for i := range maxSteps {
		nodes, err := nodesOf(ctx, r.Client, claim)
		if err != nil {
			return reconcile.Result{}, err
		}
		step, err := r.next(ctx, claim, nodes)
		if err != nil {
			return reconcile.Result{}, err
		}
		if step.Do != life.Hold || step.Reason != "" || len(step.Strangers) > 0 {
			if i == 0 {
				claim = claim.DeepCopy()
			}
			for k := range nodes {
				nodes[k] = *nodes[k].DeepCopy()
			}
		}
		more, after, err := r.carryOut(ctx, &task{claim, nodes, step})
		if err != nil || !more {
			return reconcile.Result{RequeueAfter: after}, err
		}
	}
	return reconcile.Result{RequeueAfter: soon}, nil
}

// start notes since when the process has been at work.
func (r *Lifecycle) start() {
	r.begin.Do(func() {
		if r.Limits == (life.Limits{}) {
			r.Limits = life.DefaultLimits
		}
		r.Limits.Watching = r.Clock.Now()
	})
}

// handOver is how long after this process has begun what the one before it has launched at the latest shows in a list of all instances.
const handOver = time.Minute

// Ending is asked by whoever is about to let go of a claim that has no instance on record. It returns the instance that the claim has
// been given all the same, or else from when on a list of all instances is proof that there is none. Nothing is launched for the
// claim afterwards. ok is false while its batch is being launched: what comes of that has to be waited for.
func (r *Lifecycle) Ending(claim *karpv1.NodeClaim) (in *cloud.Instance, from time.Time, ok bool) {
	r.start()
	in, from, ok = r.inFlight.end(claim)
	if earlier := r.Limits.Watching.Add(handOver); from.Before(earlier) && claim.CreationTimestamp.Time.Before(r.Limits.Watching) {
		from = earlier
	}
	return in, from, ok
}

// task is a step with what it is about.
type task struct {
	claim *karpv1.NodeClaim
	nodes []corev1.Node
	step  life.Step
}

// node is the node that the step is about.
func (t *task) node() *corev1.Node {
	for i := range t.nodes {
		if t.nodes[i].Name == t.step.Node {
			return &t.nodes[i]
		}
	}
	return nil
}

// next asks the engine.
func (r *Lifecycle) next(ctx context.Context, claim *karpv1.NodeClaim, nodes []corev1.Node) (life.Step, error) {
	known := facts(claim, r.Devices != nil)
	var list []life.Node
	for i := range nodes {
		var drivers []string
		if len(known.Drivers) > 0 && known.Registered.Status == life.True && known.Initialized.Status != life.True {
			var err error
			if drivers, err = r.published(ctx, nodes[i].Name); err != nil {
				return life.Step{}, err
			}
		}
		list = append(list, nodeFacts(&nodes[i], drivers))
	}
	return life.Next(known, list, r.Limits, r.Clock.Now()), nil
}

// carryOut does one step. more says that the next one can follow at once.
func (r *Lifecycle) carryOut(ctx context.Context, t *task) (more bool, after time.Duration, err error) {
	for _, name := range t.step.Strangers {
		r.Recorder.Tell(control.Event{
			Object: t.claim, Warning: true, Reason: eventStranger, Every: time.Hour,
			Message: fmt.Sprintf("Node %s carries the provider ID of this claim's instance but cannot be its node; it is left alone", name),
		})
	}
	switch t.step.Do {
	case life.AddFinalizer:
		before := t.claim.DeepCopy()
		controllerutil.AddFinalizer(t.claim, karpv1.TerminationFinalizer)
		more, err = control.Patch(ctx, r.Client, t.claim, before)
		return more, soon, err
	case life.Launch:
		return r.launch(ctx, t.claim, t.step.After)
	case life.Register:
		return r.register(ctx, t)
	case life.Initialize:
		return r.initialize(ctx, t)
	case life.GiveUp:
		if t.step.Of == life.Launched && r.inFlight.instance(t.claim.UID) != nil {
			return r.launch(ctx, t.claim, 0) // it has an instance, it only is not on record yet
		}
		after, err = r.giveUp(ctx, t)
		return false, after, err
	}
	if r.Opener != nil && t.step.Of == life.Initialized && t.step.Reason == life.KnownEphemeralTaintsExist {
		r.Opener.Opened(ctx, t.claim) // it is ready, and Kubernetes is about to take the last taint away
	}
	after = t.step.After
	if t.step.Reason == life.DRADriverPoolsNotPublished && (after == 0 || after > devicesWait) {
		after = devicesWait // nothing watches devices
	}
	if wait := r.settling(t); wait > 0 {
		return false, wait, nil
	}
	return false, after, r.note(ctx, t.claim, t.step)
}

// settling is how long it is too early to say what a node lacks: kubelets, drivers and cloud controllers take a moment, and what
// is written down only to be overtaken costs the API server as much as what lasts.
func (r *Lifecycle) settling(t *task) time.Duration {
	registered := t.claim.StatusConditions().Get(karpv1.ConditionRegistered)
	if t.step.Of != life.Initialized || registered.Status != metav1.ConditionTrue {
		return 0
	}
	return incomplete - r.Clock.Since(registered.LastTransitionTime.Time)
}

// note writes what a claim waits for.
func (r *Lifecycle) note(ctx context.Context, claim *karpv1.NodeClaim, step life.Step) error {
	if step.Reason == "" {
		return nil
	}
	status := metav1.ConditionUnknown
	if step.Status == life.False {
		status = metav1.ConditionFalse
	}
	_, err := r.status(ctx, claim, func(now time.Time) {
		claim.StatusConditions().Set(karpv1.Condition{Type: string(step.Of), Status: status, Reason: step.Reason, Message: step.Message}, now)
	})
	return err
}

// status changes and writes the status of a claim. written is false if there was nothing to write or somebody else was faster.
func (r *Lifecycle) status(ctx context.Context, claim *karpv1.NodeClaim, change func(now time.Time)) (written bool, err error) {
	before, now := claim.DeepCopy(), r.Clock.Now()
	change(now)
	if claim.Status.ProviderID != "" {
		claim.StatusConditions().SetTrue(karpv1.ConditionLaunched, now)
	}
	written, err = control.PatchStatus(ctx, r.Client, claim, before)
	if written && r.Wrote != nil {
		r.Wrote(claim)
	}
	return written, err
}

// giveUp deletes a claim whose deadline has passed, so that its pods get another one.
func (r *Lifecycle) giveUp(ctx context.Context, t *task) (after time.Duration, err error) {
	claim, cause := t.claim, t.step.Cause
	last := claim.StatusConditions().Get(string(t.step.Of))
	reason, message := last.Reason, last.Message
	if t.step.Reason != "" {
		reason, message = t.step.Reason, t.step.Message
	}
	if cause == life.InitializationTimeout {
		paid, err := r.pay(ctx)
		if err != nil {
			return 0, err
		}
		then := "; replacing it"
		if !paid {
			then = "; not replaced yet, because a tenth of the fleet has been replaced within ten minutes"
		}
		r.Recorder.Tell(control.Event{Object: claim, Warning: true, Reason: eventInitLate, Message: "The node did not become usable in time: " + message + then})
		if !paid {
			return time.Minute, nil
		}
	}
	removed, err := r.remove(ctx, claim, cause, message)
	if removed {
		r.Ledger.Removed(claim, ledger.Removal, cause, gaveUp(t.step.Of)+": "+message)
	}
	if removed && r.Health != nil {
		if cause == life.RegistrationTimeout {
			reason = karpv1.ReasonRegistrationFailed
		}
		r.Health.Failed(claim, reason, message)
	}
	return soon, err
}

// pay takes one instance's worth out of the quota.
func (r *Lifecycle) pay(ctx context.Context) (bool, error) {
	if r.Quota == nil {
		return true, nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims); err != nil {
		return false, fmt.Errorf("counting claims: %w", err)
	}
	return r.Quota.Take(len(claims.Items)), nil
}

// remove deletes a claim and counts and logs it.
func (r *Lifecycle) remove(ctx context.Context, claim *karpv1.NodeClaim, cause, message string) (removed bool, err error) {
	removed, err = control.DeleteSeen(ctx, r.Client, claim)
	if removed {
		control.Counter{Client: r.Client, Meter: r.Meter}.Disrupted(ctx, claim, cause)
		control.Logger(ctx, r.Log).Info("deleted nodeclaim", "NodeClaim", claim.Name, "NodePool", claim.Labels[karpv1.NodePoolLabelKey], "Node", claim.Status.NodeName,
			"provider-id", claim.Status.ProviderID, "reason", cause, "message", message)
	}
	return removed, err
}
