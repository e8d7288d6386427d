// Package v1beta1 defines autoscaling.x-k8s.io/v1beta1: CapacityBuffer, the API that autoscalers of Kubernetes share for capacity
// that is kept free. It decides nothing and touches nothing.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.x-k8s.io
package v1beta1
