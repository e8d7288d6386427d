package state

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// Difference is something that a mirror sees otherwise than the API has it. An empty text stands for nothing there.
type Difference struct {
	Kind   string
	Name   string
	Mirror string
	API    string
}

// String says in one line what differs.
func (d Difference) String() string {
	text := func(s string) string {
		if s == "" {
			return "nothing"
		}
		return s
	}
	return fmt.Sprintf("%s %s: the mirror has %s, the API %s", d.Kind, d.Name, text(d.Mirror), text(d.API))
}

// Put adds an object. One of a kind that planning does not read is left out.
func (o *Objects) Put(obj Object) {
	switch x := obj.(type) {
	case *corev1.Pod:
		o.Pods = append(o.Pods, FromPod(x))
	case *corev1.Node:
		o.Nodes = append(o.Nodes, x)
	case *v1.NodeClaim:
		o.Claims = append(o.Claims, x)
	case *v1.NodePool:
		o.Pools = append(o.Pools, x)
	case *appsv1.DaemonSet:
		o.DaemonSets = append(o.DaemonSets, x)
	case *policyv1.PodDisruptionBudget:
		o.Budgets = append(o.Budgets, x)
	case *corev1.PersistentVolumeClaim:
		o.VolumeUses = append(o.VolumeUses, x)
	case *corev1.PersistentVolume:
		o.Volumes = append(o.Volumes, x)
	case *storagev1.StorageClass:
		o.Storage = append(o.Storage, x)
	case *storagev1.CSINode:
		o.CSINodes = append(o.CSINodes, x)
	case *corev1.Namespace:
		o.Namespaces = append(o.Namespaces, x)
	case *corev1.Service:
		o.Services = append(o.Services, x)
	case *appsv1.ReplicaSet:
		o.ReplicaSets = append(o.ReplicaSets, x)
	case *appsv1.StatefulSet:
		o.StatefulSet = append(o.StatefulSet, x)
	}
}

// Audit builds everything anew from what the API has and says where the mirror differs. Lists and events are never of the same
// moment, so that a difference counts only if the next audit finds it too. Claims that are assumed or leaving are left out. If
// something differs, whatever the mirror has derived from its own objects is derived again.
func (m *Mirror) Audit(objects *Objects) []Difference {
	other := NewMirror(MirrorOptions{Options: m.opt.Options, Types: m.opt.Types, Now: m.opt.Now})
	other.load(objects)
	theirs, ours := other.View().World, m.View().World
	m.mu.Lock()
	skip := map[string]bool{}
	for name := range m.assumed {
		skip[name] = true
	}
	for name := range m.leaving {
		skip[name] = true
	}
	m.mu.Unlock()
	out := compare(newTeller(ours, skip), newTeller(theirs, skip))
	if len(out) > 0 {
		m.mu.Lock()
		m.renumber(true)
		m.mu.Unlock()
	}
	return out
}

// compare tells both snapshots piece by piece.
func compare(ours, theirs *teller) []Difference {
	var out []Difference
	for _, piece := range []func(*teller, func(kind, name string, text func() string)){(*teller).nodes, (*teller).pending, (*teller).pools, (*teller).daemons} {
		have := map[[2]string]func() string{}
		piece(theirs, func(kind, name string, text func() string) { have[[2]string{kind, name}] = text })
		piece(ours, func(kind, name string, text func() string) {
			key := [2]string{kind, name}
			d := Difference{Kind: kind, Name: name, Mirror: text()}
			if other := have[key]; other != nil {
				d.API = other()
				delete(have, key)
			}
			if d.Mirror != d.API {
				out = append(out, d)
			}
		})
		for key, text := range have {
			out = append(out, Difference{Kind: key[0], Name: key[1], API: text()})
		}
	}
	slices.SortFunc(out, func(x, y Difference) int { return strings.Compare(x.Kind+"/"+x.Name, y.Kind+"/"+y.Name) })
	return out
}

// teller writes pieces of a snapshot down so that equal meaning is equal text: numbers of classes and resources, which depend on
// history, are spelt out.
type teller struct {
	s       *world.Snapshot
	skip    map[string]bool
	reads   map[string]bool
	classes map[int32]string
}

func newTeller(s *world.Snapshot, skip map[string]bool) *teller {
	t := &teller{s: s, skip: skip, reads: map[string]bool{}, classes: map[int32]string{}}
	used := make([]bool, len(s.Classes)) // of a class without pods nobody knows when it goes
	note := func(pods []*world.Pod) {
		for _, p := range pods {
			if used[p.Class] {
				continue
			}
			used[p.Class] = true
			for _, k := range readKeys(s.Classes[p.Class]) {
				t.reads[k] = true
			}
		}
	}
	note(s.Pending)
	for _, n := range s.Nodes {
		note(n.Pods)
	}
	return t
}

func (t *teller) nodes(yield func(kind, name string, text func() string)) {
	for _, n := range t.s.Nodes {
		if t.skip[n.Claim] && n.Claim != "" {
			continue
		}
		kind := "Node"
		if n.InFlight {
			kind = "NodeClaim"
		}
		yield(kind, n.Name, func() string { return t.node(n) })
	}
}

func (t *teller) pending(yield func(kind, name string, text func() string)) {
	for _, p := range t.s.Pending {
		yield("Pod", t.s.PodName(p), func() string { return t.pod(p) })
	}
}

func (t *teller) pools(yield func(kind, name string, text func() string)) {
	for _, p := range t.s.Pools {
		yield("NodePool", p.Name, func() string { return t.pool(p) })
	}
}

func (t *teller) daemons(yield func(kind, name string, text func() string)) {
	for _, d := range t.s.Daemons {
		yield("DaemonSet", d.Name, func() string { return t.class(d.Class) })
	}
}

func (t *teller) node(n *world.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "claim=%s pool=%s initialized=%t inflight=%t deleting=%t first-zone=%s price=%g labels=%v taints=%v capacity=%s allocatable=%s attached=%q",
		n.Claim, n.Pool, n.Initialized, n.InFlight, n.Deleting, n.FirstZone, n.Price, n.Labels, n.Taints, t.resources(n.Capacity), t.resources(n.Allocatable), n.Attached)
	for _, p := range n.Pods {
		fmt.Fprintf(&b, "\n  %s %s", t.s.PodName(p), t.pod(p))
	}
	l := n.Load(t.s.Classes)
	fmt.Fprintf(&b, "\n  load=%s daemons=%s active=%d going=%d", t.resources(l.Requests), t.resources(l.Daemons), count(l.Active), count(l.Going))
	return b.String()
}

func count(list []world.ClassCount) (n int32) {
	for _, c := range list {
		n += c.N
	}
	return n
}

func (t *teller) pod(p *world.Pod) string {
	text, ok := t.classes[p.Class]
	if !ok {
		text = t.class(t.s.Classes[p.Class])
		t.classes[p.Class] = text
	}
	return fmt.Sprintf("uid=%s created=%d terminating=%t daemon=%t mirror=%t movable=%t %s", p.UID, p.Created, p.Terminating, p.Daemon, p.Mirror, p.Movable, text)
}

// class leaves out labels that no selector reads, and names of volumes in reasons, which are those of the pod that came first.
func (t *teller) class(c *world.Class) string {
	labels := slices.DeleteFunc(slices.Clone(c.Labels), func(l world.Label) bool { return !t.reads[l.Key] })
	volumes := slices.Clone(c.Volumes)
	for i := range volumes {
		volumes[i].Source = ""
	}
	var shared []string
	for _, s := range c.Shared {
		shared = append(shared, t.s.Resources[s.Resource]+":"+s.Claim)
	}
	return fmt.Sprintf("ns=%s labels=%v requests=%s priority=%d needs=%v volumes=%v prefers=%v tolerations=%v spread=%v affinity=%v anti=%v ports=%v shared=%v refused=%q",
		c.Namespace, labels, t.resources(c.Requests), c.Priority, c.Needs, volumes, c.Prefers, c.Tolerations, c.Spread, c.Affinity, c.AntiAffinity, c.Ports, shared, c.Refused)
}

func (t *teller) pool(p *world.Pool) string {
	var limits []string
	for _, l := range p.Limits {
		limits = append(limits, fmt.Sprintf("%s=%d", t.s.Resources[l.Resource], l.Max))
	}
	slices.Sort(limits)
	var b strings.Builder
	fmt.Fprintf(&b, "weight=%d need=%v labels=%v taints=%v provided=%v limits=%v nodes=%d node-cost=%g static=%t refused=%q", p.Weight, p.Need, p.Labels, p.Taints, p.Provided, limits, p.MaxNodes, p.NodeCost, p.Static, p.Refused)
	for _, x := range p.Types {
		fmt.Fprintf(&b, "\n  %s capacity=%s allocatable=%s offerings=%d", x.Name, t.resources(x.Capacity), t.resources(x.Allocatable), len(x.Offerings))
	}
	return b.String()
}

func (t *teller) resources(r world.Resources) string {
	var out []string
	for i, v := range r {
		if v != 0 {
			out = append(out, fmt.Sprintf("%s=%d", t.s.Resources[i], v))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
