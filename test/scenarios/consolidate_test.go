package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// monday is when scenarios take place unless they say otherwise.
var monday = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// consolidate decides about the nodes of a scenario and prints what would be done. The decision must not depend on workers or on
// the order of objects, and it must hold a moment later.
func consolidate(t *testing.T, input string) string {
	t.Helper()
	text := decide(t, input, false, 1)
	if again := decide(t, input, false, 8); again != text {
		t.Errorf("the decision depends on workers:\n%s", cmp.Diff(text, again))
	}
	if again := decide(t, input, true, 1); again != text {
		t.Errorf("the decision depends on the order of objects:\n%s", cmp.Diff(text, again))
	}
	return text
}

// read parses a scenario, and turns round the order of its objects if told to.
func read(t *testing.T, input string, reversed bool) *cluster {
	t.Helper()
	c, err := parse(input)
	if err != nil {
		t.Fatal(err)
	}
	if reversed {
		c.reverse()
	}
	return c
}

// input is what is decided about, with what the scenario says has happened before.
func (c *cluster) input(view *state.View) *disrupt.Input {
	return view.Disruption(state.DisruptionOptions{
		Past: c.past, Nominated: func(node string) time.Time { return c.nominated[node] }, Busy: func(claim string) string { return c.busy[claim] },
		Hold: func(pool string) string { return c.hold[pool] }, Blind: true, Turn: func(pool string) bool { return c.turn[pool] },
		Repair: c.repair,
	}, c.now)
}

func decide(t *testing.T, input string, reversed bool, workers int) string {
	t.Helper()
	c := read(t, input, reversed)
	view, problems := state.BuildView(c.objects, c.catalog, c.state, c.now)
	in := c.input(view)
	opt := disrupt.Options{Pack: c.options, SpotToSpot: c.spotToSpot, TerminateFirstDrift: c.terminateFirst, TerminateFirstRepair: c.terminateFirst}
	opt.Pack.Workers = workers
	d := disrupt.Decide(in, opt, c.now)
	check := disrupt.NewCheck(in, opt, c.now)
	for _, m := range d.Moves {
		if r, ok := check.Holds(m); !ok {
			t.Errorf("%s: does not hold: %s", m.Why.Line(), r.Line())
		}
	}
	return c.printMoves(view, d, problems)
}

func (c *cluster) printMoves(v *state.View, d *disrupt.Decision, problems []dump.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "! %s\n", p)
	}
	for _, m := range d.Moves {
		if m.Reboot {
			fmt.Fprintf(&b, "%s ~ %s  rebooted  %d restarts\n", m.Reason, strings.Join(m.Nodes, " "), m.Evicts)
			if c.show["why"] {
				fmt.Fprintf(&b, "    why %s\n", m.Why.Line())
			}
			continue
		}
		first := ""
		if m.TerminateFirst {
			first = "  terminate-first"
		}
		fmt.Fprintf(&b, "%s - %s  saves $%.4f/h  %d restarts%s\n", m.Reason, strings.Join(m.Nodes, " "), m.Saves, m.Evicts, first)
		for _, n := range m.Add {
			first := n.Choices[0]
			fmt.Fprintf(&b, "    + %s  %s  %s  %s  $%.4f/h  %s\n", n.Name, first.Type.Name, first.Offering.Zone, first.Offering.CapacityType, first.Offering.Price, c.count(n.Pods))
			if c.show["choices"] {
				fmt.Fprintf(&b, "      choices %s\n", choices(n))
			}
		}
		for _, f := range m.Filled {
			fmt.Fprintf(&b, "    = %s  %s\n", f.Node.Name, c.count(f.Pods))
		}
		if c.show["why"] {
			fmt.Fprintf(&b, "    why %s\n", m.Why.Line())
		}
	}
	kept := slices.Clone(d.Kept)
	slices.SortFunc(kept, func(x, y disrupt.Kept) int {
		return strings.Compare(v.World.Nodes[x.Node].Name, v.World.Nodes[y.Node].Name)
	})
	for _, k := range kept {
		fmt.Fprintf(&b, ". %s: %s\n", v.World.Nodes[k.Node].Name, k.Why.Line())
	}
	fmt.Fprintf(&b, "%d nodes $%.4f/h → %d nodes $%.4f/h", d.NodesBefore, d.Before, d.NodesAfter, d.After)
	return b.String()
}

// addAround adds what is not in objects: the moment, nodes that pods are expected on, claims that are part of something.
func (c *cluster) addAround(w words) error {
	switch w.verb {
	case "now":
		at, err := time.Parse("2006-01-02T15:04", w.name)
		c.now = at
		return err
	case "nominate":
		d, err := time.ParseDuration(w.get("for", "20s"))
		c.nominated[w.name] = c.now.Add(d)
		return err
	case "busy":
		c.busy[w.name] = w.get("why", "it is part of a move that is under way")
	case "past":
		d, err := time.ParseDuration(w.get("ago", "10m"))
		c.past = append(c.past, disrupt.Past{Pool: w.get("pool", "general"), Type: w.name, CapacityType: w.get("capacity", "on-demand"), At: c.now.Add(-d)})
		return err
	}
	return nil
}

// disruption reads a pool's words about disruption. Scenarios that do not speak of budgets have no cap.
func disruption(p *v1.NodePool, w words) error {
	d := &p.Spec.Disruption
	d.ConsolidationPolicy = v1.ConsolidationPolicy(w.get("policy", ""))
	after, err := v1.ParseNillableDuration(w.get("after", "0s"))
	if err != nil {
		return err
	}
	d.ConsolidateAfter = after
	d.Budgets = []v1.Budget{}
	for _, text := range w.all("budget") {
		if text == "default" {
			d.Budgets = nil
			continue
		}
		part := strings.Split(text, "@")
		nodes, reasons, _ := strings.Cut(part[0], ":")
		b := v1.Budget{Nodes: nodes}
		if reasons != "" {
			for _, r := range strings.Split(reasons, ",") {
				b.Reasons = append(b.Reasons, v1.DisruptionReason(r))
			}
		}
		if len(part) == 3 {
			length, err := v1.ParseDuration(part[2])
			if err != nil {
				return err
			}
			b.Schedule, b.Duration = &part[1], &length
		}
		d.Budgets = append(d.Budgets, b)
	}
	return nil
}

// claimFacts adds what a line says about a claim: how long ago its node was last busy, drift, where it comes from.
func (c *cluster) claimFacts(cl *v1.NodeClaim, w words) error {
	ago := func(key, fallback string) (metav1.Time, error) {
		d, err := time.ParseDuration(w.get(key, fallback))
		return metav1.NewTime(c.now.Add(-d)), err
	}
	var err error
	if cl.CreationTimestamp, err = ago("age", "48h"); err != nil {
		return err
	}
	for i := range cl.Status.Conditions {
		if cl.Status.Conditions[i].LastTransitionTime, err = ago("up", "24h"); err != nil {
			return err
		}
	}
	if cl.Status.LastPodEventTime, err = ago("quiet", "23h"); err != nil {
		return err
	}
	if text := w.get("drift", ""); text != "" {
		reason, message, _ := strings.Cut(text, " ")
		at, err := ago("drifted", "1h")
		if err != nil {
			return err
		}
		cl.Status.Conditions = append(cl.Status.Conditions, v1.Condition{Type: v1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: at})
	}
	if w.has("ending") {
		cl.Status.Conditions = append(cl.Status.Conditions, v1.Condition{Type: v1.ConditionInstanceTerminating, Status: metav1.ConditionTrue})
	}
	if text := w.get("tgp", ""); text != "" {
		d, err := v1.ParseDuration(text)
		if err != nil {
			return err
		}
		cl.Spec.TerminationGracePeriod = &d
	}
	if text := w.get("expires", ""); text != "" {
		d, err := v1.ParseNillableDuration(text)
		if err != nil {
			return err
		}
		cl.Spec.ExpireAfter = d
	}
	cl.Annotations = annotations(w, "claim-annotation")
	if w.has("moving") {
		cl.Annotations[v1.MoveAnnotationKey] = "id=1 reason=Drifted began=2026-01-05T12:00:00Z to=other"
	}
	if from := w.get("from", ""); from != "" {
		cl.Annotations[v1.MovedFromAnnotationKey] = "id=1 from=" + from
	}
	return nil
}

func annotations(w words, key string) map[string]string {
	out := map[string]string{}
	for _, a := range w.all(key) {
		k, v, _ := strings.Cut(a, ":")
		out[k] = v
	}
	return out
}

// addRepair adds a repair policy: the condition, and what is done when it is not True for so long.
func (c *cluster) addRepair(w words) error {
	p := life.RepairPolicy{Type: w.name, Status: "False", ReasonRegex: w.get("reason", ""), Action: life.RepairAction(w.get("action", string(life.ReplaceNode)))}
	var err error
	if p.Tolerated, err = time.ParseDuration(w.get("after", "30m")); err != nil {
		return err
	}
	if text := w.get("grace", ""); text != "" {
		grace, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		p.Grace = &grace
	}
	p.Priority, err = strconv.Atoi(w.get("priority", "0"))
	c.repair = append(c.repair, p)
	return err
}

// sick gives a node conditions that are False: type, reason, and for how long.
func (c *cluster) sick(n *corev1.Node, w words) error {
	for _, text := range w.all("sick") {
		part := strings.Split(text, ":")
		if len(part) != 3 {
			return fmt.Errorf("sick=%s: must be type:reason:duration", text)
		}
		ago, err := time.ParseDuration(part[2])
		if err != nil {
			return err
		}
		is := corev1.NodeCondition{Type: corev1.NodeConditionType(part[0]), Status: corev1.ConditionFalse, Reason: part[1], LastTransitionTime: metav1.NewTime(c.now.Add(-ago))}
		n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == is.Type })
		n.Status.Conditions = append(n.Status.Conditions, is)
	}
	return nil
}

// nodeStatus says whether the node is Ready.
func nodeStatus(n *corev1.Node, w words) {
	status := corev1.ConditionTrue
	if w.has("notready") {
		status = corev1.ConditionFalse
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	n.Annotations = annotations(w, "annotation")
}

// sized gives a node of a type of the default catalogue its size.
func sized(w words) words {
	family, size, _ := strings.Cut(w.get("type", ""), ".")
	ratio, known := map[string]int{"c": 2, "m": 4, "r": 8}[family]
	step := slices.Index([]string{"large", "xlarge", "2xlarge", "4xlarge"}, size)
	if !known || step < 0 || w.has("cpu") || w.has("mem") {
		return w
	}
	cores := 2 << step
	w.args = append(slices.Clone(w.args), [2]string{"cpu", strconv.Itoa(cores)}, [2]string{"mem", strconv.Itoa(cores*ratio) + "Gi"})
	return w
}
