package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// nodes joins nodes with their claims, and adds claims that have no node yet: they will be capacity soon. It takes the pods
// that it has placed out of onNode.
func (b *builder) nodes(onNode map[string][]*world.Pod) []*world.Node {
	byProvider, byNode := map[string]*v1.NodeClaim{}, map[string]*v1.NodeClaim{}
	for _, c := range b.obj.Claims {
		if c.Status.ProviderID != "" {
			byProvider[c.Status.ProviderID] = c
		}
		if c.Status.NodeName != "" {
			byNode[c.Status.NodeName] = c
		}
	}
	limits := b.attachLimits()
	used := map[*v1.NodeClaim]bool{}
	var out []*world.Node
	for i, n := range b.obj.Nodes {
		if n.Name == "" || (i > 0 && b.obj.Nodes[i-1].Name == n.Name) {
			b.report(problem("Node", n.Name, "has no name or is listed twice; it is left out"))
			continue
		}
		claim := byProvider[n.Spec.ProviderID]
		if claim == nil || n.Spec.ProviderID == "" {
			claim = byNode[n.Name]
		}
		if claim != nil {
			used[claim] = true
		}
		w, err := b.node(n, claim, limits[n.Name])
		if err != nil {
			b.report(problem("Node", n.Name, "%v", err))
			delete(onNode, n.Name)
			continue
		}
		w.Pods = onNode[n.Name]
		w.Attached = b.attached(w.Pods)
		delete(onNode, n.Name)
		out = append(out, w)
	}
	for _, c := range b.obj.Claims {
		if used[c] {
			continue
		}
		w, err := b.inFlight(c)
		if err != nil {
			b.report(problem("NodeClaim", c.Name, "%v", err))
			continue
		}
		out = append(out, w)
	}
	return out
}

// node reads a node; until it is initialized, its claim says what it will be.
func (b *builder) node(n *corev1.Node, claim *v1.NodeClaim, attach corev1.ResourceList) (*world.Node, error) {
	labels := map[string]string{}
	for k, v := range n.Labels {
		labels[b.rules.Normalize(k)] = v
	}
	w := &world.Node{Name: n.Name, Initialized: true, Deleting: n.DeletionTimestamp != nil}
	taints := n.Spec.Taints
	allocatable, capacity := n.Status.Allocatable, n.Status.Capacity
	if claim != nil {
		w.Claim = claim.Name
		w.Deleting = w.Deleting || claim.DeletionTimestamp != nil
		w.Initialized = holds(claim, "Initialized") || n.Labels[v1.NodeInitializedLabelKey] == "true"
		if !holds(claim, "Registered") && n.Labels[v1.NodeRegisteredLabelKey] != "true" {
			for k, v := range claim.Labels {
				labels[b.rules.Normalize(k)] = v
			}
			taints = claimTaints(claim)
		}
		if !w.Initialized {
			allocatable = fallback(allocatable, claim.Status.Allocatable)
			capacity = fallback(capacity, claim.Status.Capacity)
			taints = slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return passing(t, claim) })
		}
	}
	if n.Spec.Unschedulable {
		taints = append(slices.Clip(taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, t := range taints {
		w.Deleting = w.Deleting || (t.Key == v1.DisruptedTaintKey && claim != nil)
		w.Taints = append(w.Taints, world.Taint{Key: t.Key, Value: t.Value, Effect: world.Effect(t.Effect)})
	}
	if len(attach) > 0 {
		allocatable = allocatable.DeepCopy()
		for k, q := range attach {
			allocatable[k] = q
		}
	}
	w.Pool = labels[v1.NodePoolLabelKey]
	w.Labels = world.NewLabels(labels)
	var err error
	if w.Allocatable, err = b.resources(allocatable); err != nil {
		return nil, err
	}
	w.Capacity, err = b.resources(capacity)
	return w, err
}

// holds says whether a condition of the claim is true.
func holds(c *v1.NodeClaim, kind string) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(x v1.Condition) bool { return x.Type == kind && x.Status == "True" })
}

// passing says whether a taint will go away by itself once the node has started.
func passing(t corev1.Taint, c *v1.NodeClaim) bool {
	return v1.IsKnownEphemeralTaint(t) || slices.ContainsFunc(c.Spec.StartupTaints, func(s v1.Taint) bool {
		return s.Key == t.Key && corev1.TaintEffect(s.Effect) == t.Effect && s.Value == t.Value
	})
}

func claimTaints(c *v1.NodeClaim) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range c.Spec.Taints {
		out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return out
}

// fallback takes from the claim what the node does not report yet, such as devices whose plugin has not started.
func fallback(have, claim corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for k, q := range have {
		out[k] = q
	}
	for k, q := range claim {
		if x := out[k]; x.IsZero() {
			out[k] = q
		}
	}
	return out
}

// inFlight is a claim whose node has not appeared: a node with what the claim promises. While not even the type is known, it
// has at least what the claim was made for.
func (b *builder) inFlight(c *v1.NodeClaim) (*world.Node, error) {
	labels := map[string]string{}
	for k, v := range c.Labels {
		labels[b.rules.Normalize(k)] = v
	}
	for _, r := range c.Spec.Requirements {
		key := b.rules.Normalize(r.Key)
		if _, ok := labels[key]; !ok && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			labels[key] = r.Values[0]
		}
	}
	w := &world.Node{
		Name: c.Name, Claim: c.Name, Pool: labels[v1.NodePoolLabelKey], InFlight: true, Deleting: c.DeletionTimestamp != nil, Labels: world.NewLabels(labels),
	}
	for _, t := range claimTaints(c) {
		w.Taints = append(w.Taints, world.Taint{Key: t.Key, Value: t.Value, Effect: world.Effect(t.Effect)})
	}
	allocatable, capacity := c.Status.Allocatable, c.Status.Capacity
	if len(allocatable) == 0 {
		allocatable, capacity = c.Spec.Resources.Requests, c.Spec.Resources.Requests
	}
	var err error
	if w.Allocatable, err = b.resources(allocatable); err != nil {
		return nil, err
	}
	w.Capacity, err = b.resources(capacity)
	return w, err
}

// attachLimits reads how many volumes each driver can attach to each node.
func (b *builder) attachLimits() map[string]corev1.ResourceList {
	out := map[string]corev1.ResourceList{}
	for _, n := range b.obj.CSINodes {
		for _, d := range n.Spec.Drivers {
			if d.Allocatable == nil || d.Allocatable.Count == nil {
				continue
			}
			if out[n.Name] == nil {
				out[n.Name] = corev1.ResourceList{}
			}
			out[n.Name][corev1.ResourceName(world.AttachPrefix+"csi-"+d.Name)] = *newQuantity(int64(*d.Allocatable.Count))
		}
	}
	return out
}

// attached lists the shared volumes that the pods have on their node already.
func (b *builder) attached(pods []*world.Pod) []string {
	var out []string
	for _, p := range pods {
		for _, s := range b.classes[p.Class].Shared {
			out = append(out, s.Claim)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
