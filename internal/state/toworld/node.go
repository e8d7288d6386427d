package toworld

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// Node reads a node; until it is initialized, its claim says what it will be. What is said of its volumes in csi, which may be nil, is
// all that is known of them here.
func (b *Converter) Node(n *corev1.Node, claim *v1.NodeClaim, csi *storagev1.CSINode) (*world.Node, error) {
	labels := b.Rules.Normalized(n.Labels)
	w := &world.Node{Name: n.Name, Initialized: true, Deleting: n.DeletionTimestamp != nil}
	taints := n.Spec.Taints
	allocatable, capacity := n.Status.Allocatable, n.Status.Capacity
	if claim != nil {
		w.Claim = claim.Name
		w.Deleting = w.Deleting || claim.DeletionTimestamp != nil || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey })
		w.Initialized = Holds(claim, "Initialized") || n.Labels[v1.NodeInitializedLabelKey] == "true"
		if !Holds(claim, "Registered") && n.Labels[v1.NodeRegisteredLabelKey] != "true" {
			maps.Copy(labels, b.Rules.Normalized(claim.Labels))
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
		if t.Key == v1.RebootingTaintKey {
			continue // the node comes back, and its room with it (N7)
		}
		w.Taints = append(w.Taints, world.Taint{Key: t.Key, Value: t.Value, Effect: world.Effect(t.Effect)})
	}
	w.Pool = labels[v1.NodePoolLabelKey]
	w.Labels = world.NewLabels(labels)
	var err error
	if w.Allocatable, err = Resources(b.Names, allocatable); err != nil {
		return nil, err
	}
	b.attachLimits(w, csi)
	w.Capacity, err = Resources(b.Names, capacity)
	return w, err
}

// Holds says whether a condition of the claim is true.
func Holds(c *v1.NodeClaim, kind string) bool {
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

// InFlight is a claim whose node has not appeared: a node with what the claim promises. While no instance has been launched for
// it, it has exactly what the claim was made for, and counts against limits as the largest instance that it may become.
func (b *Converter) InFlight(c *v1.NodeClaim, largest func(*v1.NodeClaim) world.Resources) (*world.Node, error) {
	labels, zone := b.Rules.Normalized(c.Labels), ""
	for _, r := range c.Spec.Requirements {
		key := b.Rules.Normalize(r.Key)
		if _, ok := labels[key]; !ok && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			labels[key] = r.Values[0]
		}
		if key == world.LabelZone && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 1 {
			zone = r.Values[0]
		}
	}
	w := &world.Node{
		Name: c.Name, Claim: c.Name, Pool: labels[v1.NodePoolLabelKey], InFlight: true, Deleting: c.DeletionTimestamp != nil, Labels: world.NewLabels(labels), FirstZone: zone,
	}
	for _, t := range claimTaints(c) {
		w.Taints = append(w.Taints, world.Taint{Key: t.Key, Value: t.Value, Effect: world.Effect(t.Effect)})
	}
	known := len(c.Status.Allocatable) > 0
	allocatable, capacity := c.Status.Allocatable, c.Status.Capacity
	if !known {
		allocatable, capacity = c.Spec.Resources.Requests, c.Spec.Resources.Requests
	}
	var err error
	if w.Allocatable, err = Resources(b.Names, allocatable); err != nil {
		return nil, err
	}
	if w.Capacity, err = Resources(b.Names, capacity); err == nil && !known {
		w.Capacity = w.Capacity.Max(largest(c))
	}
	return w, err
}

// attachLimits reads how many volumes each driver can attach to a node. A driver that does not say attaches any number.
func (b *Converter) attachLimits(w *world.Node, csi *storagev1.CSINode) {
	if csi == nil {
		return
	}
	for _, d := range csi.Spec.Drivers {
		limit := int64(world.Unlimited)
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			limit = world.AttachLimit(int64(*d.Allocatable.Count))
		}
		w.Allocatable = w.Allocatable.Set(b.Names.Index(world.AttachResource(d.Name)), limit)
	}
}

// AttachFallback gives a node the limits of its type for drivers that have said nothing on it, such as one that is still starting (N2).
func (b *Converter) AttachFallback(w *world.Node, t *world.InstanceType) {
	for i, name := range b.Names.List() {
		if limit := t.Allocatable.Get(i); limit != 0 && w.Allocatable.Get(i) == 0 && world.UnlimitedWhenAbsent(name) {
			w.Allocatable = w.Allocatable.Set(i, limit)
		}
	}
}
