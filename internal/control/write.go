package control

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Clock is the time that reconcilers live in.
type Clock = clock.WithTicker

// Patch writes what has changed in an object since before, if anything, and only if nobody else has changed it
// meanwhile. obj then holds what the API server has. written is false when there was nothing to write, and when the
// object has changed or gone: whoever did that has caused the next look at it.
func Patch(ctx context.Context, c client.Client, obj, before client.Object) (written bool, err error) {
	patch := newChanges(before, obj)
	if !patch.differ && patch.err == nil {
		return false, nil
	}
	return settle(c.Patch(ctx, obj, patch), "writing", obj)
}

// PatchStatus is Patch for the status of an object.
func PatchStatus(ctx context.Context, c client.Client, obj, before client.Object) (written bool, err error) {
	patch := newChanges(before, obj)
	if !patch.differ && patch.err == nil {
		return false, nil
	}
	return settle(c.Status().Patch(ctx, obj, patch), "writing the status of", obj)
}

func settle(err error, verb string, obj client.Object) (bool, error) {
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	}
	return false, fmt.Errorf("%s %T %s: %w", verb, obj, client.ObjectKeyFromObject(obj), err)
}

// Delete deletes an object, unless another one has taken its name. deleted is false if it was not there any more.
func Delete(ctx context.Context, c client.Client, obj client.Object) (deleted bool, err error) {
	uid := obj.GetUID()
	return settle(c.Delete(ctx, obj, client.Preconditions{UID: &uid}), "deleting", obj)
}

// DeleteSeen deletes an object if it still is what the caller has looked at. deleted is false if somebody else was faster: whoever did
// that has caused the next look at it.
func DeleteSeen(ctx context.Context, c client.Client, obj client.Object) (deleted bool, err error) {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	return settle(c.Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version}), "deleting", obj)
}

// Annotate sets one annotation in memory.
func Annotate(obj client.Object, key, value string) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}
