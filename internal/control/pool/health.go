package pool

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
)

// Health remembers how the last instances of each pool fared, says so on the pool (L14), and holds back pools whose instances do
// not join: each failure in a row doubles the damage of the next launch, and somebody should look first.
type Health struct {
	Client client.Client
	// Class is the kind of node class that this process serves.
	Class schema.GroupKind
	Clock control.Clock

	mu    sync.Mutex
	pools map[string]*health
	bell  control.Bell
}

// chance is what instances are made from: whenever it is another, the pool starts afresh.
type chance struct {
	uid         types.UID
	spec, class int64
	// answered is when the class last became ready or ceased to be: what the cloud allows, or has, may have changed.
	answered time.Time
	// retry is what somebody has written on the pool to have it try again.
	retry string
}

func chanceOf(pool *karpv1.NodePool) chance {
	c := chance{uid: pool.UID, spec: pool.Generation, class: pool.Status.NodeClassObservedGeneration, retry: pool.Annotations[karpv1.RetryAnnotationKey]}
	if ready := pool.StatusConditions().Get(karpv1.ConditionNodeClassReady); ready != nil {
		c.answered = ready.LastTransitionTime.Time
	}
	return c
}

// health is what is remembered of one pool.
type health struct {
	chance
	ring            life.Ring
	last            time.Time
	reason, message string
}

// NewHealth remembers nothing yet.
func NewHealth(c client.Client, class schema.GroupKind, clock control.Clock) *Health {
	return &Health{Client: c, Class: class, Clock: clock, pools: map[string]*health{}}
}

// Register makes the manager write what is found on changes of pools and on news.
func (r *Health) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodepool.registrationhealth").For(&karpv1.NodePool{}).WatchesRawSource(r.bell.Source()).
		WithOptions(control.Workers(0, r.Clock)).Complete(r)
}

// Joined notes that the claim's instance has become a node.
func (r *Health) Joined(claim *karpv1.NodeClaim) { r.note(claim, true, "", "") }

// Failed notes that it has not in time, and why.
func (r *Health) Failed(claim *karpv1.NodeClaim, reason, message string) {
	if reason == "" {
		reason = karpv1.ReasonRegistrationFailed
	}
	r.note(claim, false, reason, message)
}

func (r *Health) note(claim *karpv1.NodeClaim, joined bool, reason, message string) {
	name := claim.Labels[karpv1.NodePoolLabelKey]
	r.mu.Lock()
	h := r.pools[name]
	if h == nil || !owned(claim, h.uid) {
		r.mu.Unlock()
		return // not seen yet, or the claim is of an earlier pool of that name
	}
	h.last = r.Clock.Now()
	if joined {
		h.ring.Joined()
	} else {
		h.ring.Failed(claim.CreationTimestamp.Time, h.last)
		h.reason, h.message = reason, message
	}
	r.mu.Unlock()
	r.bell.Ring(name)
}

func owned(claim *karpv1.NodeClaim, pool types.UID) bool {
	for _, owner := range claim.OwnerReferences {
		if owner.UID == pool {
			return true
		}
	}
	return false
}

// Paused says until when no node is to be made for the pool, and why.
func (r *Health) Paused(pool string) (until time.Time, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.pools[pool]
	if h == nil {
		return time.Time{}, ""
	}
	until = h.last.Add(h.ring.Pause())
	if !r.Clock.Now().Before(until) {
		return time.Time{}, ""
	}
	return until, fmt.Sprintf("its last instances did not join the cluster (%s: %s); trying again at %s, or once the pool, its class or the pool's annotation %s changes",
		h.reason, h.message, until.UTC().Format(time.RFC3339), karpv1.RetryAnnotationKey)
}

// Reconcile writes the verdict on one pool.
func (r *Health) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pool := &karpv1.NodePool{}
	if err := r.Client.Get(ctx, request.NamespacedName, pool); err != nil {
		r.forget(request.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mine(pool, r.Class) {
		return reconcile.Result{}, nil
	}
	verdict, reason, message := r.verdict(pool)
	before := pool.DeepCopy()
	conditions, now := pool.StatusConditions(), r.Clock.Now()
	switch verdict {
	case life.True:
		conditions.SetTrue(karpv1.ConditionNodeRegistrationHealthy, now)
	case life.False:
		conditions.SetFalse(karpv1.ConditionNodeRegistrationHealthy, reason, message, now)
	default:
		conditions.SetUnknown(karpv1.ConditionNodeRegistrationHealthy, karpv1.ReasonAwaitingReconciliation, "no instance of the pool, as it is now, has joined or failed yet", now)
	}
	_, err := control.PatchStatus(ctx, r.Client, pool, before)
	return reconcile.Result{}, err
}

// verdict brings what is remembered up to the pool as it is now, and judges it.
func (r *Health) verdict(pool *karpv1.NodePool) (life.Status, string, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.pools[pool.Name]
	fresh := health{chance: chanceOf(pool)}
	switch {
	case h == nil: // after a restart, what was on record goes on
		h = &fresh
		if was := pool.StatusConditions().Get(karpv1.ConditionNodeRegistrationHealthy); was != nil && was.ObservedGeneration == pool.Generation {
			h.ring = life.SeedRing(status(was.Status))
			h.last, h.reason, h.message = was.LastTransitionTime.Time, was.Reason, was.Message
		}
	case h.chance != fresh.chance:
		h = &fresh
	}
	r.pools[pool.Name] = h
	return h.ring.Verdict(), h.reason, h.message
}

func status(s metav1.ConditionStatus) life.Status {
	switch s {
	case metav1.ConditionTrue:
		return life.True
	case metav1.ConditionFalse:
		return life.False
	}
	return life.Unknown
}

func (r *Health) forget(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pools, pool)
}
