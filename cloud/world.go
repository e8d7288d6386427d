package cloud

import "karpenter/internal/engine/world"

// The engine's words for what can be bought. They are aliases, so that what a provider fills in is what the engine reads.
type (
	// InstanceType is something that can be launched, and Offering where and under which capacity type, at what price.
	InstanceType = world.InstanceType
	Offering     = world.Offering
	// Resources is a vector of quantities, in the order of Types.Resources: thousandths of a core, bytes, pods, bytes of ephemeral
	// storage, and then whatever else the provider names.
	Resources = world.Resources
	// Labels is sorted by key.
	Labels = world.Labels
)

// NewLabels sorts labels.
func NewLabels(labels map[string]string) Labels { return world.NewLabels(labels) }
