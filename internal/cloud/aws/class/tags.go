package class

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
)

const (
	// tagWorkers bounds how many instances are tagged at once, far below what EC2 allows an account.
	tagWorkers = 5
	// tagAfter is how long after its registration a node's instance is tagged: it is more urgent to bring up the others.
	tagAfter = 30 * time.Second
)

// Tagger puts tags on instances.
type Tagger interface {
	Tag(ctx context.Context, id string, tags map[string]string) error
}

// Tags gives each instance, once its node is known, the tags that people look for: the node's name and the claim's, and the
// cluster's name where an older version has made the instance. What an instance is found by after a crash it carries from birth.
type Tags struct {
	Client  client.Client
	Tagger  Tagger
	Cluster string
	// InstanceID reads the instance's id out of a provider ID.
	InstanceID func(providerID string) (string, error)
	Clock      control.Clock
}

// Register makes the manager run the reconciler on every change of a claim.
func (r *Tags) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclaim.tagging").For(&karpv1.NodeClaim{}).
		WithOptions(control.Workers(tagWorkers, r.Clock)).Complete(r)
}

// Reconcile tags one claim's instance.
func (r *Tags) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, request.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.Spec.NodeClassRef.Is(awsv1.EC2NodeClassGroupKind) || !claim.DeletionTimestamp.IsZero() || claim.Status.NodeName == "" || tagged(claim) {
		return reconcile.Result{}, nil
	}
	registered := claim.StatusConditions().Get(karpv1.ConditionRegistered)
	if wait := tagAfter - r.Clock.Since(registered.LastTransitionTime.Time); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	id, err := r.InstanceID(claim.Status.ProviderID)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	err = r.Tagger.Tag(ctx, id, map[string]string{"Name": claim.Status.NodeName, awsv1.TagNodeClaim: claim.Name, awsv1.TagEKSClusterName: r.Cluster})
	switch cloud.ClassOf(err) {
	case "":
	case cloud.NotFound:
		return reconcile.Result{}, nil // the instance has gone; its claim follows
	case cloud.Throttled:
		return reconcile.Result{RequeueAfter: 5 * time.Second}, nil
	default:
		return reconcile.Result{}, err
	}
	before := claim
	claim = claim.DeepCopy()
	control.Annotate(claim, awsv1.TaggedAnnotationKey, "true")
	control.Annotate(claim, awsv1.ClusterNameTaggedAnnotationKey, "true")
	_, err = control.Patch(ctx, r.Client, claim, before)
	return reconcile.Result{}, err
}

// tagged says whether the instance has all tags. Older versions have given it all but the cluster's name.
func tagged(claim *karpv1.NodeClaim) bool {
	return claim.Annotations[awsv1.TaggedAnnotationKey] == "true" && claim.Annotations[awsv1.ClusterNameTaggedAnnotationKey] == "true"
}
