package meter

import (
	"slices"
	"strings"
)

// Cloud is what a provider adds to the table.
type Cloud struct {
	// Group and Kind are those of its node class.
	Group, Kind string
	// NodeLabels are labels of its nodes that metrics by node carry (O12), besides those that the nodes of every provider have.
	NodeLabels []string
	Metrics    []Metric
}

// WellKnown are the node labels that metrics by node carry (O12), in the order in which they are shown.
func (c Cloud) WellKnown() []string { return slices.Concat(wellKnown, c.NodeLabels) }

var wellKnown = []string{
	"karpenter.sh/nodepool", "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type",
	"kubernetes.io/arch", "kubernetes.io/os", "karpenter.sh/capacity-type", "node.kubernetes.io/windows-build",
}

// Snake is the label of a metric that shows a label of a node: what stands behind the slash, with underscores.
func Snake(key string) string {
	_, name, _ := strings.Cut(key, "/")
	return strings.ReplaceAll(name, "-", "_")
}

// whole is the label of a metric that shows a label of an object: all of it, with underscores.
func whole(key string) string { return strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(key) }

func snakes(keys []string) []string {
	labels := make([]string, len(keys))
	for i, key := range keys {
		labels[i] = Snake(key)
	}
	return labels
}

// NodeLabels returns the pairs that describe a node in the metrics by node (O12), from the node's own labels. Pairs of
// the caller, such as "node_name" and its value, come first.
func (s *Set) NodeLabels(labels map[string]string, pairs ...string) []string {
	if s == nil {
		return pairs
	}
	all := make([]string, len(pairs), len(pairs)+2*len(s.wellKnown))
	copy(all, pairs)
	for i, key := range s.wellKnown {
		if v := labels[key]; v != "" {
			all = append(all, s.snaked[i], v)
		}
	}
	return all
}

// ResourceType is a resource as the label resource_type spells it: ephemeral_storage.
func ResourceType(resource string) string {
	return strings.ReplaceAll(strings.ToLower(resource), "-", "_")
}
