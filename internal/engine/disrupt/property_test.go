package disrupt

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// dump prints a decision so that two can be compared.
func dump(in *Input, d *Decision) string {
	var b strings.Builder
	pods := func(list []*world.Pod) string {
		var out []string
		for _, p := range list {
			out = append(out, p.UID)
		}
		return strings.Join(out, " ")
	}
	for _, m := range d.Moves {
		names := slices.Sorted(slices.Values(m.Nodes))
		fmt.Fprintf(&b, "%s - %v saves %.9f evicts %d %s\n", m.Reason, names, m.Saves, m.Evicts, pods(m.Order))
		for _, n := range m.Add {
			fmt.Fprintf(&b, "  + %s %s %s %v: %s\n", n.Name, n.Choices[0].Type.Name, n.Choices[0].Offering.Zone, n.Types(), pods(n.Pods))
		}
		for _, f := range m.Filled {
			fmt.Fprintf(&b, "  = %s: %s\n", f.Node.Name, pods(f.Pods))
		}
	}
	var kept []string
	for _, k := range d.Kept {
		kept = append(kept, fmt.Sprintf("%s: %s\n", in.World.Nodes[k.Node].Name, k.Why.Line()))
	}
	slices.Sort(kept)
	return b.String() + strings.Join(kept, "") + fmt.Sprintf("%.9f %.9f %d %d", d.Before, d.After, d.NodesBefore, d.NodesAfter)
}

func TestPropertyMovesObeyEveryRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		d := Decide(in, Options{SpotToSpot: rapid.Bool().Draw(t, "spot"), Turn: rapid.IntRange(0, 3).Draw(t, "turn"), group: rapid.IntRange(1, 6).Draw(t, "group"), whole: rapid.IntRange(1, 20).Draw(t, "whole")}, noon)
		if faults := audit(in, d); len(faults) > 0 {
			t.Fatalf("%v\n%s", strings.Join(faults, "\n"), dump(in, d))
		}
	})
}

func TestPropertyDecisionHoldsWhenNothingChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		opt := Options{SpotToSpot: rapid.Bool().Draw(t, "spot"), group: rapid.IntRange(1, 6).Draw(t, "group"), whole: rapid.IntRange(1, 20).Draw(t, "whole")}
		d := Decide(in, opt, noon)
		c := NewCheck(in, opt, noon)
		for _, m := range d.Moves {
			if r, ok := c.Holds(m); !ok {
				t.Fatalf("%s does not hold: %s\n%s", m.Why.Text, r.Line(), dump(in, d))
			}
		}
	})
}

func TestPropertyWorkersAndOrderDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		opt := Options{SpotToSpot: rapid.Bool().Draw(t, "spot"), Pack: pack.Options{Workers: 1}, group: rapid.IntRange(1, 6).Draw(t, "group"), whole: rapid.IntRange(1, 20).Draw(t, "whole")}
		want := dump(in, Decide(in, opt, noon))
		opt.Pack.Workers = 8
		if got := dump(in, Decide(in, opt, noon)); got != want {
			t.Fatalf("workers matter: %s", cmp.Diff(want, got))
		}
		mixed := shuffled(in, rapid.Int64().Draw(t, "seed"))
		if got := dump(mixed, Decide(mixed, opt, noon)); got != want {
			t.Fatalf("order matters: %s", cmp.Diff(want, got))
		}
	})
}

// shuffled is the same cluster with everything listed in another order.
func shuffled(in *Input, seed int64) *Input {
	rng := rand.New(rand.NewSource(seed))
	out, s := *in, *in.World
	out.World = &s
	s.Nodes, s.Pools, s.Pending = slices.Clone(s.Nodes), slices.Clone(s.Pools), slices.Clone(s.Pending)
	out.Nodes, out.Pools = slices.Clone(in.Nodes), slices.Clone(in.Pools)
	rng.Shuffle(len(s.Nodes), func(i, j int) {
		s.Nodes[i], s.Nodes[j] = s.Nodes[j], s.Nodes[i]
		out.Nodes[i], out.Nodes[j] = out.Nodes[j], out.Nodes[i]
	})
	rng.Shuffle(len(s.Pools), func(i, j int) {
		s.Pools[i], s.Pools[j] = s.Pools[j], s.Pools[i]
		out.Pools[i], out.Pools[j] = out.Pools[j], out.Pools[i]
	})
	rng.Shuffle(len(s.Pending), func(i, j int) { s.Pending[i], s.Pending[j] = s.Pending[j], s.Pending[i] })
	return &out
}
