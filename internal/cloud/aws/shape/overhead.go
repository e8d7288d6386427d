package shape

import (
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"karpenter/internal/engine/world"
)

// Memory that the kubelet and the container runtime need: a base, and some for every pod.
const (
	kubeletBaseMiB = 255
	perPodMiB      = 11
)

// evictionMemory is what the kubelet keeps free before it evicts.
const evictionMemory = 100 * mib

// coreBrackets give the kubelet's share of CPU: so many millicores in a hundred thousand of each core up to a number.
var coreBrackets = []struct {
	upTo  int64
	share int64
}{{1, 6000}, {2, 1000}, {4, 500}, {math.MaxInt64, 250}}

// Allocatable is what of the capacity pods can use.
func Allocatable(m *Type, s *Settings, capacity world.Resources) world.Resources {
	kubelet := s.kubelet()
	left := capacity.Minus(kubeReserved(m, s, capacity))
	left = left.Minus(listed(kubelet.SystemReserved))
	left = left.Minus(eviction(s, capacity))
	for i, v := range left {
		left[i] = max(v, 0)
	}
	if ebsVolumes < len(capacity) {
		left[ebsVolumes] = capacity[ebsVolumes] // may be world.NoAttachments
	}
	return left
}

func kubeReserved(m *Type, s *Settings, capacity world.Resources) world.Resources {
	pods := capacity[world.PodSlot]
	if traits[s.Family].eniOverhead {
		pods = addressPods(m, s, 0)
	}
	r := make(world.Resources, world.Storage+1)
	r[world.CPU] = kubeletCPU(m.VCPUs)
	r[world.Memory] = (perPodMiB*pods + kubeletBaseMiB) * mib
	r[world.Storage] = gib
	for name, text := range s.kubelet().KubeReserved {
		if i, ok := reservable[name]; ok {
			r[i] = amount(i, text)
		}
	}
	return r
}

func kubeletCPU(cores int64) int64 {
	sum, done := int64(0), int64(0)
	for _, b := range coreBrackets {
		in := min(cores, b.upTo) - done
		if in <= 0 {
			break
		}
		sum += in * 1000 * b.share / 100000
		done += in
	}
	return sum
}

// reservable are the keys of kubeReserved and systemReserved that count against a node's room.
var reservable = map[string]int{"cpu": world.CPU, "memory": world.Memory, "ephemeral-storage": world.Storage}

func listed(reserved map[string]string) world.Resources {
	r := make(world.Resources, world.Storage+1)
	for name, text := range reserved {
		if i, ok := reservable[name]; ok {
			r[i] = amount(i, text)
		}
	}
	return r
}

// amount reads a quantity in the unit of a resource. The class has been validated; what still cannot be read counts as
// nothing, because the kubelet would not start with it either.
func amount(i int, text string) int64 {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	if i == world.CPU {
		return q.MilliValue()
	}
	return q.Value()
}

func eviction(s *Settings, capacity world.Resources) world.Resources {
	hard := s.kubelet().EvictionHard
	r := make(world.Resources, world.Storage+1)
	r[world.Memory] = evictionMemory
	r[world.Storage] = int64(math.Ceil(float64(capacity[world.Storage]) / 100 * 10))
	if text, ok := hard["memory.available"]; ok {
		r[world.Memory] = threshold(text, capacity[world.Memory])
	}
	if text, ok := hard["nodefs.available"]; ok {
		r[world.Storage] = threshold(text, capacity[world.Storage])
	}
	return r
}

// threshold reads an eviction limit. A whole hundred percent turns the limit off, as it does for the kubelet.
func threshold(text string, capacity int64) int64 {
	percent, is := strings.CutSuffix(text, "%")
	if !is {
		return amount(world.Memory, text)
	}
	p, err := strconv.ParseFloat(percent, 64)
	if err != nil || p >= 100 {
		return 0
	}
	return int64(math.Ceil(float64(capacity) / 100 * p))
}
