package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of EC2NodeClass, and the domain of the labels that describe EC2 instances.
const Group = "karpenter.k8s.aws"

// EC2NodeClassKind is the kind as it appears in manifests.
const EC2NodeClassKind = "EC2NodeClass"

// EC2NodeClassGroupKind is the kind with its group, which another provider's class of the same name does not have.
var EC2NodeClassGroupKind = schema.GroupKind{Group: Group, Kind: EC2NodeClassKind}

// SchemeGroupVersion is karpenter.k8s.aws/v1.
var SchemeGroupVersion = schema.GroupVersion{Group: Group, Version: "v1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers this package's types with a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &EC2NodeClass{}, &EC2NodeClassList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
