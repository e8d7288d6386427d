package scenarios

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/state"
)

// scaled prints what static pools need to have as many nodes as they are to have. It must not depend on the order of objects.
func scaled(t *testing.T, input string) string {
	t.Helper()
	text := scale(t, input, false)
	if again := scale(t, input, true); again != text {
		t.Errorf("the decision depends on the order of objects:\n%s", cmp.Diff(text, again))
	}
	return text
}

func scale(t *testing.T, input string, reversed bool) string {
	t.Helper()
	c := read(t, input, reversed)
	view, problems := state.BuildView(c.objects, c.catalog, c.state, c.now)
	in := c.input(view)
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "! %s\n", p)
	}
	for _, s := range disrupt.Scale(in, disrupt.Options{Pack: c.options}) {
		fmt.Fprintf(&b, "%s  %d of %d", s.Pool, s.Have(), s.Replicas)
		if s.Moving+s.Deleting > 0 {
			fmt.Fprintf(&b, "  moving %d, deleting %d", s.Moving, s.Deleting)
		}
		b.WriteString("\n")
		for _, n := range s.Add {
			first := n.Choices[0]
			fmt.Fprintf(&b, "  + %s  %s  %s  %s  $%.4f/h\n", n.Name, first.Type.Name, first.Offering.Zone, first.Offering.CapacityType, first.Offering.Price)
			if c.show["choices"] {
				fmt.Fprintf(&b, "    choices %s\n", choices(n))
			}
			for _, r := range n.Why {
				if c.show["why"] {
					fmt.Fprintf(&b, "    why %s\n", r.Line())
				}
			}
		}
		for _, l := range s.Remove {
			fmt.Fprintf(&b, "  - %s: %s\n", view.World.Nodes[l.Node].Name, l.Why.Line())
		}
		if s.Short > 0 {
			fmt.Fprintf(&b, "  %d short: %s\n", s.Short, s.Why.Line())
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
