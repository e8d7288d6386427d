// Package v1beta1 defines autoscaling.x-k8s.io/v1beta1: CapacityBuffer, the API that autoscalers of Kubernetes share for capacity
// that is kept free. This version keeps such objects and does nothing with them: a cluster that has some can be taken over and
// handed back. It decides nothing and touches nothing.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.x-k8s.io
package v1beta1
