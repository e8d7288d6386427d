// Package v1alpha1 defines karpenter.cluster.x-k8s.io/v1alpha1: ClusterAPINodeClass, which says which MachineDeployments of a Cluster
// API management cluster the nodes of a pool may come from. It also holds the labels and annotations of that domain and the class's
// conditions.
//
// Everything here is a pure function of its arguments. The CRD manifest in api/crds is generated from these types, so a field comment is
// what `kubectl explain` prints.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.cluster.x-k8s.io
package v1alpha1
