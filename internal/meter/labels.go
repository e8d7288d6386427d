package meter

import "strings"

// wellKnown are the node labels that metrics by node carry (O12), in the order in which they are shown.
var wellKnown = []string{
	"karpenter.sh/nodepool", "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type",
	"kubernetes.io/arch", "kubernetes.io/os", "karpenter.sh/capacity-type", "node.kubernetes.io/windows-build",
	"karpenter.k8s.aws/ec2nodeclass", "karpenter.k8s.aws/instance-category", "karpenter.k8s.aws/instance-family",
	"karpenter.k8s.aws/instance-generation", "karpenter.k8s.aws/instance-size", "karpenter.k8s.aws/instance-cpu",
	"karpenter.k8s.aws/instance-cpu-manufacturer", "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
	"karpenter.k8s.aws/instance-memory", "karpenter.k8s.aws/instance-ebs-bandwidth", "karpenter.k8s.aws/instance-network-bandwidth",
	"karpenter.k8s.aws/instance-local-nvme", "karpenter.k8s.aws/instance-hypervisor",
	"karpenter.k8s.aws/instance-encryption-in-transit-supported", "karpenter.k8s.aws/instance-capability-flex",
	"karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-manufacturer", "karpenter.k8s.aws/instance-gpu-count",
	"karpenter.k8s.aws/instance-gpu-memory", "karpenter.k8s.aws/instance-accelerator-name",
	"karpenter.k8s.aws/instance-accelerator-manufacturer", "karpenter.k8s.aws/instance-accelerator-count",
	"karpenter.k8s.aws/instance-tenancy", "karpenter.k8s.aws/nitro-sandbox", "karpenter.k8s.aws/capacity-reservation-id",
	"karpenter.k8s.aws/capacity-reservation-type", "karpenter.k8s.aws/capacity-reservation-interruptible",
	"karpenter.k8s.aws/placement-group-id", "karpenter.k8s.aws/placement-group-partition", "topology.k8s.aws/zone-id",
}

// snake is the label of a metric that shows a label of a node: what stands behind the slash, with underscores.
func snake(key string) string {
	_, name, _ := strings.Cut(key, "/")
	return strings.ReplaceAll(name, "-", "_")
}

// snaked are the wellKnown as metrics spell them.
var snaked = snakes()

func snakes() []string {
	labels := make([]string, len(wellKnown))
	for i, key := range wellKnown {
		labels[i] = snake(key)
	}
	return labels
}

// NodeLabels returns the pairs that describe a node in the metrics by node (O12), from the node's own labels. Pairs of
// the caller, such as "node_name" and its value, come first.
func NodeLabels(labels map[string]string, pairs ...string) []string {
	all := make([]string, len(pairs), len(pairs)+2*len(wellKnown))
	copy(all, pairs)
	for i, key := range wellKnown {
		if v := labels[key]; v != "" {
			all = append(all, snaked[i], v)
		}
	}
	return all
}

// ResourceType is a resource as the label resource_type spells it: ephemeral_storage.
func ResourceType(resource string) string {
	return strings.ReplaceAll(strings.ToLower(resource), "-", "_")
}
