package cloud

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpv1 "karpenter/api/karpenter/v1"
)

// NodeClass is an object of a provider's kind of node class. What it means is the provider's own business; what everybody must know
// of it, its Kind tells.
type NodeClass interface {
	metav1.Object
	runtime.Object
}

// Kind is a provider's kind of node class, as far as others must know it: reconcilers, commands and metrics. It is the same in every
// cluster, and reaches nothing.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the kind's name in paths of the API: lower case, plural.
	Resource    string
	AddToScheme func(*runtime.Scheme) error
	// New makes an empty class. The functions below are given classes that it has made.
	New func() NodeClass
	// Finalizer is what keeps a class until no claim uses it any more.
	Finalizer string
	// Conditions are those of the class's status, and Ready the one that sums them up: whether claims can be launched from it.
	Conditions func(NodeClass) []karpv1.Condition
	Ready      func(NodeClass) karpv1.Condition
	// Hash is equal for two classes of one cluster if nodes of the one have not drifted from the other. DriftReason is the reason
	// that those have which did.
	Hash        func(NodeClass) string
	DriftReason string
	// Labels are the rules for label keys. Aliases are spellings that only this provider has, and are part of them; Domains are those
	// whose every key the provider gives values.
	Labels  func() karpv1.LabelRules
	Aliases map[string]string
	Domains []string
}

// Is says whether a reference is to a class of this kind.
func (k *Kind) Is(ref *karpv1.NodeClassReference) bool { return ref.Is(k.GroupKind()) }

// KnownClass is a node class with its kind.
type KnownClass struct {
	Kind *Kind
	NodeClass
}

// Is says whether a reference is to this class.
func (c KnownClass) Is(ref *karpv1.NodeClassReference) bool {
	return c.Kind.Is(ref) && ref.Name == c.GetName()
}

// Hash tells apart what nodes are made from.
func (c KnownClass) Hash() string { return c.Kind.Hash(c.NodeClass) }

// Ready is the condition that sums the class up.
func (c KnownClass) Ready() karpv1.Condition { return c.Kind.Ready(c.NodeClass) }

// MarshalJSON writes the class as it is.
func (c KnownClass) MarshalJSON() ([]byte, error) { return json.Marshal(c.NodeClass) }
