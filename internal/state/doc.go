// Package state turns Kubernetes objects into the engine's world: at once with Build, or event by event with a Mirror.
//
// It decides what an object means for planning (which pods need a node, what a node that is still starting will offer,
// where a volume can be used, which node a claim has become) and nothing else. An object that cannot be read is set aside by
// name in a list of problems, and the rest is converted; nothing panics on bad input. What has been decided and not been seen
// yet is assumed for a minute. The package writes nothing, calls nobody and has no clock of its own.
package state
