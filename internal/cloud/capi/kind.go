package capi

import (
	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

// Kind is ClusterAPINodeClass. Its spec says where Machines come from and nothing of what they are, so that nodes drift from the templates
// of their MachineDeployments, never from the class alone: the hash is the same for all.
func Kind() cloud.Kind {
	of := func(c cloud.NodeClass) *v1alpha1.ClusterAPINodeClass { return c.(*v1alpha1.ClusterAPINodeClass) }
	return cloud.Kind{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.GroupKind.Kind), Resource: "clusterapinodeclasses",
		AddToScheme: v1alpha1.AddToScheme,
		New:         func() cloud.NodeClass { return &v1alpha1.ClusterAPINodeClass{} }, Finalizer: v1alpha1.TerminationFinalizer,
		Conditions:  func(c cloud.NodeClass) []karpv1.Condition { return of(c).Status.Conditions },
		Ready:       func(c cloud.NodeClass) karpv1.Condition { return *of(c).StatusConditions().Root() },
		Hash:        func(cloud.NodeClass) string { return "" },
		DriftReason: v1alpha1.ReasonScalableResourceDrift,
		Labels:      v1alpha1.LabelRules, Domains: []string{v1alpha1.Group, "capacity." + v1alpha1.Group},
	}
}

// Resources are the names that begin every vector of types.
func Resources() []string { return basic }
