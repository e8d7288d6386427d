package scenarios

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/explain"
	"karpenter/internal/state"
)

// explained prints the answers to the questions of a scenario. They must not depend on the order of objects or on workers, and
// must be writable as JSON.
func explained(t *testing.T, input string) string {
	t.Helper()
	text := answers(t, input, false, 1)
	if again := answers(t, input, true, 8); again != text {
		t.Errorf("the answers depend on workers or on the order of objects:\n%s", cmp.Diff(text, again))
	}
	return text
}

func answers(t *testing.T, input string, reversed bool, workers int) string {
	t.Helper()
	c := read(t, input, reversed)
	view, problems := state.BuildView(c.objects, c.catalog, c.state, c.now)
	in := c.input(view)
	opt := explain.Options{Pack: c.options, Disrupt: disrupt.Options{Pack: c.options, SpotToSpot: c.spotToSpot}, Now: c.now}
	opt.Pack.Workers, opt.Disrupt.Pack.Workers = workers, workers
	x := explain.New(view, in, opt)
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "! %s\n", p)
	}
	for _, line := range strings.Split(input, "\n") {
		rest, ok := strings.CutPrefix(line, "explain ")
		if !ok {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		kind, name, _ := strings.Cut(rest, " ")
		a, err := ask(x, kind, name)
		if err != nil {
			fmt.Fprintf(&b, "error: %v\n", err)
			continue
		}
		if _, err := json.Marshal(a); err != nil {
			t.Error(err)
		}
		if err := a.Text(&b); err != nil {
			t.Error(err)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func ask(x *explain.Cluster, kind, name string) (*explain.Answer, error) {
	switch kind {
	case "pod":
		space, name, found := strings.Cut(name, "/")
		if !found {
			space, name = "", space
		}
		return x.Pod(space, name)
	case "node":
		return x.Node(name)
	case "nodeclaim":
		return x.Claim(name)
	case "nodepool":
		return x.Pool(name)
	case "move":
		return x.Move(name)
	}
	return nil, fmt.Errorf("explain what? %q", kind)
}
