package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Class is the kind of a failed call. It decides what the caller does next, see Class.Response.
type Class string

// The classes.
const (
	// Throttled calls were refused because of too many others; nothing happened.
	Throttled Class = "Throttled"
	// NoCapacity means that the cloud has none of what was asked for, or that a quota is used up.
	NoCapacity Class = "NoCapacity"
	// Denied means that the caller may not do that.
	Denied Class = "Denied"
	// Invalid means that the request itself is wrong and will stay so until somebody changes it.
	Invalid Class = "Invalid"
	// NotReady means that the node class cannot be used now, so that the claim must be planned again.
	NotReady Class = "NotReady"
	// NotFound means that the object does not exist, as far as the cloud shows.
	NotFound Class = "NotFound"
	// Transient failures happened before anything took effect.
	Transient Class = "Transient"
	// InProgress means that what was asked for has been accepted and is not there yet: ask again.
	InProgress Class = "InProgress"
	// Unknown means that the call may have taken effect: look, then decide. Never repeat it under another token.
	Unknown Class = "Unknown"
)

// ReasonTerminated is the reason of a NotFound error from a cloud that still shows the instance, and shows it ended: that is proof
// by itself, where not showing it is none.
const ReasonTerminated = "InstanceTerminated"

// ReasonNotOurs is the reason of a Denied error about an instance that is another cluster's. It is there, whosever it is: that proves
// nothing about the claim that names it.
const ReasonNotOurs = "NotOurs"

// ReasonNotLoaded is the reason of an error from a provider that does not know yet what the cloud sells: it has just started.
const ReasonNotLoaded = "InstanceTypesNotLoaded"

// Error is a failed call to the cloud.
type Error struct {
	Class Class
	// Reason is one word for conditions and metrics, for example VCPULimitExceeded.
	Reason string
	// Op says what was tried on what, for example "launch batch b-1".
	Op string
	// Err is what the cloud said.
	Err error
}

// Error says what was tried and what came of it.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Op, e.Reason)
	}
	return fmt.Sprintf("%s: %v", e.Op, e.Err)
}

// Unwrap returns what the cloud said.
func (e *Error) Unwrap() error { return e.Err }

// NodeRebootNotImplementedError says that a cloud cannot reboot instances.
type NodeRebootNotImplementedError struct {
	// Provider is the provider's name.
	Provider string
}

// Error says so.
func (e *NodeRebootNotImplementedError) Error() string {
	return "provider " + e.Provider + " does not reboot instances"
}

// NodeRebootFailedError says that an instance was not rebooted, and that asking again would change nothing.
type NodeRebootFailedError struct {
	// Err is why.
	Err error
}

// Error says why.
func (e *NodeRebootFailedError) Error() string { return "rebooting failed for good: " + e.Err.Error() }

// Unwrap returns why.
func (e *NodeRebootFailedError) Unwrap() error { return e.Err }

// ClassOf is the class of an error, through any wrapping. An error that nobody has classified is Unknown, because
// nothing is known of its effect; the empty class is that of nil.
func ClassOf(err error) Class {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Class
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Unknown
	}
	return Unknown
}

// ReasonOf is the reason of an error, or "LaunchFailed" when it has none of its own.
func ReasonOf(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Reason != "" {
		return e.Reason
	}
	return "LaunchFailed"
}

// Response is what a launch loop does about a class.
type Response struct {
	// GiveUp deletes the claim, so that its pods are planned again with what is known now.
	GiveUp bool
	// First and Most bound the back-off before the same batch is tried again; zero with GiveUp.
	First, Most time.Duration
}

// responses has one row per class. Unknown comes back soonest: looking is cheap, and an instance may be waiting.
var responses = map[Class]Response{
	Throttled:  {First: time.Second, Most: 30 * time.Second},
	NoCapacity: {GiveUp: true},
	NotReady:   {GiveUp: true},
	Denied:     {First: 5 * time.Second, Most: time.Minute},
	Invalid:    {First: 5 * time.Second, Most: time.Minute},
	NotFound:   {First: time.Second, Most: time.Minute},
	Transient:  {First: time.Second, Most: time.Minute},
	InProgress: {First: 500 * time.Millisecond, Most: 5 * time.Second},
	Unknown:    {First: 500 * time.Millisecond, Most: 15 * time.Second},
}

// Response returns what a launch loop does about the class.
func (c Class) Response() Response { return responses[c] }
