// Package drain takes nodes and claims out of the cluster once somebody has deleted one of them: pods are asked to leave in
// order, volumes are detached, the instance is ended, and only when it is proven gone do the finalizers go (L21–L29, D59–D65).
//
// What to do about a pod, and what counts as proof, is decided by package life; this package loads, carries out and tells.
// Everything that must survive a restart is on the objects. The caller gives a client that reads from a cache with the
// indexes of Index, one that does not, the fleet, and the clock. Each node and each pod waits for itself only.
package drain
