// Package v1 defines the karpenter.k8s.aws/v1 API: EC2NodeClass, which says how instances of a pool are
// made in AWS: images, networks, disks, identity and kubelet settings. It also holds the labels, tags and
// annotations of that domain, the AMI alias grammar, the class's conditions and its drift hash.
//
// Everything here is a pure function of its arguments: no clock, no randomness, no I/O, no AWS SDK. The CRD
// manifest in api/crds is generated from these types, so a field comment is what `kubectl explain` prints.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
package v1
