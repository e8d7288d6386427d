package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/world"
)

// Spare is room that is held for pods of a CapacityBuffer which do not exist yet.
type Spare struct {
	// Buffer is written namespace/name. CPU and Memory are what all of the pods together would request.
	Buffer string `json:"buffer"`
	Pods   int    `json:"pods"`
	CPU    int64  `json:"cpuMillicores"`
	Memory int64  `json:"memoryBytes"`
}

// NewSpare writes down the spare ones of some pods, a row for each buffer in order of name.
func NewSpare(s *world.Snapshot, pods []*world.Pod) []Spare {
	var out []Spare
	for _, p := range pods {
		if !p.Spare {
			continue
		}
		class := s.Classes[p.Class]
		out = addRoom(out, Spare{class.Buffer, 1, class.Requests.Get(world.CPU), class.Requests.Get(world.Memory)})
	}
	return out
}

// SpareRoom is the room that nodes of a world hold for buffers by a decision, by the index of the node.
func SpareRoom(s *world.Snapshot, d *disrupt.Decision) map[int32][]Spare {
	if len(d.Spares) == 0 {
		return nil
	}
	each := map[string]world.Resources{}
	for _, p := range s.Spare {
		each[s.Classes[p.Class].Buffer] = s.Classes[p.Class].Requests
	}
	out := make(map[int32][]Spare, len(d.Spares))
	for node, held := range d.Spares {
		for _, h := range held {
			n := int64(h.Pods)
			out[node] = append(out[node], Spare{h.Buffer, h.Pods, n * each[h.Buffer].Get(world.CPU), n * each[h.Buffer].Get(world.Memory)})
		}
	}
	return out
}

// addRoom adds room to a list that has a row for each buffer, in order of name.
func addRoom(list []Spare, more Spare) []Spare {
	at, found := slices.BinarySearchFunc(list, more, func(a, b Spare) int { return strings.Compare(a.Buffer, b.Buffer) })
	if !found {
		return slices.Insert(list, at, more)
	}
	list[at].Pods += more.Pods
	list[at].CPU += more.CPU
	list[at].Memory += more.Memory
	return list
}

// addSpare adds up the room that nodes hold for each buffer.
func addSpare(nodes []*FleetNode) []Spare {
	sums := map[string]Spare{}
	for _, n := range nodes {
		for _, x := range n.Spare {
			sum := sums[x.Buffer]
			sums[x.Buffer] = Spare{x.Buffer, sum.Pods + x.Pods, sum.CPU + x.CPU, sum.Memory + x.Memory}
		}
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b Spare) int { return cmp.Compare(a.Buffer, b.Buffer) })
}

// SpareSum is the room of several buffers together, without a name.
func SpareSum(list []Spare) (sum Spare) {
	for _, x := range list {
		sum.Pods += x.Pods
		sum.CPU += x.CPU
		sum.Memory += x.Memory
	}
	return sum
}

// Words says it: default/web 3.
func (x Spare) Words() string { return fmt.Sprintf("%s %d", x.Buffer, x.Pods) }
