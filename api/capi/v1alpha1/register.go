package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of node classes for Cluster API.
const Group = "karpenter.cluster.x-k8s.io"

// SchemeGroupVersion is karpenter.cluster.x-k8s.io/v1alpha1.
var SchemeGroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// GroupKind is what a nodeClassRef names.
var GroupKind = schema.GroupKind{Group: Group, Kind: "ClusterAPINodeClass"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers this package's types with a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &ClusterAPINodeClass{}, &ClusterAPINodeClassList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
