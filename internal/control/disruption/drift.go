package disruption

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/meter"
)

const (
	// judgeEvery is how often a claim is held against its pool and class although nothing is known to have changed (D43).
	judgeEvery = 5 * time.Minute
	// typesEvery is how often the list of types is searched for a claim's, and typesFrom the age from which it is (D46): lists that
	// clouds give out are at times incomplete.
	typesEvery = 30 * time.Minute
	typesFrom  = time.Hour
)

// Judge says how an instance differs from what its class describes; cloud.Judge is one.
type Judge interface {
	Drifted(ctx context.Context, claim *karpv1.NodeClaim) (reason string, err error)
}

// Drift says of each claim whether it is still what its pool and class ask for (D43). What cannot be found out changes nothing.
type Drift struct {
	Client client.Client
	Judge  Judge
	// Types lists what a class can launch, types that are out of stock included.
	Types func(class string) (*cloud.Types, error)
	// Class is the kind of node class that this process serves, ClassObject an object of it.
	Class       schema.GroupKind
	ClassObject client.Object
	// Rules say which spellings of label keys mean the same.
	Rules karpv1.LabelRules
	Clock control.Clock
	Meter *meter.Set
	Log   *slog.Logger

	searched sync.Map // name of a claim to search
}

// search is what a search for a claim's type came to.
type search struct {
	at   time.Time
	gone string
}

// Register makes the manager judge claims when they have been launched, when their pool or class changes, and now and then.
func (r *Drift) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclaim.drift").For(&karpv1.NodeClaim{}, builder.WithPredicates(rejudged())).
		Watches(&karpv1.NodePool{}, ofPool(m.GetClient()), builder.WithPredicates(respecified())).
		Watches(r.ClassObject, ofClass(m.GetClient(), r.Class)).
		WithOptions(control.Workers(judges, r.Clock)).Complete(r)
}

// rejudged lets claims through that are new to us, that have just been launched, or whose labels or annotations have changed.
func rejudged() predicate.Predicate {
	other := respecified()
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*karpv1.NodeClaim)
			now, okNow := e.ObjectNew.(*karpv1.NodeClaim)
			if !okBefore || !okNow {
				return false
			}
			return other.Update(e) || before.Status.ProviderID != now.Status.ProviderID ||
				before.Status.ImageID != now.Status.ImageID || !maps.Equal(before.Labels, now.Labels)
		},
	}
}

// Reconcile judges one claim.
func (r *Drift) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, request.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		r.searched.Delete(request.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.Spec.NodeClassRef.Is(r.Class) || !claim.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if !claim.StatusConditions().IsTrue(karpv1.ConditionLaunched) {
		return reconcile.Result{}, nil // its launch brings us back
	}
	pool := &karpv1.NodePool{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: claim.Labels[karpv1.NodePoolLabelKey]}, pool, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	found, err := r.judge(ctx, claim, pool)
	if cloud.ReasonOf(err) == cloud.ReasonNotLoaded {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("judging drift of NodeClaim %s: %w", claim.Name, err)
	}
	written, err := r.note(ctx, claim, found)
	if err == nil && !written {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	return reconcile.Result{RequeueAfter: judgeEvery}, err
}

// finding is a difference, or none when the reason is empty.
type finding struct{ reason, message string }

// judge looks for a difference; the first that is found counts (D47).
func (r *Drift) judge(ctx context.Context, claim *karpv1.NodeClaim, pool *karpv1.NodePool) (finding, error) {
	if f := templateDrift(claim, pool); f.reason != "" {
		return f, nil
	}
	f, err := requirementsDrift(claim, pool, r.Rules)
	if err != nil || f.reason != "" {
		return f, err
	}
	if f, err = r.typeDrift(claim); err != nil || f.reason != "" {
		return f, err
	}
	reason, err := r.Judge.Drifted(ctx, claim)
	if cloud.ClassOf(err) == cloud.NotFound {
		return current(claim), nil // the instance is gone: that is for the collector to find out
	}
	if err != nil || reason == "" {
		return finding{}, err
	}
	return finding{reason, "The instance is not what the class describes: " + reason}, nil
}

// current is what the claim says now.
func current(claim *karpv1.NodeClaim) finding {
	if c := claim.StatusConditions().Get(karpv1.ConditionDrifted); c != nil && c.Status == metav1.ConditionTrue {
		return finding{c.Reason, c.Message}
	}
	return finding{}
}

// typeDrift searches for the claim's type and remembers the answer for a while.
func (r *Drift) typeDrift(claim *karpv1.NodeClaim) (finding, error) {
	now := r.Clock.Now()
	if now.Sub(claim.CreationTimestamp.Time) < typesFrom {
		return finding{}, nil
	}
	found, _ := r.searched.Load(claim.Name)
	last, ok := found.(search)
	if !ok || now.Sub(last.at) >= typesEvery {
		types, err := r.Types(claim.Spec.NodeClassRef.Name)
		if err != nil {
			return finding{}, fmt.Errorf("listing the types of class %s: %w", claim.Spec.NodeClassRef.Name, err)
		}
		if len(types.List) == 0 {
			return current(claim), nil // an empty list is no proof of anything
		}
		last = search{at: now, gone: missingType(claim, types.List)}
		r.searched.Store(claim.Name, last)
	}
	if last.gone == "" {
		return finding{}, nil
	}
	return finding{karpv1.ReasonInstanceTypeNotFound, last.gone}, nil
}

// note writes the answer on the claim.
func (r *Drift) note(ctx context.Context, claim *karpv1.NodeClaim, found finding) (settled bool, err error) {
	before, now := claim, r.Clock.Now()
	judged, changed := *claim, false
	set := judged.StatusConditions()
	was := current(claim)
	if found.reason != "" {
		changed = set.Set(karpv1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: found.reason, Message: found.message}, now)
	} else if changed, err = set.Clear(karpv1.ConditionDrifted, now); err != nil {
		return false, err
	}
	if !changed {
		return true, nil
	}
	claim = judged.DeepCopy()
	written, err := control.PatchStatus(ctx, r.Client, claim, before)
	if written && found.reason != "" && was.reason == "" {
		pool := claim.Labels[karpv1.NodePoolLabelKey]
		r.Meter.Add(meter.NodeClaimsDrifted, 1, "nodepool", pool, "type", found.reason)
		control.Logger(ctx, r.Log).Info("nodeclaim has drifted", "NodeClaim", claim.Name, "NodePool", pool, "Node", claim.Status.NodeName, "reason", found.reason, "message", found.message)
	}
	return written, err
}
