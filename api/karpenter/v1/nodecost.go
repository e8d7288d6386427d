package v1

import (
	"fmt"
	"strconv"
)

// DefaultNodeCost is what a node costs an hour besides its price, in dollars, where its pool does not say: the list price
// of a public IPv4 address. It stands for everything that every further node brings with it: an address, daemons, image pulls,
// load on the API server, licences that are paid by host.
const DefaultNodeCost = 0.005

// maxNodeCost is more than any node costs; what is above it is a mistake.
const maxNodeCost = 1000

// NodeCost is what NodeCostAnnotationKey says, or DefaultNodeCost without it. A value that makes no sense is an error, and
// the default counts.
func (p *NodePool) NodeCost() (float64, error) {
	text, ok := p.Annotations[NodeCostAnnotationKey]
	if !ok {
		return DefaultNodeCost, nil
	}
	cost, err := strconv.ParseFloat(text, 64)
	if err != nil || !(cost >= 0 && cost <= maxNodeCost) {
		return DefaultNodeCost, fmt.Errorf("annotation %s is %q; give dollars an hour from 0 to %d, such as \"0.02\"; until then %g counts",
			NodeCostAnnotationKey, text, maxNodeCost, DefaultNodeCost)
	}
	return cost, nil
}
