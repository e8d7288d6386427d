package explain_test

import (
	"strings"
	"testing"
	"time"

	"karpenter/internal/explain"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

func facts(a *explain.Answer, name string) (out []string) {
	for _, f := range a.Facts {
		if f.Name == name {
			out = append(out, f.Value)
		}
	}
	return out
}

func says(t *testing.T, what string, got []string, words ...string) {
	t.Helper()
	text := strings.Join(got, "\n")
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q: %q", what, w, text)
		}
	}
}

func reasons(a *explain.Answer) (out []string) {
	for _, r := range a.Why {
		out = append(out, r.Line())
	}
	return out
}

// Whoever asks about a pod or its node learns that it was moved for its cost, when, by which decision, and when that may happen again.
func TestMovedPodsSayWhenAndWhy(t *testing.T) {
	l := ledger.New(10, "test", func() time.Time { return noon.Add(-20 * time.Minute) })
	l.Add(ledger.Entry{Kind: ledger.Move, Reason: "Underutilized", Key: "m-1", Summary: "n0 m.2xlarge: its pods fit on other nodes", Outcome: ledger.Done})
	moved := state.Moved{Times: 2, At: noon.Add(-20 * time.Minute), Paid: noon.Add(40 * time.Minute), Move: "m-1", Was: "default/web-x"}
	c := clusterOf(t, objects, explain.Options{Now: noon, Ledger: l.List, Moved: map[string]state.Moved{"u1": moved}})
	a, err := c.Pod("default", "web-0")
	if err != nil {
		t.Fatal(err)
	}
	says(t, "the pod", facts(a, "moved for cost"), "20m ago", "in place of pod default/web-x", "2 moves")
	says(t, "the pod", facts(a, "may be moved again"), "in 40m")
	says(t, "the pod", reasons(a), "decision #1 moved it here for its cost", "its pods fit on other nodes")
	if a, err = c.Node("n1"); err != nil {
		t.Fatal(err)
	}
	says(t, "the node", facts(a, "moved here"), "pod default/web-0, 20m ago", "decision #1", "in 40m")

	moved.Paid, moved.Move = noon.Add(-time.Minute), ""
	c = clusterOf(t, objects, explain.Options{Now: noon, Moved: map[string]state.Moved{"u1": moved}})
	if a, err = c.Pod("default", "web-0"); err != nil {
		t.Fatal(err)
	}
	says(t, "a pod whose place has paid", facts(a, "may be moved again"), "now")
	says(t, "a pod that an earlier process moved", reasons(a), "shortly before the controller started")
}

// A node that stays because its pool is not at rest, or because a pod on it was moved a moment ago, says so.
func TestANodeSaysWhatItsPoolWaitsFor(t *testing.T) {
	list := strings.Replace(objects, `"disruptionsAllowed": 0`, `"disruptionsAllowed": 1`, 1)
	for name, test := range map[string]struct {
		facts ledger.Facts
		want  string
	}{
		"hold":  {ledger.Facts{Hold: map[string]string{"general": "12 pods are just created"}}, "12 pods are just created"},
		"moved": {ledger.Facts{Moved: map[string]state.Moved{"u1": {Times: 1, At: noon.Add(-time.Minute), Paid: noon.Add(time.Hour)}}}, "was moved here for its cost"},
	} {
		view := viewOf(t, list)
		a, err := explain.New(view, test.facts.Input(view, noon), explain.Options{Now: noon}).Node("n1")
		if err != nil {
			t.Fatal(err)
		}
		says(t, name, append(reasons(a), a.Verdict), test.want)
	}
}
