package scenarios

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

var update = flag.Bool("update", false, "rewrite the expected plans")

// scenario is one section of a file.
type scenario struct {
	name  string
	input string
	want  string
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios found: %v", err)
	}
	seen := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, list := split(string(data))
		for i := range list {
			s := &list[i]
			if other, twice := seen[s.name]; twice {
				t.Errorf("%s: scenario %q is also in %s", file, s.name, other)
			}
			seen[s.name] = file
			t.Run(s.name, func(t *testing.T) {
				got := run(t, s.input)
				if !*update && got != s.want {
					t.Errorf("plan differs (-want +got):\n%s", cmp.Diff(s.want, got))
				}
				s.want = got
			})
		}
		if text := join(head, list); *update && text != string(data) {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// split cuts a file at lines of the form "-- name --".
func split(text string) (head string, list []scenario) {
	var at *scenario
	var body []string
	flush := func() {
		whole := strings.Join(body, "\n") + "\n"
		body = nil
		if at == nil {
			head = whole
			return
		}
		in, want, _ := strings.Cut(whole, "\n----\n")
		at.input, at.want = in, strings.TrimRight(want, "\n")
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --") {
			flush()
			list = append(list, scenario{name: strings.TrimSuffix(strings.TrimPrefix(line, "-- "), " --")})
			at = &list[len(list)-1]
			continue
		}
		body = append(body, line)
	}
	flush()
	return head, list
}

func join(head string, list []scenario) string {
	var b strings.Builder
	b.WriteString(strings.TrimRight(head, "\n") + "\n")
	for _, s := range list {
		fmt.Fprintf(&b, "-- %s --\n%s\n----\n%s\n\n", s.name, strings.TrimRight(strings.TrimSuffix(s.input, "\n----"), "\n"), s.want)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// run plans a scenario and prints the plan. The plan must not depend on workers or on being asked twice.
func run(t *testing.T, input string) string {
	t.Helper()
	if slices.Contains(strings.Split(input, "\n"), "consolidate") {
		return consolidate(t, input)
	}
	if strings.Contains("\n"+input, "\nexplain ") {
		return explained(t, input)
	}
	c, err := parse(input)
	if err != nil {
		t.Fatal(err)
	}
	snap, problems := state.Build(c.objects, c.catalog, c.state)
	plan := pack.Solve(snap, c.options)
	text := c.print(snap, plan, problems)
	many := c.options
	many.Workers = 8
	if again := c.print(snap, pack.Solve(snap, many), problems); again != text {
		t.Errorf("plan depends on workers:\n%s", cmp.Diff(text, again))
	}
	other, err := parse(input)
	if err != nil {
		t.Fatal(err)
	}
	other.reverse()
	snap, problems = state.Build(other.objects, other.catalog, other.state)
	if again := other.print(snap, pack.Solve(snap, c.options), problems); again != text {
		t.Errorf("plan depends on the order of objects:\n%s", cmp.Diff(text, again))
	}
	return text
}

// reverse lists every kind of object backwards.
func (c *cluster) reverse() {
	o := c.objects
	slices.Reverse(o.Pods)
	slices.Reverse(o.Nodes)
	slices.Reverse(o.Pools)
	slices.Reverse(o.Claims)
	slices.Reverse(o.DaemonSets)
	slices.Reverse(o.Budgets)
	slices.Reverse(o.Volumes)
	slices.Reverse(o.VolumeUses)
	slices.Reverse(o.Namespaces)
	slices.Reverse(o.CSINodes)
	slices.Reverse(c.catalog.InstanceTypes)
}

func (c *cluster) print(s *world.Snapshot, plan *pack.Plan, problems []dump.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "! %s\n", p)
	}
	for _, n := range plan.Nodes {
		first := n.Choices[0]
		fmt.Fprintf(&b, "+ %s  %s  %s  %s  $%.4f/h  %s", n.Name, first.Type.Name, first.Offering.Zone, first.Offering.CapacityType, first.Offering.Price, c.count(n.Pods))
		if n.MinValuesRelaxed {
			b.WriteString("  (minValues relaxed)")
		}
		b.WriteString("\n")
		if c.show["choices"] {
			fmt.Fprintf(&b, "    choices %s\n", choices(n))
		}
		if c.show["labels"] {
			fmt.Fprintf(&b, "    labels %v\n", n.Labels)
		}
		if c.show["claim"] {
			fmt.Fprintf(&b, "    claim %s\n", n.Requirements())
		}
		if c.show["why"] {
			for _, w := range n.Why {
				fmt.Fprintf(&b, "    why %s\n", w.Line())
			}
		}
	}
	for _, e := range plan.Existing {
		fmt.Fprintf(&b, "= %s  %s\n", e.Node.Name, c.count(e.Pods))
	}
	for _, u := range plan.Unplaced {
		var reasons []string
		for _, r := range u.Reasons {
			reasons = append(reasons, r.Line())
		}
		fmt.Fprintf(&b, "- %s: %s\n", c.count(u.Pods), strings.Join(reasons, "; "))
	}
	fmt.Fprintf(&b, "total $%.4f/h · bound $%.4f/h · %d placed · %d left", plan.Price, plan.Bound, plan.Placed, plan.Pods-plan.Placed)
	if plan.Spare > 0 {
		fmt.Fprintf(&b, " · %d of %d spare", plan.Kept, plan.Spare)
	}
	if plan.Bound > plan.Price*(1+1e-9) {
		b.WriteString(" · THE BOUND IS WRONG")
	}
	return b.String()
}

func choices(n *pack.NewNode) string {
	var out []string
	for _, c := range n.Choices {
		out = append(out, c.Type.Name+"/"+c.Offering.Zone+"/"+c.Offering.CapacityType)
	}
	return strings.Join(out, " ")
}

// count names pods by their workload: web×2.
func (c *cluster) count(pods []*world.Pod) string {
	n := map[string]int{}
	for _, p := range pods {
		n[c.workload[p.UID]]++
	}
	names := make([]string, 0, len(n))
	for k := range n {
		names = append(names, k)
	}
	slices.Sort(names)
	for i, k := range names {
		names[i] = fmt.Sprintf("%s×%d", k, n[k])
	}
	return strings.Join(names, " ")
}
