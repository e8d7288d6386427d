package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"karpenter/internal/engine/why"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
)

// deciding is a run of the decisions command.
type deciding struct {
	source    Source
	kinds     []string
	about     string
	namespace string
	limit     int
	follow    bool
	interval  time.Duration
	recording string
	output    string
}

var decisionKinds = []string{"Plan", "Refusal", "Move", "Launch", "Failure", "Interruption", "Removal"}

// NewDecisions returns the command that lists what the controller has decided.
func NewDecisions() *cobra.Command {
	d := &deciding{}
	cmd := &cobra.Command{
		Use:   "decisions [ID]",
		Short: "List what the controller has decided, follow it, or fetch the recording of a decision",
		Long: `List the decisions of the controller, the newest last: plans, moves, refusals, launches, failures, interruptions and removals, each
with its reason in one sentence and its outcome. With the number of a decision: that decision in full. Nothing is changed.`,
		Example: `  karpenter decisions
  karpenter decisions --kind Move,Removal --follow
  karpenter decisions --about node/ip-10-0-1-23.ec2.internal
  karpenter decisions 42
  karpenter decisions 42 --recording 42.json && karpenter replay 42.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return d.run(cmd, args) },
	}
	f := cmd.Flags()
	d.source.addClusterFlags(f)
	f.StringSliceVar(&d.kinds, "kind", nil, "only decisions of these kinds: "+strings.Join(decisionKinds, ", "))
	f.StringVar(&d.about, "about", "", "only decisions about this object: pod/NAME, node/NAME, nodeclaim/NAME or nodepool/NAME")
	f.StringVarP(&d.namespace, "namespace", "n", "", "namespace of the pod in --about; that of the kubeconfig's context without it, or default")
	f.IntVar(&d.limit, "limit", 20, "how many to list at most, the newest")
	f.BoolVarP(&d.follow, "follow", "f", false, "go on with those that come, and with outcomes, until interrupted")
	f.DurationVar(&d.interval, "interval", 2*time.Second, "how often to ask with --follow")
	f.StringVar(&d.recording, "recording", "", "with an ID: write the recording that the decision was made from to this file; - is standard output")
	f.StringVarP(&d.output, "output", "o", "table", "table for people, json or yaml for programs; with --follow one document a line in json, several documents in yaml")
	d.source.completeAccess(cmd)
	completeWords(cmd, map[string][]string{"output": {"table", "json", "yaml"}, "kind": decisionKinds})
	return cmd
}

func (d *deciding) run(cmd *cobra.Command, args []string) error {
	query, err := d.query(args)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		return d.one(cmd, args[0])
	}
	shown := shownDecisions{}
	for first := true; ; first = false {
		var list []*ledger.Entry
		err := d.source.askController(cmd.Context(), func(e *endpoint) error {
			var err error
			list, err = e.decisions(cmd.Context(), query)
			return err
		})
		switch {
		case d.follow && cmd.Context().Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil: // a controller that restarts is asked again
			fmt.Fprintln(cmd.ErrOrStderr(), "karpenter:", oneLine(err))
		}
		slices.Reverse(list)
		if err := d.print(cmd.OutOrStdout(), shown.news(list), first); err != nil || !d.follow {
			return err
		}
		query.Since, query.Limit = shown.since(), maxFollowed
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(d.interval):
		}
	}
}

// maxFollowed is how many decisions are asked for at once while they are followed.
const maxFollowed = 1000

// query is what the flags ask for.
func (d *deciding) query(args []string) (ledger.Query, error) {
	q := ledger.Query{Limit: d.limit}
	switch {
	case d.output != "table" && !forPrograms(d.output):
		return q, fmt.Errorf("--output is %q; give table, json or yaml", d.output)
	case d.limit < 1:
		return q, fmt.Errorf("--limit is %d; give at least 1", d.limit)
	case d.interval < 100*time.Millisecond:
		return q, fmt.Errorf("--interval is %s; give at least 100ms", d.interval)
	case len(args) == 1 && (d.follow || d.about != "" || len(d.kinds) > 0):
		return q, errors.New("an ID names one decision; give it without --follow, --about and --kind")
	case len(args) == 0 && d.recording != "":
		return q, errors.New("--recording needs the ID of a decision: karpenter decisions ID --recording FILE")
	}
	for _, kind := range d.kinds {
		i := slices.IndexFunc(decisionKinds, func(k string) bool { return strings.EqualFold(k, kind) })
		if i < 0 {
			return q, fmt.Errorf("--kind is %q; give one of %s", kind, strings.Join(decisionKinds, ", "))
		}
		q.Kinds = append(q.Kinds, ledger.Kind(decisionKinds[i]))
	}
	if d.about != "" {
		kinds := map[string]string{"pod": "Pod", "node": "Node", "nodeclaim": "NodeClaim", "nodepool": "NodePool"}
		kind, name, _ := strings.Cut(d.about, "/")
		if kinds[strings.ToLower(kind)] == "" || name == "" {
			return q, fmt.Errorf("--about is %q; give pod/NAME, node/NAME, nodeclaim/NAME or nodepool/NAME", d.about)
		}
		q.About = &ledger.Ref{Kind: kinds[strings.ToLower(kind)], Name: name}
		if q.About.Kind == "Pod" {
			q.About.Namespace = cmp.Or(d.namespace, d.source.namespace())
		}
	}
	return q, nil
}

// one prints a decision in full, or fetches its recording.
func (d *deciding) one(cmd *cobra.Command, id string) error {
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return fmt.Errorf("%q is no decision; give the number in the column ID of karpenter decisions", id)
	}
	path := "decisions/" + id
	if d.recording != "" {
		path += "/recording"
	}
	var data []byte
	if err := d.source.askController(cmd.Context(), func(e *endpoint) (err error) {
		data, err = e.get(cmd.Context(), path)
		return err
	}); err != nil {
		return err
	}
	switch {
	case d.recording == "-":
		_, err := cmd.OutOrStdout().Write(data)
		return err
	case d.recording != "":
		if err := os.WriteFile(d.recording, data, 0o600); err != nil {
			return fmt.Errorf("write the recording: %w", err)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "the recording of decision %s is in %s\n", id, d.recording)
		return nil
	}
	got := &ledger.Decision{}
	if err := json.Unmarshal(data, got); err != nil {
		return fmt.Errorf("reading decision %s: %w", id, err)
	}
	if got.Decision == nil {
		return fmt.Errorf("reading decision %s: the controller does not answer in %s; use a program of its version", id, model.APIVersion)
	}
	if forPrograms(d.output) {
		return encode(cmd.OutOrStdout(), d.output, got, "  ")
	}
	printDecision(cmd.OutOrStdout(), got.Decision)
	return nil
}

// shownDecisions are those that have been printed and are not over.
type shownDecisions struct {
	last uint64
	open map[uint64]ledger.Outcome
}

// news lists the decisions that have not been printed yet, or have another outcome since.
func (s *shownDecisions) news(list []*ledger.Entry) []*ledger.Entry {
	if s.open == nil {
		s.open = map[uint64]ledger.Outcome{}
	}
	var out []*ledger.Entry
	for _, e := range list {
		before, seen := s.open[e.ID]
		if e.ID <= s.last && (!seen || before == e.Outcome) {
			continue
		}
		out = append(out, e)
		delete(s.open, e.ID)
		if e.Outcome == ledger.Open {
			s.open[e.ID] = e.Outcome
		}
	}
	for _, e := range out {
		s.last = max(s.last, e.ID)
	}
	return out
}

// since is the decision after which something may be new.
func (s *shownDecisions) since() uint64 {
	from := s.last
	for id := range s.open {
		from = min(from, id-1)
	}
	return from
}

func (d *deciding) print(w io.Writer, list []*ledger.Entry, first bool) error {
	if d.output != "table" && d.follow {
		for _, e := range list {
			if d.output == "yaml" {
				fmt.Fprintln(w, "---")
			}
			if err := encode(w, d.output, e.Document(), ""); err != nil {
				return err
			}
		}
		return nil
	}
	if d.output != "table" {
		return encode(w, d.output, ledger.NewDecisions(list, 0), "  ")
	}
	if first && len(list) == 0 {
		fmt.Fprintln(w, "no decisions yet")
		return nil
	}
	tw := tabwriter.NewWriter(w, 8, 4, 2, ' ', 0)
	if first {
		fmt.Fprintln(tw, "ID\tTIME\tKIND\tREASON\tOUTCOME\tDECISION")
	}
	for _, e := range list {
		text := e.Summary
		if e.Result != "" && e.Outcome != ledger.Open {
			text += ": " + e.Result
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.At.UTC().Format("15:04:05Z"), e.Kind, e.Reason, e.Outcome, text)
	}
	return tw.Flush()
}

// printDecision prints a decision in full.
func printDecision(w io.Writer, e *ledger.Entry) {
	fmt.Fprintf(w, "%s %d of %s: %s\n", e.Kind, e.ID, e.At.UTC().Format(time.RFC3339), e.Summary)
	outcome := string(e.Outcome)
	if e.Result != "" {
		outcome += ": " + e.Result
	}
	fmt.Fprintln(w, "Outcome:", outcome)
	if len(e.Why) > 0 {
		fmt.Fprintln(w, "\nWhy")
		for _, x := range e.Why {
			fmt.Fprintln(w, " ", x.Line())
		}
	}
	for _, part := range []struct {
		title string
		nodes []model.Node
	}{{"Adds", e.Add}, {"Removes", e.Remove}} {
		if len(part.nodes) == 0 {
			continue
		}
		fmt.Fprintln(w, "\n"+part.title)
		for i := range part.nodes {
			n := &part.nodes[i]
			fmt.Fprintf(w, "  %s: %s, %s\n", cmp.Or(n.Node, n.Claim, "a node"), n.Words(), why.Count(len(n.Pods), "pod"))
		}
	}
	if e.Recorded {
		fmt.Fprintf(w, "\nIts input is kept: karpenter decisions %d --recording FILE\n", e.ID)
	}
}

// askController asks the cluster's controller for what only it knows.
func (s *Source) askController(ctx context.Context, ask func(*endpoint) error) error {
	if url := cmp.Or(s.controller, os.Getenv(controllerEnv)); url != "" {
		e, err := endpointAt(url)
		if err != nil {
			return err
		}
		return ask(e)
	}
	cluster, err := s.connect()
	if err != nil {
		return err
	}
	var missing *statusError
	silence := cluster.ask(ctx, func(e *endpoint) error {
		err := ask(e)
		if errors.As(err, &missing) && missing.code == http.StatusNotFound { // which is an answer
			return nil
		}
		missing = nil
		return err
	})
	switch {
	case missing != nil:
		return missing
	case silence != "":
		return fmt.Errorf("cluster %s: %s; is Karpenter installed?", cluster.name, silence)
	}
	return nil
}
