// Package v1beta1 defines the older wire form of EC2NodeClass. The API server takes and shows it, and stores v1; package
// karpenter/api/convert translates. Nothing else in the program reads these types.
//
// The schema has no defaults: an object reads back as it was written, and what a missing field means is written out in its
// v1 form. Everything that it accepts becomes a valid v1 object.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
package v1beta1
