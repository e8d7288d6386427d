package aws

// Step is a part of a launch that leaves a trace somewhere, so that a process which dies before it and one which dies after it
// leave different worlds behind.
type Step string

// The steps of a launch, in order.
const (
	// StepLook looks for instances that an earlier attempt made.
	StepLook Step = "look for the batch's instances"
	// StepTemplate makes a launch template.
	StepTemplate Step = "make a launch template"
	// StepFleet asks EC2 for the instances: the one step that makes something which costs money.
	StepFleet Step = "create the fleet"
	// StepLearn takes over what the answer says of stock and addresses, in memory.
	StepLearn Step = "take over the answer"
	// StepHandOut gives the instances to the claims. The caller writes that down.
	StepHandOut Step = "hand the instances out"
)

// Steps lists them.
var Steps = []Step{StepLook, StepTemplate, StepFleet, StepLearn, StepHandOut}

// reach tells a test that a step begins, or that it is done.
func (p *Provider) reach(step Step, done bool) {
	if p.opt.OnStep != nil {
		p.opt.OnStep(step, done)
	}
}
