package main

import (
	"karpenter/cloud"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpv1 "karpenter/api/karpenter/v1"
)

// groupVersion is that of our kind.
var groupVersion = schema.GroupVersion{Group: "rack.example.com", Version: "v1"}

// RackNodeClass says what servers are made from.
type RackNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		// Image is what servers boot.
		Image string `json:"image"`
	} `json:"spec"`
	Status struct {
		Conditions []karpv1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitempty"`
}

// RackNodeClassList is a list of them.
type RackNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RackNodeClass `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (c *RackNodeClass) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = append([]karpv1.Condition(nil), c.Status.Conditions...)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *RackNodeClassList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*RackNodeClass))
	}
	return &out
}

// GetConditions and SetConditions implement karpv1.Conditioned.
func (c *RackNodeClass) GetConditions() []karpv1.Condition { return c.Status.Conditions }

// SetConditions implements karpv1.Conditioned.
func (c *RackNodeClass) SetConditions(list []karpv1.Condition) { c.Status.Conditions = list }

// conditions are those that a class has: Ready sums up the others.
func (c *RackNodeClass) conditions() *karpv1.ConditionSet {
	return karpv1.NewConditionSet(c, karpv1.ConditionTypes{Root: "Ready", Dependents: []string{"ImageReady"}})
}

// Kind is what everybody must know of a RackNodeClass.
func Kind() cloud.Kind {
	of := func(c cloud.NodeClass) *RackNodeClass { return c.(*RackNodeClass) }
	return cloud.Kind{
		GroupVersionKind: groupVersion.WithKind("RackNodeClass"), Resource: "racknodeclasses",
		AddToScheme: func(s *runtime.Scheme) error {
			s.AddKnownTypes(groupVersion, &RackNodeClass{}, &RackNodeClassList{})
			metav1.AddToGroupVersion(s, groupVersion)
			return nil
		},
		New: func() cloud.NodeClass { return &RackNodeClass{} }, Finalizer: "rack.example.com/termination",
		Conditions: func(c cloud.NodeClass) []karpv1.Condition { return of(c).Status.Conditions },
		Ready:      func(c cloud.NodeClass) karpv1.Condition { return *of(c).conditions().Root() },
		Hash:       func(c cloud.NodeClass) string { return of(c).Spec.Image }, DriftReason: "ImageDrift",
		Labels: karpv1.CoreLabelRules, Domains: []string{groupVersion.Group},
	}
}
