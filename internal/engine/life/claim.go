package life

import "time"

// Status is what a condition says.
type Status int

// The values of a Status. A condition that nobody has judged is Unknown.
const (
	Unknown Status = iota
	True
	False
)

// Condition is one milestone of a claim.
type Condition struct {
	Status Status
	Reason string
	// Since is when the status last changed; for a condition that nobody has judged, when the claim was made.
	Since time.Time
}

// Taint is a taint of a node.
type Taint struct{ Key, Value, Effect string }

// Claim is what is known of a claim.
type Claim struct {
	UID     string
	Created time.Time
	// Deleting claims are none of this file's business: they are drained.
	Deleting bool
	// Finalizer says whether the claim is kept until its instance is gone.
	Finalizer bool
	// Rebooting claims are none either: their node comes back, or they are deleted.
	Rebooting bool
	// ProviderID names the instance on record, NodeName the node that it was registered as.
	ProviderID string
	NodeName   string

	Launched, Registered, Initialized Condition
	// Rebooted is when the last reboot of the instance ended; zero if there was none.
	Rebooted time.Time

	StartupTaints []Taint
	// Requests names the resources that the claim wants more than none of, sorted.
	Requests []string
	// Drivers names the device drivers that must have published their devices, sorted.
	Drivers []string
}

// Node is a node that carries the claim's provider ID.
type Node struct {
	Name    string
	Created time.Time
	// Owner is the UID of the claim that the node says it belongs to, if it says so.
	Owner string
	Ready bool
	// Taints are all of them; Ephemeral names those that Kubernetes is known to remove by itself.
	Taints    []Taint
	Ephemeral []string
	// Allocatable names the resources that the node has more than none of.
	Allocatable []string
	// Drivers names the device drivers whose devices on this node are completely published.
	Drivers []string
}

// Limits are how long each milestone may take. Zero means for ever.
type Limits struct {
	Launch, Register, Initialize time.Duration
	// Watching is since when the caller has been able to see the cluster. Nothing is given up before it has looked for a
	// while: after an outage nodes need a moment to join.
	Watching time.Time
}

// DefaultLimits are those of L13, and one for initialization (W13): a node that has joined and is still not usable after
// half an hour keeps its pods waiting and its money running, so it is drained and replaced.
var DefaultLimits = Limits{Launch: 5 * time.Minute, Register: 15 * time.Minute, Initialize: 30 * time.Minute}

// grace is how long the caller must have watched before a deadline that passed meanwhile counts.
const grace = time.Minute

// Do is what a step wants done.
type Do string

// The steps. Hold means that nothing can be done until something changes or Step.After has passed.
const (
	Hold         Do = "Hold"
	AddFinalizer Do = "AddFinalizer"
	Launch       Do = "Launch"
	Register     Do = "Register"
	Initialize   Do = "Initialize"
	GiveUp       Do = "GiveUp"
)

// Milestone names a condition of a claim.
type Milestone string

// The milestones, in order.
const (
	Launched    Milestone = "Launched"
	Registered  Milestone = "Registered"
	Initialized Milestone = "Initialized"
)

// Why a milestone is not reached. The values are the reasons that users see in conditions.
const (
	NodeNotFound               = "NodeNotFound"
	MultipleNodesFound         = "MultipleNodesFound"
	NodeNotReady               = "NodeNotReady"
	StartupTaintsExist         = "StartupTaintsExist"
	KnownEphemeralTaintsExist  = "KnownEphemeralTaintsExist"
	ResourceNotRegistered      = "ResourceNotRegistered"
	DRADriverPoolsNotPublished = "DRADriverPoolsNotPublished"
)

// Why a claim is deleted. The values are those of the metric label reason.
const (
	LaunchTimeout         = "launch_timeout"
	RegistrationTimeout   = "registration_timeout"
	InitializationTimeout = "initialization_timeout"
)

// Step is what to do next with a claim.
type Step struct {
	Do Do
	// Of is the milestone that is being worked for, and Status, Reason and Message what its condition says meanwhile, if
	// Reason is not empty.
	Of      Milestone
	Status  Status
	Reason  string
	Message string
	// Node is the node to register or initialize.
	Node string
	// Strangers are nodes that carry the provider ID and cannot be this claim's, sorted.
	Strangers []string
	// Cause says, with GiveUp, which deadline has passed.
	Cause string
	// After is when to ask again if nothing changes before; zero means that only a change can matter.
	After time.Duration
}

// Next is the next step in the life of a claim. nodes are those that carry its provider ID.
func Next(c Claim, nodes []Node, limits Limits, now time.Time) Step {
	switch {
	case c.Deleting, c.Rebooting:
		return Step{Do: Hold}
	case !c.Finalizer:
		return Step{Do: AddFinalizer}
	case c.ProviderID == "":
		return late(Step{Do: Launch, Of: Launched}, c, limits, now)
	}
	own, strangers := match(c, nodes)
	var step Step
	switch {
	case c.Registered.Status != True:
		step = register(c, own, limits, now)
	case c.Initialized.Status != True:
		step = late(initialize(c, own), c, limits, now)
	default:
		step = Step{Do: Hold}
	}
	step.Strangers = strangers
	return step
}

// Late says whether the claim has had all the time that there is for its next milestone, and if not how much is left;
// zero left means that there is no deadline.
func Late(c Claim, limits Limits, now time.Time) (cause string, left time.Duration) {
	var since time.Time
	var limit time.Duration
	switch {
	case c.ProviderID == "":
		cause, since, limit = LaunchTimeout, c.Launched.Since, limits.Launch
	case c.Registered.Status != True:
		cause, since, limit = RegistrationTimeout, c.Registered.Since, limits.Register
	case c.Initialized.Status != True:
		// After a reboot it counts from there, also where the node was not initialized before and nothing of the condition has changed.
		cause, since, limit = InitializationTimeout, later(later(c.Registered.Since, c.Initialized.Since), c.Rebooted), limits.Initialize
	}
	if limit == 0 {
		return "", 0
	}
	deadline := since.Add(limit)
	if soonest := limits.Watching.Add(grace); deadline.Before(soonest) {
		deadline = soonest
	}
	if now.Before(deadline) {
		return "", deadline.Sub(now)
	}
	return cause, 0
}

// late turns a step into GiveUp if its deadline has passed, and otherwise makes sure that somebody looks again then.
// A node that is ready to be used is used, however late it is.
func late(s Step, c Claim, limits Limits, now time.Time) Step {
	if s.Do == Register || s.Do == Initialize {
		return s
	}
	cause, left := Late(c, limits, now)
	if cause != "" {
		s.Do, s.Cause, left = GiveUp, cause, 0
	}
	s.After = left
	return s
}
