package model

import (
	"strings"
	"time"

	"karpenter/internal/state"
)

// NodeDetail is what the Node and the NodeClaim themselves say of a node.
type NodeDetail struct {
	// InstanceID is the cloud's name of the instance.
	InstanceID string            `json:"instanceID,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	// Taints are written key=value:effect.
	Taints     []string    `json:"taints,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is a condition of the Node or the NodeClaim; Of says which.
type Condition struct {
	Of      string    `json:"of"`
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// NewNodeDetail reads the objects behind a node.
func NewNodeDetail(n *state.Node) *NodeDetail {
	d := &NodeDetail{}
	provider := ""
	if c := n.Claim; c != nil {
		d.Labels, provider = c.Labels, c.Status.ProviderID
	}
	if o := n.Object; o != nil {
		d.Labels = o.Labels
		if provider == "" {
			provider = o.Spec.ProviderID
		}
		for i := range o.Status.Conditions {
			x := &o.Status.Conditions[i]
			d.Conditions = append(d.Conditions, Condition{"Node", string(x.Type), string(x.Status), x.Reason, x.Message, x.LastTransitionTime.UTC()})
		}
	}
	if c := n.Claim; c != nil {
		for i := range c.Status.Conditions {
			x := &c.Status.Conditions[i]
			d.Conditions = append(d.Conditions, Condition{"NodeClaim", x.Type, string(x.Status), x.Reason, x.Message, x.LastTransitionTime.UTC()})
		}
	}
	d.InstanceID = provider[strings.LastIndex(provider, "/")+1:]
	for _, t := range n.World.Taints {
		d.Taints = append(d.Taints, t.String())
	}
	return d
}
