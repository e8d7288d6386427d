package cloud

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is how far an instance is in its life.
type State string

// The states, in order. Terminated instances are not listed.
const (
	Pending      State = "pending"
	Running      State = "running"
	Stopping     State = "stopping"
	Stopped      State = "stopped"
	ShuttingDown State = "shutting-down"
	Terminated   State = "terminated"
)

// Ending says whether the instance is on its way out for good.
func (s State) Ending() bool { return s == ShuttingDown || s == Terminated }

// Instance is an instance that the cloud has.
type Instance struct {
	// ID is the cloud's name for the instance, ProviderID the name that its node carries.
	ID         string
	ProviderID string
	State      State
	// Launched is when the cloud says that the instance began.
	Launched time.Time

	Type         string
	Zone         string
	CapacityType string
	ImageID      string

	// Claim names the claim that the instance belongs to and Batch the batch that it was made in, as far as its tags say.
	Claim string
	Batch string
	// Pool and Class name what it was made from.
	Pool  string
	Class string

	// Unmarked says that the instance does not carry this cluster's tags. It is ours only if a claim has it on record.
	Unmarked bool

	Tags map[string]string
	// Labels and Annotations are what the claim gets from having this instance; Capacity and Allocatable are what it has
	// room for. They are set by Launch only.
	Labels      map[string]string
	Annotations map[string]string
	Capacity    corev1.ResourceList
	Allocatable corev1.ResourceList
}
