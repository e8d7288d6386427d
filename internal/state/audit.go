package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// Difference is something that a mirror shows otherwise than its objects say, or than the API has it. An empty text stands for
// nothing there.
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

// Recheck derives again what the mirror shows of the next few nodes after that name, and says where that is something else. last is
// the name to go on after; "" once the last node, and with it what is pending, has been looked at. What was wrong is right afterwards.
func (m *Mirror) Recheck(after string, count int) (differences []Difference, last string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refresh()
	before, hosts := m.view, []*host{}
	at, _ := slices.BinarySearchFunc(m.nodes, after, func(n *Node, name string) int { return compareUnits(n.World.InFlight, n.World.Name, false, name) })
	for _, n := range m.nodes[at:] {
		if n.World.InFlight || len(hosts) == count {
			break
		}
		if h := m.hosts[n.World.Name]; h != nil && h.name != after {
			hosts, last = append(hosts, h), h.name
		}
	}
	if len(hosts) < count {
		last = ""
		for _, e := range m.pending {
			m.enqueue(e, reread)
		}
	}
	for _, h := range hosts {
		m.touchHost(h)
		for _, e := range h.pods {
			m.enqueue(e, reread)
		}
	}
	m.refresh()
	if m.view.World == before.World {
		return nil, last
	}
	was, is := newTeller(before.World), newTeller(m.view.World)
	for _, h := range hosts {
		d := Difference{Kind: "Node", Name: h.name}
		if n := before.Node(h.name); n != nil {
			d.Mirror = was.node(n.World)
		}
		if h.unit != nil {
			d.API = is.node(h.unit.World)
		}
		if d.Mirror != d.API {
			differences = append(differences, d)
		}
	}
	return append(differences, comparePending(was, is)...), last
}

// comparePending says which pending pods are not the same in both.
func comparePending(was, is *teller) (out []Difference) {
	have := map[string]string{}
	for _, p := range is.s.Pending {
		have[is.s.PodName(p)] = is.pod(p)
	}
	for _, p := range was.s.Pending {
		name, text := was.s.PodName(p), was.pod(p)
		if have[name] != text {
			out = append(out, Difference{Kind: "Pod", Name: name, Mirror: text, API: have[name]})
		}
		delete(have, name)
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		out = append(out, Difference{Kind: "Pod", Name: name, API: have[name]})
	}
	return out
}

// Holds is the object of a kind and name that the mirror has now, or nil; kept is false for kinds of which it does not keep the
// objects. Those are pods, nodes, claims and pools. A claim that is only assumed is none.
func (m *Mirror) Holds(kind Object, namespace, name string) (obj Object, kept bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch kind.(type) {
	case *corev1.Pod:
		if e := m.pods[namespace][name]; e != nil && !e.gone && e.pod != nil {
			return e.pod, true
		}
	case *corev1.Node:
		if h := m.hosts[name]; h != nil && h.node != nil {
			return h.node, true
		}
	case *v1.NodeClaim:
		if e := m.claims[name]; e != nil && e.obj != nil && e.assumed.IsZero() {
			return e.obj, true
		}
	case *v1.NodePool:
		if e := m.pools[name]; e != nil {
			return e.obj, true
		}
	default:
		return nil, false
	}
	return nil, true
}

// All lists what Holds has of a kind.
func (m *Mirror) All(kind Object) (list []Object, kept bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch kind.(type) {
	case *corev1.Pod:
		for _, space := range m.pods {
			for _, e := range space {
				if !e.gone && e.pod != nil && !toworld.Imagined(e.pod) {
					list = append(list, e.pod)
				}
			}
		}
	case *corev1.Node:
		for _, h := range m.hosts {
			if h.node != nil {
				list = append(list, h.node)
			}
		}
	case *v1.NodeClaim:
		for _, e := range m.claims {
			if e.obj != nil && e.assumed.IsZero() {
				list = append(list, e.obj)
			}
		}
	case *v1.NodePool:
		for _, e := range m.pools {
			list = append(list, e.obj)
		}
	default:
		return nil, false
	}
	return list, true
}

// Serves says whether the mirror takes in an object of one of those kinds at all.
func (m *Mirror) Serves(obj Object) bool {
	switch o := obj.(type) {
	case *v1.NodeClaim:
		return m.serves(o.Spec.NodeClassRef)
	case *v1.NodePool:
		return m.serves(o.Spec.Template.Spec.NodeClassRef)
	}
	return true
}

// teller writes pieces of a snapshot down so that equal meaning is equal text: numbers of classes and resources, which depend on
// history, are spelt out.
type teller struct {
	s       *world.Snapshot
	reads   map[string]bool
	classes map[int32]string
}

func newTeller(s *world.Snapshot) *teller {
	t := &teller{s: s, reads: map[string]bool{}, classes: map[int32]string{}}
	used := make([]bool, len(s.Classes)) // of a class without pods nobody knows when it goes
	note := func(pods []*world.Pod) {
		for _, p := range pods {
			if used[p.Class] {
				continue
			}
			used[p.Class] = true
			for _, k := range toworld.ReadKeys(s.Classes[p.Class]) {
				t.reads[k] = true
			}
		}
	}
	note(s.Pending)
	note(s.Spare)
	for _, n := range s.Nodes {
		note(n.Pods)
	}
	return t
}

func (t *teller) node(n *world.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "claim=%s pool=%s initialized=%t inflight=%t deleting=%t first-zone=%s price=%g of %g by %q labels=%v taints=%v capacity=%s allocatable=%s attached=%q",
		n.Claim, n.Pool, n.Initialized, n.InFlight, n.Deleting, n.FirstZone, n.Price, n.ListPrice, n.PricedBy, n.Labels, n.Taints, t.resources(n.Capacity), t.resources(n.Allocatable), n.Attached)
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
