// Package world holds the plain values that every decision is made from: pods collapsed to classes, nodes, pools, instance
// types with their offerings, and the Snapshot that ties them together.
//
// Values are immutable once they are in a Snapshot: whoever changes something builds a new value and a new Snapshot that
// shares the rest, so any number of readers may hold any number of snapshots without locks. An Overlay is a what-if on
// a Snapshot and costs what it touches. The package does no I/O and knows no Kubernetes type; quantities are integers
// in the smallest unit of their resource (millicores, bytes, pieces).
package world

import (
	"slices"
	"strings"

	"karpenter/internal/engine/req"
)

// Well-known label keys that the engine itself reads.
const (
	LabelHostname     = "kubernetes.io/hostname"
	LabelZone         = "topology.kubernetes.io/zone"
	LabelRegion       = "topology.kubernetes.io/region"
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelPool         = "karpenter.sh/nodepool"
	LabelCapacityType = "karpenter.sh/capacity-type"
	LabelRegistered   = "karpenter.sh/registered"
	LabelInitialized  = "karpenter.sh/initialized"

	// What says of nodes that others have made how they are paid for: managed node groups have SPOT or ON_DEMAND in a label of this name,
	// in the domain of their cloud; others have a text with "spot" in it in the usual label.
	nameCapacityType = "/capacityType"
	labelLifecycle   = "node.kubernetes.io/lifecycle"
)

// Capacity types in the order in which a price is expected to rise.
const (
	CapacityReserved = "reserved"
	CapacitySpot     = "spot"
	CapacityOnDemand = "on-demand"
)

// Label is one key with its value.
type Label struct{ Key, Value string }

// Labels is sorted by key, with each key once.
type Labels []Label

// NewLabels sorts a label map.
func NewLabels(m map[string]string) Labels {
	out := make(Labels, 0, len(m))
	for k, v := range m {
		out = append(out, Label{k, v})
	}
	slices.SortFunc(out, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Get is the value of key and whether there is one.
func (l Labels) Get(key string) (string, bool) {
	i, found := slices.BinarySearchFunc(l, key, func(x Label, k string) int { return strings.Compare(x.Key, k) })
	if !found {
		return "", false
	}
	return l[i].Value, true
}

// With is l with one label set.
func (l Labels) With(key, value string) Labels {
	i, found := slices.BinarySearchFunc(l, key, func(x Label, k string) int { return strings.Compare(x.Key, k) })
	if found {
		out := slices.Clone(l)
		out[i].Value = value
		return out
	}
	return slices.Insert(slices.Clone(l), i, Label{key, value})
}

// Selector picks pods by their labels. The zero value picks none, as a missing selector does; Everything picks all.
type Selector struct {
	// Some is false for a selector that matches nothing.
	Some bool
	Need req.Set
}

// Matches says whether the selector picks a pod with these labels.
func (s Selector) Matches(l Labels) bool {
	return s.Some && s.Need.Admits(l.Get)
}

// Effect is what a taint does to pods that do not tolerate it.
type Effect string

// The effects.
const (
	NoSchedule       Effect = "NoSchedule"
	PreferNoSchedule Effect = "PreferNoSchedule"
	NoExecute        Effect = "NoExecute"
)

// Taint repels pods from a node.
type Taint struct {
	Key, Value string
	Effect     Effect
}

// String prints the taint as kubectl does.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// Toleration lets a pod ignore matching taints. An empty Key with Exists matches every taint, an empty Effect every effect.
type Toleration struct {
	Key, Operator, Value string
	Effect               Effect
}

// Tolerates says whether the toleration covers the taint.
func (t Toleration) Tolerates(x Taint) bool {
	if t.Effect != "" && t.Effect != x.Effect {
		return false
	}
	if t.Key != "" && t.Key != x.Key {
		return false
	}
	switch t.Operator {
	case "", "Equal":
		return t.Key != "" && t.Value == x.Value
	case "Exists":
		return true
	case "Lt", "Gt":
		r, err := req.New("value", req.Operator(t.Operator), t.Value)
		return err == nil && r.Admits(x.Value, true)
	}
	return false
}

// Untolerated is the first taint that none of the tolerations cover. With soft, PreferNoSchedule repels like the others.
func Untolerated(taints []Taint, tolerations []Toleration, soft bool) (Taint, bool) {
	for _, x := range taints {
		if x.Effect == PreferNoSchedule && !soft {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(t Toleration) bool { return t.Tolerates(x) }) {
			return x, true
		}
	}
	return Taint{}, false
}

// Port is a port of the host that a pod occupies. An empty IP, 0.0.0.0 or :: stands for every address.
type Port struct {
	IP, Protocol string
	Port         int32
}

// Conflicts says whether two pods with these ports cannot share a host.
func (p Port) Conflicts(o Port) bool {
	return p.Port == o.Port && p.Protocol == o.Protocol && (p.IP == o.IP || p.any() || o.any())
}

func (p Port) any() bool { return p.IP == "" || p.IP == "0.0.0.0" || p.IP == "::" }

// PortsConflict says whether any port of a conflicts with any of b.
func PortsConflict(a, b []Port) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Conflicts(y) {
				return true
			}
		}
	}
	return false
}
