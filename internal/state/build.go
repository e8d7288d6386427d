package state

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// Options says how objects are to be read.
type Options struct {
	// Aliases maps label keys that a provider knows under another name, such as the zone key of a CSI driver.
	Aliases map[string]string
	// WellKnown lists further label keys that a provider resolves, ProviderDomains domains of which it resolves every key.
	WellKnown       []string
	ProviderDomains []string
	// DefaultSpread is applied to pods that have no topology spread constraint of their own.
	DefaultSpread []corev1.TopologySpreadConstraint
	// AllowResourceClaims plans pods with dynamic resource claims as if they had none, instead of refusing them.
	AllowResourceClaims bool
}

// builder collects what a snapshot is made of.
type builder struct {
	opt      Options
	rules    v1.LabelRules
	names    *world.Names
	obj      *Objects
	problems []Problem

	namespaces map[string]world.Labels
	volumes    *volumeIndex
	drafts     map[int]*draft // by the shape of the spec
	read       []string       // label keys that some selector reads, sorted
	classes    []*world.Class
	classIndex map[string]int32
	budgets    map[string][]budget
	services   map[string][]service
}

// Build makes a snapshot from objects and the instance types that pools may use. Objects that make no sense are left out and
// named in the problems.
func Build(obj *Objects, catalog *Catalog, opt Options) (*world.Snapshot, []Problem) {
	rules := v1.CoreLabelRules()
	for k, v := range opt.Aliases {
		rules.Aliases[k] = v
	}
	rules.WellKnown.Insert(opt.WellKnown...)
	b := &builder{
		opt: opt, rules: rules, names: world.NewNames(), obj: obj, drafts: map[int]*draft{}, classIndex: map[string]int32{},
		namespaces: map[string]world.Labels{},
	}
	sortObjects(obj)
	for _, n := range obj.Namespaces {
		b.namespaces[n.Name] = world.NewLabels(n.Labels)
	}
	b.volumes = b.indexVolumes()
	b.readBudgets()
	b.readServices()
	types := b.types(catalog)
	pools := b.pools(types)
	pods := b.pods()
	snap := &world.Snapshot{Pools: pools, Daemons: b.daemons(pods)}
	onNode := map[string][]*world.Pod{}
	for i := range pods {
		p := &pods[i]
		if p.draft == nil {
			continue
		}
		w := b.worldPod(p)
		switch {
		case p.obj.Spec.NodeName != "":
			if !terminal(p.obj) {
				onNode[p.obj.Spec.NodeName] = append(onNode[p.obj.Spec.NodeName], w)
			}
		case provisionable(p.obj):
			snap.Pending = append(snap.Pending, w)
		}
	}
	snap.Nodes = b.nodes(onNode)
	for i := range snap.Nodes {
		snap.Nodes[i].Price = priceOf(snap.Nodes[i], types)
		snap.Nodes[i].Load(b.classes) // found out here, once, so that decisions need not
	}
	b.dangling(onNode)
	snap.Classes = b.classes
	snap.Resources = b.names.List()
	for _, p := range snap.Pools {
		p.Offers()
	}
	return snap, b.problems
}

// dangling reports pods bound to nodes that are not there.
func (b *builder) dangling(onNode map[string][]*world.Pod) {
	var missing []string
	for n := range onNode {
		missing = append(missing, n)
	}
	slices.Sort(missing)
	for _, n := range missing {
		b.report(problem("Node", n, "is not in the snapshot, but %d pods are bound to it; they are left out", len(onNode[n])))
	}
}

func (b *builder) report(p Problem) { b.problems = append(b.problems, p) }

// sortObjects puts everything into an order of its own, so that the order of the input cannot matter.
func sortObjects(o *Objects) {
	slices.SortFunc(o.Pods, func(x, y *PodObject) int {
		return cmp.Or(strings.Compare(x.Meta.Namespace, y.Meta.Namespace), strings.Compare(x.Meta.Name, y.Meta.Name), strings.Compare(x.Meta.UID, y.Meta.UID))
	})
	slices.SortFunc(o.Nodes, func(x, y *corev1.Node) int { return strings.Compare(x.Name, y.Name) })
	slices.SortFunc(o.Pools, func(x, y *v1.NodePool) int { return strings.Compare(x.Name, y.Name) })
	slices.SortFunc(o.Claims, func(x, y *v1.NodeClaim) int { return strings.Compare(x.Name, y.Name) })
	slices.SortFunc(o.Namespaces, func(x, y *corev1.Namespace) int { return strings.Compare(x.Name, y.Name) })
	for _, d := range o.DaemonSets {
		if d.Namespace == "" {
			d.Namespace = "default"
		}
	}
	slices.SortFunc(o.DaemonSets, func(x, y *appsv1.DaemonSet) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
}

// provisionable says whether the scheduler has found no place for the pod and nobody else is busy making one.
func provisionable(o *PodObject) bool {
	if o.Spec.NodeName != "" || o.Status.NominatedNodeName != "" || o.Meta.DeletionTimestamp != nil || terminal(o) {
		return false
	}
	if owner := controller(o); owner == "DaemonSet" || owner == "Node" {
		return false
	}
	return slices.ContainsFunc(o.Status.Conditions, func(c PodCondition) bool {
		return c.Type == string(corev1.PodScheduled) && c.Reason == corev1.PodReasonUnschedulable
	})
}

func terminal(o *PodObject) bool {
	return o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
}

// controller is the kind of the object that made the pod.
func controller(o *PodObject) string {
	for _, r := range o.Meta.OwnerReferences {
		if r.Kind == "DaemonSet" || r.Kind == "Node" || (r.Controller != nil && *r.Controller) {
			return r.Kind
		}
	}
	return ""
}

// worldPod is the pod as the engine sees it.
func (b *builder) worldPod(p *podDraft) *world.Pod {
	owner := controller(p.obj)
	w := &world.Pod{
		Name: p.obj.Meta.Name, UID: p.obj.Meta.UID, Class: b.class(p), Created: int64(p.obj.Meta.CreationTimestamp),
		Terminating: p.obj.Meta.DeletionTimestamp != nil, Daemon: owner == "DaemonSet", Mirror: owner == "Node",
	}
	w.Movable = b.movable(p.obj, owner)
	return w
}

// movable says whether the pod wants a new place when its node goes away.
func (b *builder) movable(o *PodObject, owner string) bool {
	switch {
	case owner == "DaemonSet" || owner == "Node" || terminal(o):
		return false
	case o.Meta.DeletionTimestamp != nil:
		return owner == "StatefulSet"
	case o.Meta.Annotations[v1.DoNotDisruptAnnotationKey] == "true":
		return false
	}
	return !b.blocked(o)
}
