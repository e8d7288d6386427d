// Package v1alpha1 defines karpenter.sh/v1alpha1: NodeOverlay, by which a user corrects what is known about instance types. It holds
// the type, its conditions and the checks of its fields; it decides nothing and touches nothing.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha1
