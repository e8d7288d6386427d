package drain

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
)

const (
	// reconcilers is how many nodes, and how many claims, are worked on at once. Most of them wait for the cloud, so that a cloud
	// which does not answer must not use up all of them.
	reconcilers = 100
	// sweepEvery is how often a node or claim that waits for somebody else is looked at although nothing seems to have happened.
	sweepEvery = time.Minute
	// soon is when something is looked at again that another writer, or a cache that lags, has got in the way of.
	soon = 250 * time.Millisecond
)

// Drainer ends nodes and claims that have been deleted. Its fields must be set before Register.
type Drainer struct {
	// Client reads from a cache, Live from the API server itself.
	Client client.Client
	Live   client.Reader
	Fleet  cloud.Fleet
	// Rebooter reboots instances; without it reboots that are asked for fail.
	Rebooter cloud.Rebooter
	// InstanceID reads the instance's id out of a provider ID.
	InstanceID func(providerID string) (string, error)
	// Class is the kind of node class that this process serves: nodes and claims of other kinds are others' (L20).
	Class schema.GroupKind
	// Launches is asked before a claim without an instance on record goes; optional.
	Launches Launches
	Clock    control.Clock
	Recorder *control.Recorder
	Meter    *meter.Set
	Log      *slog.Logger
	// Ledger keeps what is removed because its reboot failed; optional. Wrote is told of claims and nodes that were written for a reboot, as
	// the API server has them now; optional.
	Ledger *ledger.Ledger
	Wrote  func(client.Object)
}

// Launches knows what is being launched in this process.
type Launches interface {
	// Ending keeps a claim from being launched from now on. It returns the instance that the claim has been given, or else from
	// when on a list of all instances is proof that it has none. ok is false while it is being launched.
	Ending(claim *karpv1.NodeClaim) (in *cloud.Instance, from time.Time, ok bool)
}

// Register makes the manager end what is deleted.
func (d *Drainer) Register(m manager.Manager) error {
	ends := newEnder(d.Fleet, d.Clock)
	nodes := &nodes{Drainer: d, ender: ends}
	reboots := &reboots{Drainer: d}
	nodes.queue = newQueue(d, func(node string) bool { return nodes.draining.has(node) || reboots.draining.has(node) })
	reboots.queue = nodes.queue
	if err := m.Add(nodes.queue); err != nil {
		return fmt.Errorf("adding the eviction queue: %w", err)
	}
	if err := nodes.register(m); err != nil {
		return fmt.Errorf("setting up node.termination: %w", err)
	}
	if err := reboots.register(m); err != nil {
		return fmt.Errorf("setting up nodeclaim.reboot: %w", err)
	}
	claims := &claims{Drainer: d, ender: ends}
	if err := claims.register(m); err != nil {
		return fmt.Errorf("setting up nodeclaim.termination: %w", err)
	}
	return nil
}

// Index names, for Client.
const (
	indexNodeName         = "spec.nodeName"
	indexNodeProviderID   = "spec.providerID"
	indexClaimsProviderID = "status.providerID"
)

// Index adds the indexes that Client needs (O59): pods and volume attachments by node, nodes and claims by provider ID.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	indexes := []struct {
		object client.Object
		field  string
		value  func(client.Object) string
	}{
		{&corev1.Pod{}, indexNodeName, func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }},
		{&storagev1.VolumeAttachment{}, indexNodeName, func(o client.Object) string { return o.(*storagev1.VolumeAttachment).Spec.NodeName }},
		{&corev1.Node{}, indexNodeProviderID, func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }},
		{&karpv1.NodeClaim{}, indexClaimsProviderID, func(o client.Object) string { return o.(*karpv1.NodeClaim).Status.ProviderID }},
	}
	for _, i := range indexes {
		err := indexer.IndexField(ctx, i.object, i.field, func(o client.Object) []string {
			if value := i.value(o); value != "" {
				return []string{value}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("indexing %T by %s: %w", i.object, i.field, err)
		}
	}
	return nil
}

// ourNode says the same of a node, by the label that names its class.
func (d *Drainer) ourNode(node *corev1.Node) bool {
	_, ok := node.Labels[karpv1.NodeClassLabelKey(karpv1.NodeClassReference{Group: d.Class.Group, Kind: d.Class.Kind})]
	return ok
}

// condition sets conditions of the claim, if there is one. ok is false if somebody else has changed the claim meanwhile, which
// must be looked at first.
func (d *Drainer) condition(ctx context.Context, claim *karpv1.NodeClaim, conditions ...karpv1.Condition) (ok bool, err error) {
	if claim == nil {
		return true, nil
	}
	before := claim.DeepCopy()
	changed := false
	for _, c := range conditions {
		changed = claim.StatusConditions().Set(c, d.Clock.Now()) || changed
	}
	if !changed {
		return true, nil
	}
	return control.PatchStatus(ctx, d.Client, claim, before)
}

// deadline is the time on record at which draining stops waiting; zero if there is none or it cannot be read.
func deadlineOf(claim *karpv1.NodeClaim) time.Time {
	at, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.TerminationTimestampAnnotationKey])
	if err != nil {
		return time.Time{}
	}
	return at
}

// graceOf is the claim's termination grace period, nil for none.
func graceOf(claim *karpv1.NodeClaim) *time.Duration {
	if claim.Spec.TerminationGracePeriod == nil {
		return nil
	}
	return &claim.Spec.TerminationGracePeriod.Duration
}

// deletedAt is when an object was deleted; zero if it was not.
func deletedAt(obj client.Object) time.Time {
	if at := obj.GetDeletionTimestamp(); at != nil {
		return at.Time
	}
	return time.Time{}
}
