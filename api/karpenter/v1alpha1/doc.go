// Package v1alpha1 defines karpenter.sh/v1alpha1: NodeOverlay, by which a user corrects what is known about instance types. This
// version keeps such objects and does nothing with them: a cluster that has some can be taken over and handed back. It decides
// nothing and touches nothing.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha1
