package web

import (
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// nodeModel is a node as the page gets it.
type nodeModel struct {
	// Key stays the same from the claim to the node's end.
	Key    string  `json:"key"`
	Name   string  `json:"name,omitempty"`
	Claim  string  `json:"claim,omitempty"`
	Pool   string  `json:"pool,omitempty"`
	Type   string  `json:"type,omitempty"`
	Zone   string  `json:"zone,omitempty"`
	Market string  `json:"market,omitempty"`
	Price  float64 `json:"price,omitempty"`
	// CPU is in millicores and Memory in MiB: what pods may use, and what they ask for.
	CPU        int64 `json:"cpu"`
	Memory     int64 `json:"memory"`
	UsedCPU    int64 `json:"usedCPU"`
	UsedMemory int64 `json:"usedMemory"`
	// Created is in seconds since 1970.
	Created int64    `json:"created,omitempty"`
	State   string   `json:"state"`
	Notes   []string `json:"notes,omitempty"`
	Other   []other  `json:"other,omitempty"`
	Pods    podList  `json:"pods"`
}

// other is a further resource that the node has: GPUs and the like.
type other struct {
	Name string `json:"name"`
	Used int64  `json:"used"`
	All  int64  `json:"all"`
}

// States of a node.
const (
	stateReady     = "ready"
	stateLaunching = "launching"
	stateJoining   = "joining"
	stateStarting  = "starting"
	stateLeaving   = "deleting"
	stateNotReady  = "not ready"
)

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

// podList is written as one flat list, four entries for each pod: twenty thousand objects would take the browser longer to read
// than to draw.
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

// modelNode writes down a node of a view.
func modelNode(s *world.Snapshot, n *state.Node) *nodeModel {
	w := n.World
	load := w.Load(s.Classes).Requests
	m := &nodeModel{
		Key: keyOf(w), Claim: w.Claim, Pool: w.Pool, Price: w.Price,
		CPU: w.Allocatable.Get(world.CPU), Memory: mebi(w.Allocatable.Get(world.Memory)),
		UsedCPU: load.Get(world.CPU), UsedMemory: mebi(load.Get(world.Memory)),
		State: stateOf(n), Notes: notesOf(n), Pods: podRows(s, w.Pods),
	}
	if n.Object != nil {
		m.Name, m.Created = n.Object.Name, n.Object.CreationTimestamp.Unix()
	}
	if n.Claim != nil && !n.Claim.CreationTimestamp.IsZero() {
		m.Created = n.Claim.CreationTimestamp.Unix()
	}
	m.Type, _ = w.Labels.Get(world.LabelInstanceType)
	m.Zone, _ = w.Labels.Get(world.LabelZone)
	m.Market = w.CapacityType()
	for i := world.Storage + 1; i < len(s.Resources); i++ {
		if all := w.Allocatable.Get(i); all > 0 && all < world.Unlimited && !world.UnlimitedWhenAbsent(s.Resources[i]) {
			m.Other = append(m.Other, other{Name: s.Resources[i], Used: load.Get(i), All: all})
		}
	}
	return m
}

func podRows(s *world.Snapshot, pods []*world.Pod) podList {
	out := make(podList, 0, len(pods))
	for _, p := range pods {
		r := s.Classes[p.Class].Requests
		row := podRow{name: s.PodName(p), cpu: r.Get(world.CPU), memory: mebi(r.Get(world.Memory))}
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

// mebi rounds bytes up to MiB.
func mebi(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// stateOf says how far the node has come.
func stateOf(n *state.Node) string {
	switch {
	case n.World.Deleting:
		return stateLeaving
	case n.World.InFlight && !is(n.Claim, v1.ConditionLaunched):
		return stateLaunching
	case n.World.InFlight:
		return stateJoining
	case !n.World.Initialized:
		return stateStarting
	case n.Object != nil && !ready(n.Object):
		return stateNotReady
	}
	return stateReady
}

func is(claim *v1.NodeClaim, condition string) bool {
	if claim == nil {
		return false
	}
	for i := range claim.Status.Conditions {
		if c := &claim.Status.Conditions[i]; c.Type == condition {
			return c.Status == "True"
		}
	}
	return false
}

// ready takes a node without the condition for ready: snapshots are often written without it.
func ready(n *corev1.Node) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return true
}

// notesOf lists what else is worth knowing of a node at a glance.
func notesOf(n *state.Node) []string {
	var out []string
	if n.Claim == nil {
		out = append(out, "not made by a pool")
	}
	if is(n.Claim, v1.ConditionDrifted) {
		out = append(out, "drifted")
	}
	if n.Object != nil && n.Object.Spec.Unschedulable {
		out = append(out, "cordoned")
	}
	held := n.Object != nil && n.Object.Annotations[v1.DoNotDisruptAnnotationKey] == "true"
	if held || (n.Claim != nil && n.Claim.Annotations[v1.DoNotDisruptAnnotationKey] == "true") {
		out = append(out, "do not disrupt")
	}
	if n.Assumed {
		out = append(out, "just asked for")
	}
	return out
}
