package day

import (
	"math"
	"slices"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/world"
)

// consolidate makes a decision, if it is time for one, and begins to carry it out.
func (s *sim) consolidate() {
	s.rank()
	if !s.due() {
		return
	}
	s.decided, s.asked, s.ripe = s.now, s.version, s.ready()
	s.decides++
	switch s.Policy {
	case Greedy:
		s.decideGreedy()
	case Upstream:
		s.decideUpstream()
	case None:
		s.removeEmpty()
	default:
		s.decideOurs()
	}
}

// rankEvery is how often deletion costs are found, and ranked how many nodes get one. The product does the former each minute.
const (
	rankEvery = 5 * time.Minute
	ranked    = 50
)

// rank gives pods deletion costs, if workloads heed them: least where nodes are being removed, then where they are to be removed next.
func (s *sim) rank() {
	if !s.DeletionCost || s.now.Sub(s.rankedAt) < rankEvery {
		return
	}
	s.rankedAt = s.now
	for _, n := range s.nodes {
		n.cost = 0
		if n.leaving {
			n.cost = math.MinInt32
		}
	}
	o := s.Disrupt
	o.Pack = s.Pack
	next := disrupt.Next(s.input(), o, s.now)
	for i, k := range next[:min(len(next), ranked)] {
		s.nodes[k].cost = i - 2*ranked
	}
}

// due says whether a decision is to be made now.
func (s *sim) due() bool {
	busy := len(s.pending) > 0 || slices.ContainsFunc(s.nodes, func(n *node) bool { return !n.up }) || s.Quiet && s.stirs()
	if busy {
		s.settled = time.Time{}
	} else if s.settled.IsZero() {
		s.settled = s.now
	}
	since := s.now.Sub(s.decided)
	if since < s.Every || s.asked == s.version && s.ripe == s.ready() && since < s.Ponder {
		return false
	}
	if !s.Quiet {
		return true
	}
	if s.noisy.IsZero() {
		s.noisy = s.now
	}
	s.forced = s.settled.IsZero() || s.now.Sub(s.settled) < s.QuietFor
	if s.forced && s.now.Sub(s.noisy) < s.Patience {
		return false
	}
	s.noisy = time.Time{}
	return true
}

// stirs says whether pods come to and leave more than one node in twenty, besides those that are moved.
func (s *sim) stirs() bool {
	up, stirred := 0, 0
	for _, n := range s.nodes {
		if !n.up || n.leaving {
			continue
		}
		up++
		if s.now.Sub(n.changed) < min(s.ConsolidateAfter, time.Minute) {
			stirred++
		}
	}
	return stirred > up/20
}

// consolidatable says whether the node has been quiet for as long as the pool wants.
func (s *sim) consolidatable(n *node) bool {
	return n.up && !n.leaving && s.now.Sub(n.stirred) >= s.ConsolidateAfter
}

// ready counts the nodes that may be consolidated.
func (s *sim) ready() (count int) {
	for _, n := range s.nodes {
		if s.consolidatable(n) {
			count++
		}
	}
	return count
}

// allowed is how many more nodes the pool's budget lets go.
func (s *sim) allowed() int {
	up, out := 0, 0
	for _, n := range s.nodes {
		if n.up && !n.drained {
			up++
		}
		if n.leaving && !n.drained {
			out++
		}
	}
	return max(0, int(math.Ceil(s.Budget*float64(up)))-out)
}

// input is everything that disrupt.Decide is told.
func (s *sim) input() *disrupt.Input {
	allowed := s.allowed()
	in := &disrupt.Input{
		World: s.snapshot(true), Past: s.recent(),
		Pools: []disrupt.Pool{{
			Name: poolName, Policy: disrupt.WhenEmptyOrUnderutilized, Horizon: disrupt.DefaultHorizon, Turn: s.forced,
			Allowed: map[disrupt.Reason]int{disrupt.Empty: allowed, disrupt.Drifted: allowed, disrupt.Underutilized: allowed},
		}},
	}
	expected := s.expected()
	for _, n := range s.nodes {
		f := disrupt.Node{Consolidatable: s.consolidatable(n), Cost: 1 + float64(len(n.pods)), Made: n.made, From: n.from}
		for _, p := range n.pods {
			f.Restart += s.Restart * float64(int(1)<<min(p.moves, 10))
			if s.Restart > 0 && !p.evicted.IsZero() && s.now.Sub(p.evicted) < 10*time.Minute {
				f.Unpaid = "a pod was moved"
			}
		}
		switch {
		case n.leaving:
			f.Fixed = "it is being removed already"
		case !n.up:
			f.Fixed = "it has not joined the cluster yet"
		case expected[n]:
			f.Fixed = "pods are expected on it"
		}
		in.Nodes = append(in.Nodes, f)
	}
	return in
}

// expected are the nodes that pods are meant to go to: those planned for them, and what replaces other nodes.
func (s *sim) expected() map[*node]bool {
	out := map[*node]bool{}
	for _, p := range s.pending {
		out[p.pin] = true
	}
	for _, c := range s.open {
		for _, n := range c.made {
			out[n] = true
		}
	}
	return out
}

// options are those of the next decision.
func (s *sim) options() disrupt.Options {
	o := s.Disrupt
	o.Pack = s.Pack
	o.Turn = s.turn
	s.turn++
	return o
}

// pastFor is how long a removal is remembered.
const pastFor = time.Hour

// recent forgets removals that are too old, and returns the others.
func (s *sim) recent() []disrupt.Past {
	s.past = slices.DeleteFunc(s.past, func(p disrupt.Past) bool { return s.now.Sub(p.At) >= pastFor })
	return slices.Clone(s.past)
}

func pastOf(n *node, at time.Time) disrupt.Past {
	return disrupt.Past{Pool: poolName, Type: n.typ.Name, Zone: n.zone, CapacityType: world.CapacityOnDemand, At: at}
}

// decideOurs asks the engine.
func (s *sim) decideOurs() {
	nodes := slices.Clone(s.nodes)
	byName := map[string]*node{}
	for _, n := range nodes {
		byName[n.name] = n
	}
	for _, m := range disrupt.Decide(s.input(), s.options(), s.now).Moves {
		if s.Accept != nil && !s.Accept(m) {
			continue
		}
		c := &command{from: m.From, places: map[*world.Pod]*node{}, added: map[*world.Pod]int{}}
		for _, i := range m.Remove {
			c.remove = append(c.remove, nodes[i])
		}
		for k, n := range m.Add {
			c.launch = append(c.launch, n.Choices[0])
			for _, p := range n.Pods {
				c.added[p] = k
			}
		}
		for _, f := range m.Filled {
			for _, p := range f.Pods {
				c.places[p] = byName[f.Node.Name]
			}
		}
		s.start(c)
		if s.Moves && !s.finished {
			s.trace("%8s  %s %s\n", s.now.Sub(midnight), m.Reason, m.Why.Text)
		}
	}
}

// start begins to carry out a move: its nodes take no more pods, what replaces them is launched, and once that is up they are
// drained.
func (s *sim) start(c *command) {
	s.out.Moves++
	s.hour.moves++
	for _, x := range c.launch {
		n := s.launch(x)
		n.made, n.from = s.now, c.from
		c.made = append(c.made, n)
	}
	for p, k := range c.added {
		c.places[p] = c.made[k]
	}
	for _, n := range c.remove {
		n.leaving = true
		s.changed(n)
	}
	s.acted = s.now
	s.open = append(s.open, c)
	s.advance()
}

// advance drains the nodes of moves whose replacements are up.
func (s *sim) advance() {
	s.open = slices.DeleteFunc(s.open, func(c *command) bool {
		if slices.ContainsFunc(c.made, func(n *node) bool { return !n.up }) {
			return false
		}
		for _, n := range c.remove {
			s.drain(n, c.places)
		}
		return true
	})
}

// removeEmpty ends nodes without pods and does nothing else.
func (s *sim) removeEmpty() {
	for _, n := range s.nodes {
		if s.consolidatable(n) && len(n.pods) == 0 && s.allowed() > 0 {
			s.start(&command{remove: []*node{n}})
		}
	}
}
