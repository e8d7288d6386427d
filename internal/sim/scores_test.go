package sim

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/sim/filters"
	"karpenter/test/workloads"
)

// scored is kube-scheduler with its default filters and scores, for pods of workloads: resources, taints, hard spread over zones and hosts,
// anti-affinity to the own workload by host; least allocated, balanced allocation, and the soft spread that pods without any get.
type scored struct {
	*World
	shapes map[string]*workloads.Shape
	places []*place
	at     map[string]*place
	zones  map[string]map[string]int // pods by workload and zone
	start  int                       // where the next search for nodes begins
	order  map[types.UID]int         // in which pods came
	work   []*replicaSync            // what the ReplicaSet controller is at
	turn   int                       // which ReplicaSet it looks at next
	// planned and elsewhere count pods that were bound where they were nominated for, and elsewhere.
	planned, elsewhere int
	// unbound leaves all pods where they are: without a node.
	unbound bool
}

// place is a node as the scheduler sees it.
type place struct {
	node     *corev1.Node
	zone     string
	takes    bool
	alloc    demand
	used     demand
	held     demand         // by pods that are nominated for it
	apps     map[string]int // pods of workloads that are not being deleted
	ever     map[string]int // all of them
	heldApps map[string]int
	soft     int64
}

type demand struct{ cpu, memory, pods int64 }

func (d demand) plus(e demand) demand {
	return demand{d.cpu + e.cpu, d.memory + e.memory, d.pods + e.pods}
}

func (d demand) within(e demand) bool {
	return d.cpu <= e.cpu && d.memory <= e.memory && d.pods <= e.pods
}

func demandOf(s *workloads.Shape) demand {
	return demand{int64(s.MilliCPU), int64(s.MiB) << 20, 1}
}

const (
	// searched is how many nodes that take a pod are enough, at least.
	searched = 100
	// What the soft spread of pods without any allows, over zones and over hosts, and what it weighs.
	softZones, softHosts, softWeight = 5, 3, 2
)

// look takes a picture of the cluster.
func (s *scored) look() (pending []*corev1.Pod) {
	s.places, s.at, s.zones = nil, map[string]*place{}, map[string]map[string]int{}
	s.server.Each(&corev1.Node{}, func(o client.Object) {
		node := o.(*corev1.Node)
		p := &place{node: node, zone: node.Labels[corev1.LabelTopologyZone], apps: map[string]int{}, ever: map[string]int{}, heldApps: map[string]int{}}
		p.takes = filters.Fits(&corev1.Pod{}, nil, node, nil)
		a := node.Status.Allocatable
		p.alloc = demand{a.Cpu().MilliValue(), a.Memory().Value(), a.Pods().Value()}
		s.places, s.at[node.Name] = append(s.places, p), p
	})
	for name := range s.shapes {
		s.zones[name] = map[string]int{}
		for _, p := range s.places {
			s.zones[name][p.zone] += 0
		}
	}
	s.server.Each(&corev1.Pod{}, func(o client.Object) {
		pod := o.(*corev1.Pod)
		app, shape := s.shapeOf(pod)
		if shape == nil {
			return
		}
		if pod.Spec.NodeName == "" {
			if pod.DeletionTimestamp == nil {
				pending = append(pending, pod)
			}
			return
		}
		if p := s.at[pod.Spec.NodeName]; p != nil {
			s.put(p, app, shape, pod.DeletionTimestamp == nil)
		}
	})
	for _, pod := range pending {
		if s.order[pod.UID] == 0 {
			s.order[pod.UID] = len(s.order) + 1
		}
		if p := s.at[pod.Status.NominatedNodeName]; p != nil {
			app, shape := s.shapeOf(pod)
			p.held = p.held.plus(demandOf(shape))
			p.heldApps[app]++
		}
	}
	slices.SortFunc(pending, func(a, b *corev1.Pod) int { return cmp.Compare(s.order[a.UID], s.order[b.UID]) })
	return pending
}

func (s *scored) shapeOf(pod *corev1.Pod) (string, *workloads.Shape) {
	app := pod.Labels[workloads.Label]
	return app, s.shapes[app]
}

func (s *scored) put(p *place, app string, shape *workloads.Shape, counts bool) {
	p.used = p.used.plus(demandOf(shape))
	p.ever[app]++
	if counts {
		p.apps[app]++
		s.zones[app][p.zone]++
	}
}

// schedule binds the pods that wait, in the order in which they came.
func (s *scored) schedule() error {
	ctx := context.Background()
	for _, pod := range s.look() {
		app, shape := s.shapeOf(pod)
		nominated := s.at[pod.Status.NominatedNodeName]
		if nominated != nil { // its own hold is not in its way
			nominated.held = nominated.held.plus(demand{-int64(shape.MilliCPU), -int64(shape.MiB) << 20, -1})
			nominated.heldApps[app]--
		}
		to := nominated
		if s.unbound {
			to = nil
		} else if to == nil || !s.admits(to, app, shape) {
			to = s.best(app, shape)
		}
		if to == nil {
			if nominated != nil { // kube-scheduler forgets nominations of pods that it finds no node for
				cleared := pod.DeepCopy()
				cleared.Status.NominatedNodeName = ""
				if err := s.scheduler.Status().Update(ctx, cleared); client.IgnoreNotFound(err) != nil {
					return err
				}
				continue
			}
			if err := s.refuse(ctx, pod); err != nil {
				return err
			}
			continue
		}
		if pod.Status.NominatedNodeName != "" && to == nominated {
			s.planned++
		} else if pod.Status.NominatedNodeName != "" {
			s.elsewhere++
		}
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: to.node.Name}}
		if err := s.scheduler.SubResource("binding").Create(ctx, pod.DeepCopy(), binding); err != nil {
			return client.IgnoreNotFound(err)
		}
		s.put(to, app, shape, true)
	}
	return nil
}

// admits says whether a node takes a pod of a workload.
func (s *scored) admits(p *place, app string, shape *workloads.Shape) bool {
	if !p.takes || !p.used.plus(p.held).plus(demandOf(shape)).within(p.alloc) {
		return false
	}
	if shape.AntiAffinity && p.ever[app]+p.heldApps[app] > 0 {
		return false
	}
	if shape.Zones {
		least := math.MaxInt
		for _, n := range s.zones[app] {
			least = min(least, n)
		}
		if s.zones[app][p.zone]+1-least > 1 {
			return false
		}
	}
	if shape.Hosts {
		least := math.MaxInt
		for _, q := range s.places {
			least = min(least, q.apps[app])
		}
		if p.apps[app]+1-least > 1 {
			return false
		}
	}
	return true
}

// best is the node with the best score among those that were searched and take the pod; of equals any.
func (s *scored) best(app string, shape *workloads.Shape) *place {
	var can []*place
	enough := max(searched, len(s.places)*max(5, 50-len(s.places)/125)/100)
	for i := range s.places {
		p := s.places[(s.start+i)%len(s.places)]
		if s.admits(p, app, shape) {
			if can = append(can, p); len(can) == enough {
				s.start = (s.start + i + 1) % len(s.places)
				break
			}
		}
	}
	if len(can) == 0 {
		return nil
	}
	soft := !shape.Zones && !shape.Hosts
	var least, most int64 = math.MaxInt64, 0
	if soft {
		zones := map[string]bool{}
		for _, p := range can {
			zones[p.zone] = true
		}
		weight := func(n int) float64 { return math.Log(float64(n + 2)) }
		for _, p := range can {
			p.soft = int64(math.Round(float64(s.zones[app][p.zone])*weight(len(zones)) + softZones - 1 + float64(p.apps[app])*weight(len(can)) + softHosts - 1))
			least, most = min(least, p.soft), max(most, p.soft)
		}
	}
	var out *place
	top, equal := int64(-1), 0
	for _, p := range can {
		after := p.used.plus(demandOf(shape))
		score := (100*(p.alloc.cpu-after.cpu)/p.alloc.cpu+100*(p.alloc.memory-after.memory)/p.alloc.memory)/2 + 50 + (50+balance(after, p.alloc)-balance(p.used, p.alloc))/2
		if soft && most > 0 {
			score += softWeight * 100 * (most + least - p.soft) / most
		}
		switch {
		case score > top:
			out, top, equal = p, score, 1
		case score == top:
			if equal++; s.draw.IntN(equal) == 0 {
				out = p
			}
		}
	}
	return out
}

func balance(used, alloc demand) int64 {
	share := func(a, b int64) float64 { return min(1, float64(a)/float64(b)) }
	return int64((1 - math.Abs(share(used.cpu, alloc.cpu)-share(used.memory, alloc.memory))/2) * 100)
}

// replicaSync is what the ReplicaSet controller has found missing or too much of a workload. It looks again when all of that is done.
type replicaSync struct {
	app     *app
	missing int
	surplus []*corev1.Pod
}

const (
	// syncs is how many ReplicaSets kube-controller-manager works on at a time, and burst how many pods of one it makes or deletes before it
	// looks again.
	syncs, burst = 5, 500
)

// keep makes and deletes pods as kube-controller-manager does, so many at a time: it works on a few ReplicaSets in turns, as they share its
// rate limit.
func (s *scored) keep(most int) error {
	ctx := context.Background()
	for most > 0 {
		if s.sync(); len(s.work) == 0 {
			return nil
		}
		for _, w := range s.work {
			if most--; most < 0 {
				return nil
			}
			if w.missing > 0 {
				w.missing--
				w.app.made++
				if err := s.owner.Create(ctx, s.pod(w.app)); err != nil {
					return err
				}
				continue
			}
			pod := w.surplus[0]
			w.surplus = w.surplus[1:]
			if err := s.owner.Delete(ctx, pod.DeepCopy()); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}

// sync forgets what is done, and looks at the next ReplicaSets.
func (s *scored) sync() {
	s.work = slices.DeleteFunc(s.work, func(w *replicaSync) bool { return w.missing == 0 && len(w.surplus) == 0 })
	if len(s.work) == syncs {
		return
	}
	have := map[string][]*corev1.Pod{}
	s.server.Each(&corev1.Pod{}, func(o client.Object) {
		if pod := o.(*corev1.Pod); pod.DeletionTimestamp == nil {
			app := pod.Labels[workloads.Label]
			have[app] = append(have[app], pod)
		}
	})
	for i := range s.apps {
		a := s.apps[(s.turn+i)%len(s.apps)]
		n := len(have[a.name])
		if n == a.replicas || slices.ContainsFunc(s.work, func(w *replicaSync) bool { return w.app == a }) {
			continue
		}
		w := &replicaSync{app: a, missing: min(burst, max(0, a.replicas-n))}
		if n > a.replicas {
			w.surplus = s.surplus(have[a.name])[:min(burst, n-a.replicas)]
		}
		if s.work = append(s.work, w); len(s.work) == syncs {
			s.turn = (s.turn + i + 1) % len(s.apps)
			break
		}
	}
}

// surplus orders the pods of a workload as a ReplicaSet that has too many deletes them: those first that have no node, that do not run, that
// ask to be, that share their node with most others, and that have been ready for less time, by powers of two; of equals any. Which share a
// node is counted once for all that go together, so that those on the fullest nodes all go first and leave them empty.
func (s *scored) surplus(pods []*corev1.Pod) []*corev1.Pod {
	on := map[string]int{}
	for _, p := range pods {
		on[p.Spec.NodeName]++
	}
	rank := func(p *corev1.Pod) [5]int {
		if p.Spec.NodeName == "" {
			return [5]int{}
		}
		r := [5]int{1, 0, cost(p), -on[p.Spec.NodeName], 0}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				r[1], r[4] = 1, int(math.Log2(float64(max(1, s.loop.now.Sub(c.LastTransitionTime.Time)))))
			}
		}
		return r
	}
	s.draw.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	slices.SortStableFunc(pods, func(x, y *corev1.Pod) int {
		a, b := rank(x), rank(y)
		return slices.Compare(a[:], b[:])
	})
	return pods
}

// cost is a pod's deletion cost.
func cost(pod *corev1.Pod) int {
	n, _ := strconv.Atoi(strings.TrimSpace(pod.Annotations[corev1.PodDeletionCost]))
	return n
}

// pod is the next one of a workload.
func (s *scored) pod(a *app) *corev1.Pod {
	pod := a.pod(0)
	pod.Spec = *s.shapes[a.name].Deployment(0).Spec.Template.Spec.DeepCopy()
	return pod
}
