package drain

import "sigs.k8s.io/controller-runtime/pkg/reconcile"

// Reboots is what reboots instances, without a manager.
func Reboots(d *Drainer) reconcile.Reconciler {
	r := &reboots{Drainer: d}
	r.queue = newQueue(d, r.draining.has)
	return r
}
