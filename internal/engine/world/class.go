package world

import "karpenter/internal/engine/req"

// Class is a set of pods that no rule can tell apart: same requests, constraints and (as far as any selector reads them)
// labels. Work is done per class, not per pod.
type Class struct {
	// ID is the index in Snapshot.Classes.
	ID        int32
	Namespace string
	Labels    Labels
	// Requests is what one pod takes, with one PodSlot, overhead, sidecars and volume attachments that it alone uses.
	Requests Resources
	Priority int32
	// Needs must all hold: node selector and required node affinity.
	Needs []Clause
	// Volumes must all hold too, but do not count as the pod's own wish when nodes are counted for topology spread.
	Volumes []Clause
	// Prefers lists preferred node affinity, heaviest first.
	Prefers     []Preference
	Tolerations []Toleration
	Spread      []Spread
	// Affinity and AntiAffinity list required terms (Weight 0) first, then preferred ones, heaviest first.
	Affinity     []PodTerm
	AntiAffinity []PodTerm
	Ports        []Port
	// Shared lists volumes that more than one pod mounts: they take one attachment per node, however many pods use them.
	Shared []SharedVolume
	// Refused says why pods of this class are not planned at all; empty for most.
	Refused string
	// Buffer names the CapacityBuffer, as namespace/name, whose spare pods are of this class; empty for pods that exist. Spare and
	// other pods never share a class.
	Buffer string
}

// Clause holds when one of its terms does. A clause without terms never holds.
type Clause struct {
	// Source says where the clause comes from, for people: "node selector", "volume data-0".
	Source string
	Terms  []req.Set
}

// Admits says whether a node with these labels satisfies one of the terms.
func (c Clause) Admits(get func(string) (string, bool)) bool {
	for _, t := range c.Terms {
		if t.Admits(get) {
			return true
		}
	}
	return false
}

// Preference is a node affinity term that a pod would like to hold.
type Preference struct {
	Weight int32
	Term   req.Set
}

// Spread keeps pods that the selector matches even over the values of a node label.
type Spread struct {
	Key        string
	MaxSkew    int32
	MinDomains int32 // 0 when not given
	// Hard is false for ScheduleAnyway, which counts as a preference.
	Hard     bool
	Selector Selector
	// HonorAffinity counts only nodes that the pod's node selector and affinity admit; HonorTaints only those it tolerates.
	HonorAffinity bool
	HonorTaints   bool
}

// Lingers says whether a node that is being removed counts as a domain until it is gone: kube-scheduler counts nodes whatever their taints,
// unless the pod says otherwise, and spreads pods over hosts that have none.
func (s *Spread) Lingers() bool { return s.Key == LabelHostname && !s.HonorTaints }

// PodTerm ties a pod to, or keeps it from, nodes by the pods that are already in their topology domain.
type PodTerm struct {
	Key      string
	Selector Selector
	// Namespaces is sorted and already includes what a namespace selector matched; All stands for every namespace.
	Namespaces    []string
	AllNamespaces bool
	// Weight is 0 for a required term.
	Weight int32
}

// SharedVolume is one attachment of a claim that several pods mount.
type SharedVolume struct {
	Resource int // index of the driver's attach resource
	Claim    string
}

// Pod is one pod of a class.
type Pod struct {
	Name  string
	UID   string
	Class int32
	// Created is in seconds since 1970.
	Created int64
	// Terminating pods still occupy their node but no longer count for topology.
	Terminating bool
	// Daemon marks pods of a DaemonSet, Mirror static pods; neither is ever moved.
	Daemon bool
	Mirror bool
	// Spare pods do not exist: a CapacityBuffer keeps room for them.
	Spare bool
	// Movable says whether the pod wants a new place when its node goes away: it is active (or a StatefulSet will bring it
	// back), nothing forbids its disruption, and no disruption budget blocks it for good.
	Movable bool
}
