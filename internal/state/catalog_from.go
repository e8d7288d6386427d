package state

import "karpenter/internal/engine/world"

// NewCatalog writes types in text form; resources names the entries of their vectors.
func NewCatalog(resources []string, list []*world.InstanceType) *Catalog {
	return (&catalogWriter{names: resources}).catalog(&typeList{list: list})
}
