package day

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

const poolName = "default"

// pod is a pod that exists.
type pod struct {
	set   *replicaSet
	world *world.Pod
	born  time.Time
	bound time.Time
	tie   uint64 // stands for the UID where only that decides
	node  *node
	// pin is the node in flight that the pod was planned for.
	pin *node
	// evicted is when the pod that it stands in for was evicted, zero if none was.
	evicted time.Time
	// moves is how often its predecessors were moved within a day of each other.
	moves int
}

// node is a node from its launch until it is removed.
type node struct {
	name     string
	zone     string
	typ      *world.InstanceType
	labels   world.Labels
	price    float64
	launched time.Time
	up       bool
	// stirred is when a pod was last bound to it or left it, or when it came up.
	stirred time.Time
	// changed is when one was last bound to it that was not moved by us, or left it.
	changed time.Time
	pods    []*pod
	used    world.Resources
	count   map[int32]int // pods by class
	// leaving nodes take no pods; gone is when a drained one is removed.
	leaving, drained bool
	gone             time.Time
	made             time.Time
	from             []disrupt.Past
	cost             int // deletion cost of its pods

	seen *world.Node // as the engine sees it; nil when that has changed
}

// command is a move: nodes to remove, and what to launch instead.
type command struct {
	remove []*node
	launch []pack.Choice
	from   []disrupt.Past
	// places are where the pods that it evicts are meant to go, on nodes or, by their index, on those launched; nil for moves that
	// do not say.
	places map[*world.Pod]*node
	added  map[*world.Pod]int

	made []*node
}

func newSim(set Settings) (*sim, error) {
	s := &sim{Settings: set, rng: rand.New(rand.NewPCG(set.Seed, 1)), now: midnight, acted: midnight, settled: midnight}
	types, err := instanceTypes()
	if err != nil {
		return nil, err
	}
	if s.sets, s.classes, err = workloads(set.Workload, s.rng); err != nil {
		return nil, err
	}
	capacityType, err := req.New(world.LabelCapacityType, req.In, world.CapacityOnDemand)
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		for _, o := range t.Offerings {
			if !slices.Contains(s.zones, o.Zone) {
				s.zones = append(s.zones, o.Zone)
			}
		}
	}
	slices.Sort(s.zones)
	s.pool = &world.Pool{
		Name: poolName, MaxNodes: -1, Types: types, Need: req.NewSet(req.Is(world.LabelPool, poolName), capacityType),
		Labels: world.NewLabels(map[string]string{world.LabelPool: poolName}),
	}
	return s, nil
}

// begin makes the cluster as a fresh plan for the first pods would have it, with every pod where it was planned.
func (s *sim) begin() {
	s.replicate()
	byWorld := map[*world.Pod]*pod{}
	for _, p := range s.pending {
		byWorld[p.world] = p
	}
	for _, n := range pack.Solve(s.snapshot(false), s.Pack).Nodes {
		up := s.launch(n.Choices[0])
		up.up, up.launched, up.stirred = true, s.now.Add(-time.Hour), s.now.Add(-time.Hour)
		for _, p := range n.Pods {
			s.bind(byWorld[p], up)
		}
	}
	s.pending = slices.DeleteFunc(s.pending, func(p *pod) bool { return p.node != nil })
	s.out = Result{}
	s.acted = midnight
}

// launch asks for a node.
func (s *sim) launch(c pack.Choice) *node {
	s.serial++
	out := &node{
		name: fmt.Sprintf("n%05d", s.serial), zone: c.Offering.Zone, typ: c.Type, price: c.Offering.Price, launched: s.now, stirred: s.now,
		used: make(world.Resources, len(c.Type.Allocatable)), count: map[int32]int{},
	}
	out.labels = world.NewLabels(map[string]string{
		world.LabelHostname: out.name, world.LabelZone: out.zone, world.LabelInstanceType: c.Type.Name, world.LabelPool: poolName,
		world.LabelCapacityType: c.Offering.CapacityType,
	})
	s.nodes = append(s.nodes, out)
	s.out.Launched++
	s.changed(out)
	s.acted = s.now
	return out
}

// changed notes that the engine sees something new.
func (s *sim) changed(n *node) {
	n.seen = nil
	s.version++
}

// join has nodes come up whose time has come.
func (s *sim) join() {
	for _, n := range s.nodes {
		if !n.up && s.now.Sub(n.launched) >= s.Boot {
			n.up, n.stirred = true, s.now
			s.changed(n)
		}
	}
}

// remove takes away nodes that have been drained.
func (s *sim) remove() {
	s.nodes = slices.DeleteFunc(s.nodes, func(n *node) bool {
		if !n.drained || s.now.Before(n.gone) {
			return false
		}
		s.version++
		return true
	})
}

// replicate has every workload make and delete pods until it has as many as the load wants.
func (s *sim) replicate() {
	total := s.total()
	for _, r := range s.sets {
		want := r.wants(total)
		for len(r.pods) < want {
			s.create(r)
		}
		if more := len(r.pods) - want; more > 0 {
			for _, p := range s.victims(r)[:more] {
				s.erase(p)
			}
		}
	}
}

// create makes a pending pod.
func (s *sim) create(r *replicaSet) *pod {
	s.serial++
	id := fmt.Sprintf("p%06d", s.serial)
	p := &pod{set: r, born: s.now, tie: s.rng.Uint64(), world: &world.Pod{Name: id, UID: id, Class: r.class, Created: s.now.Unix(), Movable: true}}
	r.pods = append(r.pods, p)
	s.pending = append(s.pending, p)
	s.version++
	return p
}

// victims lists a set's pods in the order in which Kubernetes deletes them: those without a node, those of the least deletion cost,
// those on nodes with more pods of the set, those that have run for less time, by orders of magnitude.
func (s *sim) victims(r *replicaSet) []*pod {
	pending := func(p *pod) int {
		if p.node == nil {
			return 0
		}
		return 1
	}
	deletion := func(p *pod) int {
		if p.node == nil {
			return 0
		}
		return p.node.cost
	}
	crowd := func(p *pod) int {
		if p.node == nil {
			return 0
		}
		return p.node.count[r.class]
	}
	age := func(p *pod) int { return int(math.Log2(max(1, s.now.Sub(p.bound).Seconds()))) }
	out := slices.Clone(r.pods)
	slices.SortFunc(out, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(pending(a), pending(b)), cmp.Compare(deletion(a), deletion(b)), cmp.Compare(crowd(b), crowd(a)),
			cmp.Compare(age(a), age(b)), cmp.Compare(a.tie, b.tie))
	})
	return out
}

// erase deletes a pod.
func (s *sim) erase(p *pod) {
	p.set.pods = slices.DeleteFunc(p.set.pods, func(x *pod) bool { return x == p })
	if p.node == nil {
		s.pending = slices.DeleteFunc(s.pending, func(x *pod) bool { return x == p })
		s.version++
		return
	}
	n := p.node
	n.pods = slices.DeleteFunc(n.pods, func(x *pod) bool { return x == p })
	n.used = n.used.Minus(s.classes[p.set.class].Requests)
	n.count[p.set.class]--
	p.set.byZone[n.zone]--
	n.stirred, n.changed, p.node = s.now, s.now, nil
	s.changed(n)
}

// bind puts a pending pod on a node; the caller takes it off the list.
func (s *sim) bind(p *pod, n *node) {
	p.node, p.pin, p.bound = n, nil, s.now
	n.pods = append(n.pods, p)
	n.used = n.used.Plus(s.classes[p.set.class].Requests)
	n.count[p.set.class]++
	p.set.byZone[n.zone]++
	n.stirred = s.now
	if p.evicted.IsZero() {
		n.changed = s.now
	}
	s.changed(n)
}

// drain evicts the pods of a node, for which their sets make new ones. Those are nominated to where the move meant them to go, if
// that is how it is done.
func (s *sim) drain(n *node, places map[*world.Pod]*node) {
	for _, p := range slices.Clone(n.pods) {
		s.out.Evictions++
		s.hour.evictions++
		if !p.evicted.IsZero() && s.now.Sub(p.evicted) < time.Hour {
			s.out.Twice++
		}
		s.erase(p)
		successor := s.create(p.set)
		successor.evicted, successor.moves = s.now, 1
		if !p.evicted.IsZero() && s.now.Sub(p.evicted) < 24*time.Hour {
			successor.moves += p.moves
		}
		if s.Nominate {
			successor.pin = places[p.world]
		}
	}
	n.leaving, n.drained, n.gone = true, true, s.now.Add(s.Drain)
	s.past = append(s.past, pastOf(n, s.now))
	s.out.Removed++
	s.acted = s.now
	s.changed(n)
}

// price is what all nodes cost an hour.
func (s *sim) price() float64 {
	sum := 0.0
	for _, n := range s.nodes {
		sum += n.price
	}
	return sum
}
