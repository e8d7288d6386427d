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
	// planned and elsewhere count pods that were bound where they were nominated for, and elsewhere.
	planned, elsewhere int
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
	// searched is how many nodes that take a pod are enough in a cluster of some hundred.
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
		p.takes = fits(&corev1.Pod{}, nil, node, nil)
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
		if to == nil || !s.admits(to, app, shape) {
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
	for i := range s.places {
		p := s.places[(s.start+i)%len(s.places)]
		if s.admits(p, app, shape) {
			if can = append(can, p); len(can) == searched {
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

// keep makes and deletes pods as kube-controller-manager does, so many at a time: those go first that have no node, then those on nodes with
// more pods of the workload, then those that have run for less time.
func (s *scored) keep(most int) error {
	ctx := context.Background()
	have := map[string][]*corev1.Pod{}
	on := map[string]int{}
	s.server.Each(&corev1.Pod{}, func(o client.Object) {
		if pod := o.(*corev1.Pod); pod.DeletionTimestamp == nil {
			app := pod.Labels[workloads.Label]
			have[app] = append(have[app], pod)
			on[app+" "+pod.Spec.NodeName]++
		}
	})
	for _, a := range s.apps {
		have := have[a.name]
		for n := len(have); n < a.replicas && most > 0; n++ {
			a.made++
			most--
			if err := s.owner.Create(ctx, s.pod(a)); err != nil {
				return err
			}
		}
		if len(have) <= a.replicas {
			continue
		}
		rank := func(p *corev1.Pod) (bound, crowd, age int) {
			if p.Spec.NodeName == "" {
				return 0, 0, 0
			}
			return 1, -on[a.name+" "+p.Spec.NodeName], int(math.Log2(max(1, s.loop.now.Sub(p.CreationTimestamp.Time).Seconds())))
		}
		s.draw.Shuffle(len(have), func(i, j int) { have[i], have[j] = have[j], have[i] })
		slices.SortStableFunc(have, func(x, y *corev1.Pod) int {
			b1, c1, a1 := rank(x)
			b2, c2, a2 := rank(y)
			return cmp.Or(cmp.Compare(b1, b2), cmp.Compare(cost(x), cost(y)), cmp.Compare(c1, c2), cmp.Compare(a1, a2))
		})
		for _, pod := range have[:min(most, len(have)-a.replicas)] {
			most--
			if err := s.owner.Delete(ctx, pod.DeepCopy()); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
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
