package model

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// Node says which node is meant, what kind of instance it is, and which of its pods are meant.
type Node struct {
	// Claim and Node are its names, as far as it has them.
	Claim        string `json:"claim,omitempty"`
	Node         string `json:"node,omitempty"`
	Pool         string `json:"pool,omitempty"`
	Type         string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	// Price is in dollars; it is missing where nobody knows it.
	Price float64 `json:"pricePerHour,omitempty"`
	// Overlay is the NodeOverlay that the price is from, and ListPrice what the cloud says.
	Overlay   string  `json:"priceOverlay,omitempty"`
	ListPrice float64 `json:"listPricePerHour,omitempty"`
	// Pods are written namespace/name.
	Pods []string `json:"pods,omitempty"`
}

// Words describes the instance: m6i.large in us-west-2a, spot, $0.0412/h.
func (n *Node) Words() string {
	text := cmp.Or(n.Type, "instance")
	if n.Zone != "" {
		text += " in " + n.Zone
	}
	if n.CapacityType != "" {
		text += ", " + n.CapacityType
	}
	if n.Price > 0 {
		text += ", " + why.Money(n.Price)
	}
	return text
}

// Concerns says whether the node, or a pod that is named with it, is the object of a kind and name.
func (n *Node) Concerns(kind, namespace, name string) bool {
	switch kind {
	case "Node":
		return n.Node == name
	case "NodeClaim":
		return n.Claim == name
	case "NodePool":
		return n.Pool == name
	case "Pod":
		return slices.Contains(n.Pods, namespace+"/"+name)
	}
	return false
}

// NodeOf is a node that is there, or on its way, without its pods.
func NodeOf(n *world.Node) Node {
	label := func(key string) string { v, _ := n.Labels.Get(key); return v }
	m := Node{Claim: n.Claim, Pool: n.Pool, Type: label(world.LabelInstanceType), Zone: label(world.LabelZone), CapacityType: n.CapacityType(), Price: n.Price, Overlay: n.PricedBy, ListPrice: n.ListPrice}
	if !n.InFlight {
		m.Node = n.Name
	}
	return m
}

// NewNode is a node that a plan adds, as the plan expects it.
func NewNode(s *world.Snapshot, n *pack.NewNode) Node {
	m := Node{Pool: n.Pool.Name, Price: n.Price(), Pods: PodNames(s, n.Pods)}
	if len(n.Choices) > 0 {
		c := n.Choices[0]
		m.Type, m.Zone, m.CapacityType = c.Type.Name, c.Offering.Zone, c.Offering.CapacityType
		m.Overlay, m.ListPrice = c.Offering.PricedBy, c.Offering.ListPrice
	}
	return m
}

// ClaimNode is the node of a claim, as far as the claim shows it; it has no price.
func ClaimNode(claim *v1.NodeClaim) Node {
	return Node{
		Claim: claim.Name, Node: claim.Status.NodeName, Pool: claim.Labels[v1.NodePoolLabelKey], Type: claim.Labels[corev1.LabelInstanceTypeStable],
		Zone: claim.Labels[corev1.LabelTopologyZone], CapacityType: claim.Labels[v1.CapacityTypeLabelKey],
	}
}

// PodNames names pods: namespace/name.
func PodNames(s *world.Snapshot, pods []*world.Pod) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = s.PodName(p)
	}
	return out
}
