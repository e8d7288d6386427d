// Package plane runs a real Kubernetes control plane on this computer: etcd, kube-apiserver and, if asked,
// kube-controller-manager, kube-scheduler and kwok, each a child process of the multi-call binary that is built
// from kube/. They listen on free loopback ports, know each other by certificates made for this one run, and have
// RBAC on.
//
// The caller gives a folder that belongs to the plane alone and must call Stop. Should the caller die without
// doing so, in whatever way, the children end too: each holds the read end of a pipe whose write end only the
// caller has, and exits when it closes.
package plane
