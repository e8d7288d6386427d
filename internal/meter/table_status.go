package meter

import (
	"slices"
	"strings"
)

// Tracked are the kinds whose conditions are measured (O45), by the word that their metrics carry.
type Tracked string

// Kinds with conditions. A provider's kind of node class is one more.
const (
	NodeClaim   Tracked = "nodeclaim"
	NodePool    Tracked = "nodepool"
	Node        Tracked = "node"
	Buffer      Tracked = "capacitybuffer"
	NodeOverlay Tracked = "nodeoverlay"
)

// Class is the provider's kind of node class.
func (c Cloud) Class() Tracked { return Tracked(strings.ToLower(c.Kind)) }

// trackedKind has the labels of an object that its metrics carry, and how the older metrics without a kind in their name call
// it; nodes never had those.
type trackedKind struct {
	kind          Tracked
	extra         []string
	group, oldest string
}

func (c Cloud) tracked() []trackedKind {
	class := c.Group + "/" + string(c.Class()) // the label by which nodes and claims name theirs
	all := []trackedKind{
		{NodeClaim, []string{"karpenter.sh/nodepool", class}, "karpenter.sh", "NodeClaim"},
		{NodePool, nil, "karpenter.sh", "NodePool"},
		{Node, []string{"karpenter.sh/nodepool", class, "karpenter.sh/initialized"}, "", ""},
		{c.Class(), nil, c.Group, c.Kind},
		{Buffer, nil, "autoscaling.x-k8s.io", "CapacityBuffer"},
		{NodeOverlay, nil, "karpenter.sh", "NodeOverlay"},
	}
	if c.Kind != "" {
		return all
	}
	all[0].extra, all[2].extra = []string{"karpenter.sh/nodepool"}, []string{"karpenter.sh/nodepool", "karpenter.sh/initialized"}
	return slices.Delete(all, 3, 4)
}

// Suffixes of the status metrics of a kind.
const (
	transitionSeconds  = "status_condition_transition_seconds"
	transitionsTotal   = "status_condition_transitions_total"
	conditionCount     = "status_condition_count"
	conditionSeconds   = "status_condition_current_status_seconds"
	terminationSeconds = "termination_duration_seconds"
	terminatingSeconds = "termination_current_time_seconds"
)

// statusName is the name of a status metric of a kind, or with no kind the older one for all.
func statusName(kind Tracked, suffix string) Name {
	if kind == "" {
		return Name("operator_" + suffix)
	}
	return Name("operator_" + string(kind) + "_" + suffix)
}

func statusMetrics(c Cloud) []Metric {
	all := statusOf("", "an object (older name, without the kind in it)", []string{"group", "kind"}, short())
	for _, t := range c.tracked() {
		labels := make([]string, len(t.extra))
		for i, key := range t.extra {
			labels[i] = whole(key)
		}
		all = append(all, statusOf(t.kind, "a "+string(t.kind), labels, doubling(.5, 15))...)
	}
	return all
}

func statusOf(kind Tracked, of string, extra []string, buckets []float64) []Metric {
	object := []string{"name", "namespace"}
	condition := append(slices.Clone(object), "type", "status", "reason")
	with := func(labels ...string) []string { return slices.Concat(labels, extra) }
	return []Metric{
		{
			Name: statusName(kind, transitionSeconds), Kind: Histogram, ID: "O45", Labels: with("type", "status", "to_status"), Buckets: buckets,
			Help: "For how long a condition of " + of + " had one status before it changed.",
		},
		{
			Name: statusName(kind, transitionsTotal), Kind: Counter, ID: "O45", Labels: with("type", "status", "reason"),
			Help: "Changes of a condition of " + of + " to a status.",
		},
		{
			Name: statusName(kind, conditionCount), Kind: Gauge, ID: "O45", Labels: with(condition...), Most: maxStatus,
			Help: "One for each condition of " + of + ", with its status.",
		},
		{
			Name: statusName(kind, conditionSeconds), Kind: Gauge, ID: "O45", Labels: with(condition...), Most: maxStatus,
			Help: "For how long a condition of " + of + " has had its status.",
		},
		{
			Name: statusName(kind, terminationSeconds), Kind: Histogram, ID: "O45", Labels: with(), Buckets: buckets,
			Help: "Time from the deletion of " + of + " until it was gone.",
		},
		{
			Name: statusName(kind, terminatingSeconds), Kind: Gauge, ID: "O45", Labels: with(object...), Most: maxStatus,
			Help: "For how long " + of + " has been terminating.",
		},
	}
}
