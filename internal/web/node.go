package web

import (
	"encoding/json"
	"strconv"

	"karpenter/internal/engine/world"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// liveNode is a node as the page gets it: what every document says of it, with its pods.
type liveNode struct {
	// Key stays the same from the claim to the node's end.
	Key string `json:"key"`
	model.FleetNode
	PodRows podList `json:"podRows"`
}

// What the page knows of a pod besides its name and requests, as a sum.
const (
	podDaemon      = 1
	podTerminating = 2
	podFixed       = 4 // nothing may move it
)

// podRow is a pod on a node.
type podRow struct {
	name        string // namespace/name
	cpu, memory int64
	flags       int
}

// podList is written as one flat list, four entries for each pod (namespace/name, millicores, bytes, flags): twenty thousand objects
// would take the browser longer to read than to draw.
type podList []podRow

// MarshalJSON implements json.Marshaler.
func (l podList) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+len(l)*64)
	out = append(out, '[')
	for i := range l {
		name, err := json.Marshal(l[i].name)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, name...), ',')
		out = append(strconv.AppendInt(out, l[i].cpu, 10), ',')
		out = append(strconv.AppendInt(out, l[i].memory, 10), ',')
		out = strconv.AppendInt(out, int64(l[i].flags), 10)
	}
	return append(out, ']'), nil
}

// keyOf names a node for as long as it is there.
func keyOf(n *world.Node) string {
	if n.Claim != "" {
		return n.Claim
	}
	return "node/" + n.Name
}

// newLiveNode writes down a node of a view.
func newLiveNode(s *world.Snapshot, n *state.Node) *liveNode {
	return &liveNode{Key: keyOf(n.World), FleetNode: model.NewFleetNode(s, n), PodRows: podRows(s, n.World.Pods)}
}

func podRows(s *world.Snapshot, pods []*world.Pod) podList {
	out := make(podList, 0, len(pods))
	for _, p := range pods {
		r := s.Classes[p.Class].Requests
		row := podRow{name: s.PodName(p), cpu: r.Get(world.CPU), memory: r.Get(world.Memory)}
		if p.Daemon || p.Mirror {
			row.flags |= podDaemon
		} else if !p.Movable {
			row.flags |= podFixed
		}
		if p.Terminating {
			row.flags |= podTerminating
		}
		out = append(out, row)
	}
	return out
}
