package capi

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"karpenter/cloud"
)

// Reasons of errors.
const (
	reasonMachineMissing  = "MachineNotCreatedYet"
	reasonRecordInvalid   = "RecordInvalid"
	reasonMachineFailed   = "MachineFailed"
	reasonMachineDeleted  = "MachineDeleted"
	reasonLowered         = "ReplicasLowered"
	reasonNoCapacity      = "InsufficientCapacity"
	reasonProvisionLate   = "MachineProvisionTimeout"
	reasonMachineNotFound = "MachineNotFound"
	reasonNotHeeded       = "ClusterAPILate"
)

var errUnread = errors.New("the management cluster has not been read yet")

// readError gives the error of a call that changes nothing its class, writeError that of one that does: what became of that one may be
// unknown.
func readError(op string, err error) error  { return classify(op, err, cloud.Transient) }
func writeError(op string, err error) error { return classify(op, err, cloud.Unknown) }

func classify(op string, err error, otherwise cloud.Class) error {
	var known *cloud.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	}
	e := &cloud.Error{Class: otherwise, Op: op, Reason: "ManagementClusterUnreachable", Err: err}
	if reason := apierrors.ReasonForError(err); reason != "" {
		e.Reason = string(reason)
	}
	switch {
	case apierrors.IsNotFound(err):
		e.Class = cloud.NotFound
	case apierrors.IsConflict(err):
		e.Class = cloud.Transient
	case apierrors.IsTooManyRequests(err):
		e.Class = cloud.Throttled
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		e.Class = cloud.Denied
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		e.Class = cloud.Invalid
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Class = otherwise
	}
	return e
}
