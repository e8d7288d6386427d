package operator

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	"karpenter/internal/control"
	"karpenter/internal/control/buffer"
	"karpenter/internal/wait"
)

const (
	// bufferKindEvery is how often it is looked whether the API server serves CapacityBuffers, as long as it does not.
	bufferKindEvery = 30 * time.Second
	// bufferPatience is how long the first decision waits for buffers to be resolved.
	bufferPatience = 10 * time.Second
)

// buffers has CapacityBuffers resolved. Whether their CRD is there is not up to us: another autoscaler may bring it, or nobody.
func (w *wiring) buffers(context.Context) error {
	if !w.options.Gates.CapacityBuffer {
		return nil
	}
	w.buffer = &buffer.Reconciler{
		Client: w.m.GetClient(), Live: w.m.GetAPIReader(), Mirror: w.mirror, Clock: w.clock, Meter: w.set, Log: w.log.With("controller", "capacitybuffer"),
		Wake: func(uid types.UID) {
			w.provisioner.Batch.Trigger(uid)
			w.source.loop.Wake()
		},
	}
	w.provisioner.Buffers = w.buffer.Fare
	switch err := w.buffersServed(); {
	case meta.IsNoMatchError(err):
		w.log.Info("CapacityBuffers have no effect until their CRD is installed", "apiVersion", bufferv1.SchemeGroupVersion.String())
		return w.m.Add(everywhere{w.awaitBuffers()})
	case err != nil:
		return fmt.Errorf("looking for CapacityBuffer: %w", err)
	}
	return w.add(w.buffer)
}

// buffersServed returns an error if the API server does not serve CapacityBuffers of our version.
func (w *wiring) buffersServed() error {
	_, err := w.m.GetRESTMapper().RESTMapping(bufferv1.SchemeGroupVersion.WithKind("CapacityBuffer").GroupKind(), bufferv1.SchemeGroupVersion.Version)
	return err
}

// awaitBuffers registers the reconciler as soon as the API server serves CapacityBuffers.
func (w *wiring) awaitBuffers() *control.Loop {
	there := false
	return &control.Loop{Name: "capacitybuffer.crd", Clock: w.clock, Log: w.log.With("controller", "capacitybuffer.crd"), Do: func(context.Context) (time.Duration, error) {
		if !there && w.buffersServed() == nil {
			if err := w.add(w.buffer); err != nil {
				return bufferKindEvery, err
			}
			there = true
		}
		return bufferKindEvery, nil
	}}
}

// hydrateBuffers shows the mirror what buffers ask for before anything is decided. Buffers that cannot be resolved in time hold nothing
// up.
func (w *wiring) hydrateBuffers(ctx context.Context) {
	if w.buffer == nil || w.buffersServed() != nil {
		return
	}
	ctx, cancel := wait.Timeout(ctx, w.clock, bufferPatience)
	defer cancel()
	if err := w.buffer.Hydrate(ctx); err != nil {
		w.log.Error("not every buffer could be resolved before the first decision", "error", err)
	}
}
