package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"karpenter/cloud"
	"karpenter/internal/engine/why"
	"karpenter/internal/forecast"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// replaying is a run of the replay command.
type replaying struct {
	version string
	pools   []string
	output  string
	workers int
}

// NewReplay returns the command that makes a recorded decision again.
func NewReplay(version string) *cobra.Command {
	r := &replaying{version: version}
	cmd := &cobra.Command{
		Use:   "replay FILE|-",
		Short: "Make a recorded decision again, offline, and say whether it comes out the same",
		Long: `Make the decision of a recording again, without a cluster, and say whether it comes out the same. A recording holds everything
that a decision was made from; the controller keeps those of its last decisions (GET /api/v1/decisions/ID/recording), and makes one
of any moment (GET /api/v1/recording). The same program gives the same bytes; another version may decide otherwise, and then the
difference is printed. With --nodepool pools are replaced or added first, and what that changes is printed.

The exit code is 2 if the answer is another than the recorded one.`,
		Example: `  curl -s localhost:8080/api/v1/decisions/42/recording | karpenter replay -
  karpenter replay recording.json.gz
  karpenter replay recording.json.gz --nodepool cheaper.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&r.pools, "nodepool", nil, "manifests of NodePools that replace those of the recording, or are added; may be given more than once")
	f.StringVarP(&r.output, "output", "o", "text", "text for people, json or yaml for programs")
	completeWords(cmd, map[string][]string{"output": {"text", "json", "yaml"}})
	f.IntVar(&r.workers, "workers", runtime.NumCPU(), "how many things to try at once; the answer does not depend on it")
	return cmd
}

// replayReport is what came of it.
type replayReport struct {
	model.Type
	Name string `json:"name,omitempty"`
	At   string `json:"at"`
	// Made and Replayed are the versions of the programs that decided.
	Made   string `json:"made,omitempty"`
	Replay string `json:"replayedWith"`
	// Same says whether the answer is the recorded one; nil if none was recorded.
	Same *bool `json:"same,omitempty"`
	// Changed says what --nodepool changed.
	Changed  []string       `json:"changed,omitempty"`
	Recorded *ledger.Answer `json:"recorded,omitempty"`
	Answer   *ledger.Answer `json:"answer"`
	With     *ledger.Answer `json:"with,omitempty"`
	// Difference has the lines that only the first answer has, with - in front, and those that only the second has, with +.
	Difference []string `json:"difference,omitempty"`
}

func (r *replaying) run(cmd *cobra.Command, path string) error {
	if !slices.Contains([]string{"text", "json", "yaml"}, r.output) {
		return fmt.Errorf("--output is %q; give text, json or yaml", r.output)
	}
	data, err := readInput(path, cmd.InOrStdin())
	if err != nil {
		return fmt.Errorf("read recording: %w", err)
	}
	recording, err := ledger.Read(data)
	if err != nil {
		return err
	}
	report, err := r.replay(cmd, recording)
	if err != nil {
		return err
	}
	if forPrograms(r.output) {
		err = encode(cmd.OutOrStdout(), r.output, report, "")
	} else {
		err = report.print(cmd.OutOrStdout())
	}
	if err == nil && report.Same != nil && !*report.Same {
		return &ExitError{Code: ExitChanges}
	}
	return err
}

func (r *replaying) replay(cmd *cobra.Command, recording *ledger.Recording) (*replayReport, error) {
	view, _, err := recording.View()
	if err != nil {
		return nil, err
	}
	report := &replayReport{
		Type: model.TypeOf(model.KindReplay),
		Name: recording.Name, At: recording.At.UTC().Format("2006-01-02T15:04:05Z"), Made: recording.Made, Replay: r.version,
		Recorded: recording.Answer, Answer: recording.Replay(view, r.workers),
	}
	if recording.Answer != nil {
		same, err := equal(recording.Answer, report.Answer)
		if err != nil {
			return nil, err
		}
		if report.Same = &same; !same {
			report.Difference = difference(lines(recording.Answer), lines(report.Answer))
		}
	}
	if len(r.pools) == 0 {
		return report, nil
	}
	changed, err := r.change(cmd, recording, report)
	if err != nil {
		return nil, err
	}
	report.With = recording.Replay(changed, r.workers)
	report.Difference = difference(lines(report.Answer), lines(report.With))
	return report, nil
}

// change is the recorded cluster with the pools of --nodepool.
func (r *replaying) change(cmd *cobra.Command, recording *ledger.Recording, report *replayReport) (*state.View, error) {
	manifests, err := (&planning{whatIf: whatIfFlags{files: r.pools}}).manifests(cmd.InOrStdin(), cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	for _, m := range manifests {
		if m["kind"] != "NodePool" {
			return nil, fmt.Errorf("--nodepool: %v %v is no NodePool; karpenter plan -f takes every kind", m["kind"], nameOf(m))
		}
	}
	objects, _, err := dump.Read(recording.Objects)
	if err != nil {
		return nil, err
	}
	c := &forecast.Change{
		Objects: objects, Classes: recording.Classes, Kinds: classKinds(), Now: recording.At,
		Launchable: func(list []cloud.KnownClass) (map[string]*dump.Catalog, error) {
			return launchable(context.WithoutCancel(cmd.Context()), recording.Classes, list)
		},
	}
	if err := c.Apply(manifests); err != nil {
		return nil, err
	}
	report.Changed = c.Words
	view, _ := recording.Rebuild(c.Objects)
	return view, nil
}

// equal compares answers byte by byte.
func equal(a, b *ledger.Answer) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, fmt.Errorf("comparing answers: %w", err)
	}
	y, err := json.Marshal(b)
	return bytes.Equal(x, y), err
}

// lines writes an answer as text.
func lines(a *ledger.Answer) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if p := a.Plan; p != nil {
		for i := range p.Nodes {
			say("new node of pool %s: %s, for %s", p.Nodes[i].Pool, p.Nodes[i].Words(), shortPods(p.Nodes[i].Pods))
		}
		for i := range p.Existing {
			say("node %s%s takes %s", p.Existing[i].Node.Node, p.Existing[i].Claim, shortPods(p.Existing[i].Pods))
		}
		for _, u := range p.Unplaced {
			say("unschedulable: %s: %s", shortPods(u.Pods), reasonLines(u.Why))
		}
		say("new nodes cost %s, at least %s", why.Money(p.Price), why.Money(p.Bound))
	}
	if d := a.Decision; d != nil {
		for i := range d.Moves {
			m := &d.Moves[i]
			var add []string
			for k := range m.Add {
				add = append(add, m.Add[k].Words())
			}
			by, do := "", "remove"
			if m.Reboot {
				do = "reboot"
			}
			if len(add) > 0 {
				by = ", replaced by " + strings.Join(add, " and ")
			}
			say("%s: %s %s%s, %s, saving %s", strings.ToLower(m.Reason), do, strings.Join(m.Remove, " and "), by, why.Does(m.Evicts, "pod", "restart"), why.Money(m.Saves))
		}
		for _, k := range d.Kept {
			say("node %s stays: %s", k.Node, k.Why.Line())
		}
		say("all nodes cost %s before and %s after", why.Money(d.Before), why.Money(d.After))
	}
	for i := range a.Static {
		s := &a.Static[i]
		say("static pool %s", strings.TrimSuffix(s.StaticPool.Words()+": "+s.Words(), ": "))
		for k := range s.Add {
			say("new node of pool %s: %s", s.Pool, s.Add[k].Words())
		}
		for _, k := range s.Remove {
			say("node %s is removed: %s", k.Node, k.Why.Line())
		}
	}
	return out
}

// difference lists the lines that only one side has, in order.
func difference(before, after []string) []string {
	count := map[string]int{}
	for _, l := range before {
		count[l]++
	}
	var added []string
	for _, l := range after {
		if count[l]--; count[l] < 0 {
			added = append(added, "+ "+l)
		}
	}
	var out []string
	for _, l := range before {
		if count[l] > 0 {
			count[l]--
			out = append(out, "- "+l)
		}
	}
	return append(out, added...)
}

func (r *replayReport) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Recording %sof %s", spaceAfter(r.Name), r.At)
	if r.Made != "" {
		fmt.Fprintf(&b, ", made by version %s", r.Made)
	}
	b.WriteString(".\n")
	switch {
	case r.Same == nil:
		fmt.Fprintf(&b, "No answer is recorded. The answer now:\n")
	case *r.Same:
		fmt.Fprintf(&b, "The answer is the same, to the byte.\n")
	case r.With == nil:
		fmt.Fprintf(&b, "The answer is another (- recorded, + now):\n")
	default:
		fmt.Fprintf(&b, "The answer is another than the recorded one, before any change.\n")
	}
	if r.With != nil {
		for _, c := range r.Changed {
			fmt.Fprintf(&b, "%s\n", c)
		}
		fmt.Fprintf(&b, "With that (- without, + with):\n")
		if len(r.Difference) == 0 {
			fmt.Fprintf(&b, "nothing changes\n")
		}
	}
	list := r.Difference
	if r.With == nil && (r.Same == nil || *r.Same) {
		list = lines(r.Answer)
	}
	for _, l := range list {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func spaceAfter(name string) string {
	if name == "" {
		return ""
	}
	return name + " "
}
