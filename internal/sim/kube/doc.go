// Package kube is a Kubernetes API server in memory, and caches of it that lag behind as far as somebody wants them to. It decides
// nothing by itself: it has no goroutine, no clock and no randomness but those that it is given, so that the same calls in the same
// order give the same answers. Nothing in it may be called from two goroutines at once.
//
// # The server
//
// A [Server] keeps objects of every kind of a scheme as their Go types. A version that is stored is never changed: who reads gets a
// copy, caches share it. One counter numbers all versions. [Server.Client] writes and reads as a user; [Server.Hook] sees each request
// before and after it takes effect and can have either end in an error or a panic. What kube-controller-manager does are steps that the
// caller takes: [Server.CollectOrphans] and [Server.SyncBudgets].
//
// Our own kinds are read from their CRDs, and pruned, defaulted and validated by apiextensions-apiserver's own packages, CEL rules
// included. [WithoutValidation] leaves the validation out: a patch of a claim then costs what is in it. Of Kubernetes' kinds there is
// what the product relies on: defaults, what admission does (tolerations, priority, the taint of new nodes, finalizers of volumes),
// status subresources, generations, graceful deletion, eviction, binding and the most common refusals.
//
// # The caches
//
// A [Cache] is what a controller's informers are: for each kind a queue of events that wait for [Cache.Deliver]. A watch that is cut
// is [Cache.Relist], one that repeats or loses events is [Cache.Redeliver] or [Cache.Drop].
//
// # What it is held against
//
// TestSameAsAPIServer runs random sequences of operations on the real kube-apiserver and here, and compares every answer: the reason,
// code and causes of errors, and objects but for times, UIDs and versions, of which it compares whether they changed. TestSameAsManager
// does so for kube-controller-manager's steps.
//
// # What it leaves out
//
// Knowingly simpler than the real one, and not in the product's way:
//   - managedFields are not kept: a write that changes only who owns a field changes nothing here, where the real one makes a new version.
//   - Server-side apply, JSON patches, strategic merge patches, dry runs, and subresources other than status, eviction and binding are
//     refused.
//   - Validation of Kubernetes' own kinds is a small part of the real one. Versions of one kind are apart: v1 and v1beta1 do not see each
//     other. Namespaces are not emptied when they are deleted.
//   - PersistentVolumeClaims have their phase from the start; the real one writes it with the first change.
//   - An answer that asks the client to come back later is handed on; client-go waits and tries again by itself.
//   - The order of the causes of a refusal is not fixed, as in the real one.
//   - Lists have no snapshot: what a page continues with is what there is then.
package kube
