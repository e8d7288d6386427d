// Package cloud says what Karpenter needs from a cloud: instances made at most once per claim, found again, and ended; the
// list of what can be bought; and whether an instance is still what its class describes.
//
// The interfaces are small because their users are: a launch loop needs a Launcher, a collector of orphans a Fleet. A
// provider implements all of them. Errors have a class (see Class) that decides what the caller does next. The package
// does no I/O and holds no state.
package cloud

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// Provider is everything that a cloud can do for Karpenter.
type Provider interface {
	Launcher
	Fleet
	Catalogue
	Judge
	Rebooter
	// Name is the provider's name in logs and metrics: one word.
	Name() string
	// InstanceID reads the id of an instance out of a node's or claim's provider ID. It does no I/O.
	InstanceID(providerID string) (id string, err error)
}

// Launcher makes instances.
type Launcher interface {
	// Launch gives every claim of the batch an instance, or says for each why not. Calling it again with the same batch, in
	// this process or a later one, never makes a second instance for a claim: what an earlier call made is found and
	// returned. Results are in the order of the claims. An instance that is still being made may have no provider ID: it is written down as
	// far as it is known, and Launch is called again for its claim.
	Launch(ctx context.Context, batch Batch) []Result
}

// Result is what became of one claim of a batch: an instance, or an error with a class.
type Result struct {
	Instance *Instance
	Err      error
	// Advice, if any, is what whoever made the pool should know about the choice that was left.
	Advice string
}

// Fleet finds and ends instances of this cluster.
type Fleet interface {
	// Get looks one instance up at the cloud itself, whatever tags it has. NotFound means that the cloud does not list it now,
	// which alone is no proof that it is gone unless the reason is ReasonTerminated.
	Get(ctx context.Context, id string) (*Instance, error)
	// List returns every instance that carries this cluster's tags, oldest first, ended ones excluded.
	List(ctx context.Context) ([]*Instance, error)
	// Delete asks the cloud to end an instance that List shows or a claim has on record. It may be called any number of times;
	// NotFound means that there is nothing left to end, and ReasonNotOurs that it is another cluster's.
	Delete(ctx context.Context, id string) error
	// Tag puts tags on an instance that a claim has on record. A tag that the instance has keeps its value: it may be the user's own.
	// Where instances have no tags the error is errors.ErrUnsupported.
	Tag(ctx context.Context, id string, tags map[string]string) error
}

// Rebooter reboots instances.
type Rebooter interface {
	// Reboot asks the cloud to reboot the claim's instance. It may be called again with the same operation, which names this reboot of this
	// claim, until it has been accepted. NodeRebootNotImplementedError and NodeRebootFailedError say that asking again is of no use.
	Reboot(ctx context.Context, claim *karpv1.NodeClaim, operation string) error
}

// Catalogue says what can be bought.
type Catalogue interface {
	// Types returns what the node class of that name can launch now, types that are out of stock included. The value is
	// shared and never changes; a later call may return a newer one. It does no I/O.
	Types(class string) (*Types, error)
}

// KubeletCatalogue is a Catalogue whose nodes have more or less room if a claim has kubelet settings of its own, as those of v1beta1 may.
type KubeletCatalogue interface {
	// TypesWith is Types for claims with these settings, in the text of convert.KubeletAnnotation; none if it is empty.
	TypesWith(class, kubelet string) (*Types, error)
}

// Judge compares instances with what their class asks for today.
type Judge interface {
	// Drifted returns the reason why the claim's instance is no longer what its class describes, or "".
	Drifted(ctx context.Context, claim *karpv1.NodeClaim) (reason string, err error)
	// RepairPolicies lists node conditions that mean an instance is broken.
	RepairPolicies() []RepairPolicy
}

// Types is what a class can launch.
type Types struct {
	// Resources names the entries of every vector in List.
	Resources []string
	// List is sorted by name.
	List []*world.InstanceType
	// Version changes with the content: equal versions of one class have equal content.
	Version uint64
}

// RepairAction is what is done about a broken instance.
type RepairAction string

// The actions.
const (
	RebootNode  RepairAction = "RebootNode"
	ReplaceNode RepairAction = "ReplaceNode"
)

// RepairPolicy says after how long a bad node condition condemns an instance, and what is done then. Each condition and status that
// policies name has exactly one without ReasonRegex, for all other reasons, with the action ReplaceNode.
type RepairPolicy struct {
	Condition corev1.NodeConditionType
	Status    corev1.ConditionStatus
	// ReasonRegex is a regular expression of the reasons of the condition that the policy is for.
	ReasonRegex string
	// Tolerated is how long the condition may last.
	Tolerated time.Duration
	// TerminationGracePeriod bounds the drain, if it is shorter than the claim's: nil leaves it to the claim, and zero drains nothing.
	TerminationGracePeriod *time.Duration
	// Priority is from 0 to 100: what has more is repaired first.
	Priority int
	Action   RepairAction
}
