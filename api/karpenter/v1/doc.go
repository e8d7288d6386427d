// Package v1 defines the karpenter.sh/v1 API: NodePool, what a user writes to say which nodes
// may exist, and NodeClaim, one node that was asked for. It also holds everything that belongs to
// that contract and to nobody's cloud: labels, annotations, taints, condition types and their
// arithmetic, the drift hash, disruption budgets and the checks that the API server cannot make.
//
// Everything here is a pure function of its arguments: no clock, no randomness, no I/O. The current
// time is always an argument. The CRD manifests in api/crds are generated from these types, so a
// field comment is what `kubectl explain` prints.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1
