package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"karpenter/internal/explain"
	"karpenter/internal/ledger"
)

// explaining is a run of the explain command.
type explaining struct {
	source    Source
	namespace string
	output    string
}

// explainKind is a kind that can be asked about, with the other names that people give it.
type explainKind struct {
	name  string
	other []string
}

var explainKinds = []explainKind{
	{"pod", []string{"pods", "po"}},
	{"node", []string{"nodes", "no"}},
	{"nodeclaim", []string{"nodeclaims", "claim"}},
	{"nodepool", []string{"nodepools", "pool"}},
	{"move", []string{"moves"}},
}

// NewExplain returns the command that says why something is as it is.
func NewExplain() *cobra.Command { return (&explaining{}).command() }

func (e *explaining) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain pod|node|nodeclaim|nodepool|move NAME",
		Short: "Say why a pod is pending, why a node is still there, and the smallest change that would flip it",
		Long: `Say what was decided about a pod, a node, a NodeClaim, a NodePool or a move; why; what was tried; what comes nearest and at
which price; and the smallest change that would flip it. The reasons are those of the controller's own decisions, and a change is
named only if the decision comes out differently with it. Nothing is changed.

The cluster is asked through its controller. Without one the cluster's objects are read and the decisions made anew, with
the built-in list of prices; --snapshot does the same with a file.

A move is named by the number of its decision (42), or by the id that it writes on claims in the annotation karpenter.sh/move.`,
		Example: `  karpenter explain pod web-7d4b9c-x2x1p -n shop
  karpenter explain node ip-10-0-1-23.ec2.internal
  karpenter explain nodepool general -o tree
  karpenter explain move 42
  karpenter explain node/n1 --snapshot cluster.json --catalog catalog.json -o json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, args) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return e.source.CompleteNames(cmd.Context(), args[0], e.namespace, begun)
			}
			if len(args) > 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var kinds []string
			for _, k := range explainKinds {
				kinds = append(kinds, k.name)
			}
			return kinds, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := cmd.Flags()
	f.StringVarP(&e.namespace, "namespace", "n", "", "namespace of the pod; that of the kubeconfig's context without it, or default")
	f.StringVarP(&e.output, "output", "o", "text", "text or tree for people, json for programs")
	e.source.AddFlags(f)
	return cmd
}

func (e *explaining) run(cmd *cobra.Command, args []string) error {
	if !slices.Contains([]string{"text", "tree", "json"}, e.output) {
		return fmt.Errorf("--output is %q; give text, tree or json", e.output)
	}
	kind, name, err := e.subject(args)
	if err != nil {
		return err
	}
	loaded, err := e.source.Load(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return err
	}
	cluster, err := explainer(loaded)
	if err != nil {
		return err
	}
	answer, err := e.ask(cluster, kind, name)
	if err != nil {
		return err
	}
	switch e.output {
	case "json":
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			*explain.Answer
			Estimate string `json:"estimate,omitempty"`
		}{answer, loaded.Estimate})
	case "tree":
		err = printMarked(cmd.OutOrStdout(), loaded.Estimate, answer.Tree)
	default:
		err = printMarked(cmd.OutOrStdout(), loaded.Estimate, answer.Text)
	}
	if err == nil {
		printEstimate(cmd.OutOrStdout(), loaded.Estimate)
	}
	if e.source.snapshot == "" || e.source.catalog == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "from", loaded.From)
	}
	return err
}

// subject reads KIND NAME or KIND/NAME.
func (e *explaining) subject(args []string) (kind, name string, err error) {
	kind = args[0]
	if len(args) == 2 {
		name = args[1]
	} else if k, n, ok := strings.Cut(args[0], "/"); ok {
		kind, name = k, n
	}
	i := slices.IndexFunc(explainKinds, func(k explainKind) bool {
		return k.name == strings.ToLower(kind) || slices.Contains(k.other, strings.ToLower(kind))
	})
	switch {
	case i < 0:
		return "", "", fmt.Errorf("cannot explain %q; give pod, node, nodeclaim, nodepool or move, and a name", kind)
	case name == "":
		return "", "", fmt.Errorf("which %s? give its name: karpenter explain %s NAME", explainKinds[i].name, explainKinds[i].name)
	}
	return explainKinds[i].name, name, nil
}

// ask puts the question.
func (e *explaining) ask(c *explain.Cluster, kind, name string) (*explain.Answer, error) {
	switch kind {
	case "node":
		return c.Node(name)
	case "nodeclaim":
		return c.Claim(name)
	case "nodepool":
		return c.Pool(name)
	case "move":
		return c.Move(name)
	}
	if space, rest, ok := strings.Cut(name, "/"); ok {
		return c.Pod(space, rest)
	}
	return c.Pod(cmp.Or(e.namespace, e.source.namespace()), name)
}

// explainer makes ready to answer questions about a loaded cluster.
func explainer(l *Loaded) (*explain.Cluster, error) {
	r := l.Recording
	view, _, err := r.View()
	if err != nil {
		return nil, err
	}
	opt := explain.Options{Pack: r.Options.Pack(), Disrupt: r.Options.Disrupt(), Now: r.At, Moved: r.Facts.Moved}
	opt.Pack.Workers, opt.Disrupt.Pack.Workers = runtime.NumCPU(), runtime.NumCPU()
	if l.Decisions != nil {
		opt.Ledger = func(q ledger.Query) []*ledger.Entry {
			entries, err := l.Decisions(q)
			if err != nil { // an answer without history is still an answer
				return nil
			}
			return entries
		}
	}
	return explain.New(view, r.Input(view), opt), nil
}
