package disrupt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// MostAtOnce is how many nodes of a pool one decision makes at most, so that a number of replicas that nobody can have takes no more than a decision
// can hold. The next one goes on.
const MostAtOnce = 1000

// Size is how many nodes a static pool has and is to have.
type Size struct {
	Pool     string
	Replicas int64
	// Active are its claims that nothing removes, launched or not. Moving are those that a move removes once what replaces them is up;
	// they count as there (P108). Deleting ones do not, except for the limit.
	Active, Moving, Deleting int
	// Limit is how many nodes the pool may have at any moment, -1 for any number. All of the above count.
	Limit int64
}

// Have is how many nodes count as there.
func (s Size) Have() int { return s.Active + s.Moving }

// room is how many more nodes the limit allows.
func (s Size) room() int64 {
	if s.Limit < 0 {
		return s.Replicas
	}
	return max(0, s.Limit-int64(s.Active+s.Moving+s.Deleting))
}

// Scaling is what a static pool needs to have as many nodes as it is to have.
type Scaling struct {
	Size
	Add    []*pack.NewNode
	Remove []Leaver
	// Short is how many nodes are missing that cannot be made now, and Why why not.
	Short int
	Why   why.Reason
}

// Leaver is a node that a static pool gives up, by its index in the snapshot, and why it is this one.
type Leaver struct {
	Node int32
	Why  why.Reason
}

// Sizes counts the nodes of static pools, in the order of the snapshot's pools.
func Sizes(in *Input) []Size {
	var out []Size
	at := map[string]int{}
	for _, p := range in.World.Pools {
		if p.Static {
			at[p.Name] = len(out)
			out = append(out, Size{Pool: p.Name, Replicas: p.Replicas, Limit: p.MaxNodes})
		}
	}
	if len(out) == 0 {
		return nil
	}
	for i, n := range in.World.Nodes {
		k, ok := at[n.Pool]
		switch {
		case !ok:
		case n.Claim == "" || in.Nodes[i].Going:
			out[k].Deleting++
		case in.Nodes[i].Moving:
			out[k].Moving++
		default:
			out[k].Active++
		}
	}
	return out
}

// Scale says for every static pool which nodes are to be made and which removed so that it has as many as it is to have (P103–P109). Budgets do
// not limit that (D18). A pool never has more nodes than its limit allows, whatever state they are in.
func Scale(in *Input, opt Options) []*Scaling {
	var out []*Scaling
	for _, size := range Sizes(in) {
		s := &Scaling{Size: size}
		pool := in.World.Pools[slices.IndexFunc(in.World.Pools, func(p *world.Pool) bool { return p.Name == size.Pool })]
		switch missing := size.Replicas - int64(size.Have()); {
		case int64(size.Active) > size.Replicas:
			s.shrink(in)
		case missing > 0:
			s.grow(in, opt, pool, missing)
		}
		out = append(out, s)
	}
	return out
}

// grow makes what is missing, as far as the limit and what is in stock allow.
func (s *Scaling) grow(in *Input, opt Options, pool *world.Pool, missing int64) {
	s.Short = int(missing)
	if pool.Refused != "" {
		s.Why = why.New(why.NoPool, "pool %s %s", s.Pool, pool.Refused)
		return
	}
	wanted := min(missing, s.room())
	if wanted < missing {
		text := fmt.Sprintf("pool %s has %s, and limits.nodes is %d", s.Pool, why.Count(s.Active+s.Moving+s.Deleting, "node"), s.Limit)
		if s.Deleting > 0 {
			text += fmt.Sprintf("; %s being deleted", why.Plural(s.Deleting, "of them is", "of them are"))
		}
		s.Why = why.New(why.Limit, "%s", text)
	}
	if wanted == 0 {
		return
	}
	fixed := pack.NewFixed(in.World, pool, opt.Pack)
	s.Short -= int(max(0, wanted-MostAtOnce)) // those have their turn
	for range min(wanted, MostAtOnce) {
		n, r, ok := fixed.Next()
		if !ok {
			s.Why = r
			return
		}
		s.Short--
		n.Name = fmt.Sprintf("%s-%d", s.Pool, len(s.Add)+1)
		s.Add = append(s.Add, n)
	}
}

// ranks of nodes that a static pool gives up, in their order (P105).
const (
	rankUnlaunched = iota
	rankEmpty
	rankOthers
	rankProtected
)

// rank says which of them a node has, in words too.
func rank(n *Node) (int, string) {
	switch {
	case n.Unlaunched && !n.Protected:
		return rankUnlaunched, "it has not been launched yet"
	case n.Protected:
		return rankProtected, "it is protected by do-not-disrupt, and so is every other node that is left"
	case n.Cost <= 1:
		return rankEmpty, "it has no pods to reschedule"
	}
	return rankOthers, "disrupting it costs least"
}

// shrink removes what is too much. Of nodes that are equal by P105, those that are not initialized yet go first, then those that have drifted,
// then those of the zone with the most nodes, then the dearest.
func (s *Scaling) shrink(in *Input) {
	var left []int32
	zones := map[string]int{}
	for i, n := range in.World.Nodes {
		if n.Pool == s.Pool && n.Claim != "" && !in.Nodes[i].Going && !in.Nodes[i].Moving {
			left = append(left, int32(i))
			zones[n.Zone()]++
		}
	}
	order := func(a, b int32) int {
		x, y := &in.Nodes[a], &in.Nodes[b]
		m, n := in.World.Nodes[a], in.World.Nodes[b]
		rx, _ := rank(x)
		ry, _ := rank(y)
		c := cmp.Compare(rx, ry)
		if c == 0 && rx >= rankOthers {
			c = cmp.Compare(x.Cost*x.Left, y.Cost*y.Left)
		}
		return cmp.Or(c, last(m.Initialized, n.Initialized), last(x.Drift == "", y.Drift == ""), -cmp.Compare(zones[m.Zone()], zones[n.Zone()]), -cmp.Compare(m.Price, n.Price), strings.Compare(m.Name, n.Name))
	}
	for range int64(len(left)) - s.Replicas {
		k := slices.Index(left, slices.MinFunc(left, order))
		node := left[k]
		_, because := rank(&in.Nodes[node])
		s.Remove = append(s.Remove, Leaver{node, why.New(why.Chosen, "pool %s has %s and replicas is %d; %s", s.Pool, why.Count(len(left), "node"), s.Replicas, because)})
		zones[in.World.Nodes[node].Zone()]--
		left = slices.Delete(left, k, k+1)
	}
}

// Staged is a snapshot in which static pools are being scaled: what they make is on its way, and what they give up is being deleted.
func Staged(s *world.Snapshot, list []*Scaling) *world.Snapshot {
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	for _, x := range list {
		for _, l := range x.Remove {
			gone := withPods(out.Nodes[l.Node], out.Nodes[l.Node].Pods)
			gone.Deleting = true
			out.Nodes[l.Node] = gone
		}
		for _, n := range x.Add {
			out.Nodes = append(out.Nodes, planned(n))
		}
	}
	return &out
}
