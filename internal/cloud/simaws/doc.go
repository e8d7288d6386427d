// Package simaws is an AWS simulator: a stateful EC2 with the parts of SQS, SSM,
// IAM, STS, EKS, Pricing, EventBridge, CloudFormation, FIS and ARC zonal shift
// that a node autoscaler and its users touch, served over their own wire
// protocols so that unmodified SDKs and the aws command can talk to it.
//
// A Sim is one world. It decides everything from its state, its seed and the
// clock that the caller injects; it reads no environment, opens no socket (the
// caller serves Handler) and logs nothing (the caller may watch calls through
// Options.OnCall). Faults, stock and time are steered through Control, in Go or
// under the path /_sim/ over HTTP.
//
// What is emulated and what is not is listed in docs/reference/aws-sim.md.
package simaws
