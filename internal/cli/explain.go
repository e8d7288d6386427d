package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
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
	anywhere  bool
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
	{"deployment", []string{"deployments", "deploy"}},
	{"statefulset", []string{"statefulsets", "sts"}},
	{"daemonset", []string{"daemonsets", "ds"}},
	{"replicaset", []string{"replicasets", "rs"}},
	{"job", []string{"jobs"}},
}

// explainOutputs are the values of --output.
var explainOutputs = []string{"text", "tree", "name", "json", "yaml"}

// NewExplain returns the command that says why something is as it is.
func NewExplain() *cobra.Command { return (&explaining{}).command() }

func (e *explaining) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain KIND NAME | KIND/NAME",
		Short: "Say why a pod is pending, why a node is still there, and the smallest change that would flip it",
		Long: `Say what was decided about a pod, a node, a NodeClaim, a NodePool or a move; why; what was tried; what comes nearest and at
which price; and the smallest change that would flip it. The reasons are those of the controller's own decisions, and a change is
named only if the decision comes out differently with it. Nothing is changed.

Of a Deployment, StatefulSet, DaemonSet, ReplicaSet or Job: its pods by what they have in common, one of each explained, and its
share in what its nodes cost.

The cluster is asked through its controller. Without one the cluster's objects are read and the decisions made anew, with
the built-in list of prices; --snapshot does the same with a file.

A move is named by the number of its decision (42), or by the id that it writes on claims in the annotation karpenter.sh/move.`,
		Example: `  karpenter explain pod web-7d4b9c-x2x1p -n shop
  karpenter explain node ip-10-0-1-23.ec2.internal
  karpenter explain deployment/web -n shop
  karpenter explain nodepool general -o tree
  karpenter explain move 42
  karpenter explain node/n1 --snapshot cluster.json --catalog catalog.json -o json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, args) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return e.complete(cmd, args, begun)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&e.namespace, "namespace", "n", "", "namespace of the pod or workload; that of the kubeconfig's context without it, or default")
	f.BoolVarP(&e.anywhere, "all-namespaces", "A", false, "look for the pod or workload in every namespace")
	f.StringVarP(&e.output, "output", "o", "text", "text or tree for people, json or yaml for programs, name for the names of the pods or the object alone")
	e.source.AddFlags(f)
	e.source.completeAccess(cmd)
	completeWords(cmd, map[string][]string{"output": explainOutputs})
	return cmd
}

// complete completes a kind, and a name after it or after its slash.
func (e *explaining) complete(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	kind, name, slash := strings.Cut(begun, "/")
	switch {
	case len(args) == 1:
		if i := kindIndex(args[0]); i >= 0 {
			return e.source.CompleteNames(cmd.Context(), explainKinds[i].name, e.namespace, begun)
		}
	case len(args) == 0 && slash:
		if i := kindIndex(kind); i >= 0 {
			names, directive := e.source.CompleteNames(cmd.Context(), explainKinds[i].name, e.namespace, name)
			for n := range names {
				names[n] = kind + "/" + names[n]
			}
			return names, directive
		}
	case len(args) == 0:
		var kinds []string
		for _, k := range explainKinds {
			kinds = append(kinds, k.name)
		}
		return kinds, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// kindIndex finds a kind by any of its names; -1 if there is none.
func kindIndex(kind string) int {
	return slices.IndexFunc(explainKinds, func(k explainKind) bool {
		return k.name == strings.ToLower(kind) || slices.Contains(k.other, strings.ToLower(kind))
	})
}

// answer is what can be printed about an object.
type answer interface {
	Text(w io.Writer) error
	Tree(w io.Writer) error
}

func (e *explaining) run(cmd *cobra.Command, args []string) error {
	if !slices.Contains(explainOutputs, e.output) {
		return fmt.Errorf("--output is %q; give text, tree, name, json or yaml", e.output)
	}
	if e.anywhere && e.namespace != "" {
		return errors.New("--namespace and --all-namespaces contradict each other; give one of them")
	}
	kind, name, err := e.subject(args)
	if err != nil {
		return err
	}
	going := newProgress(cmd.ErrOrStderr(), "reading the cluster")
	defer going.end()
	loaded, err := e.source.Load(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return err
	}
	cluster, err := explainer(loaded)
	if err != nil {
		return err
	}
	going.on("working out why")
	answer, err := e.ask(cluster, kind, name)
	if err != nil {
		return missing(cmd.Context(), loaded, kind, err)
	}
	going.end()
	switch e.output {
	case "json", "yaml":
		return writeAnswer(cmd.OutOrStdout(), e.output, answer, loaded.Estimate)
	case "name":
		_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(namesOf(answer, kind), "\n"))
		return err
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
	i := kindIndex(kind)
	switch {
	case i < 0:
		return "", "", fmt.Errorf("cannot explain %q; give pod, node, nodeclaim, nodepool, move, deployment, statefulset, daemonset, replicaset or job, and a name", kind)
	case name == "":
		return "", "", fmt.Errorf("which %s? give its name: karpenter explain %s NAME", explainKinds[i].name, explainKinds[i].name)
	}
	return explainKinds[i].name, name, nil
}

// ask puts the question.
func (e *explaining) ask(c *explain.Cluster, kind, name string) (answer, error) {
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
	full := "Pod"
	if i := slices.IndexFunc(explain.WorkloadKinds, func(k string) bool { return strings.EqualFold(k, kind) }); i >= 0 {
		full = explain.WorkloadKinds[i]
	}
	space, name, err := e.place(c, full, name)
	if err != nil {
		return nil, err
	}
	if full == "Pod" {
		return c.Pod(space, name)
	}
	return c.Workload(full, space, name)
}

// place says in which namespace something is: what its name says, the flags or the kubeconfig.
func (e *explaining) place(c *explain.Cluster, kind, name string) (namespace, rest string, err error) {
	if space, rest, ok := strings.Cut(name, "/"); ok {
		return space, rest, nil
	}
	if !e.anywhere {
		return cmp.Or(e.namespace, e.source.namespace()), name, nil
	}
	switch spaces := c.Namespaces(kind, name); len(spaces) {
	case 0:
		return "", "", &explain.NotFound{Kind: strings.ToLower(kind), Name: name, Note: "no namespace has one"}
	case 1:
		return spaces[0], name, nil
	default:
		return "", "", fmt.Errorf("there is a %s %s in %s: %s; say which one by -n NAMESPACE", strings.ToLower(kind), name, count(len(spaces), "namespace", "namespaces"), strings.Join(spaces, ", "))
	}
}

// workloadPaths are where workloads are, by kind.
var workloadPaths = map[string]string{"deployment": "apps/v1", "statefulset": "apps/v1", "daemonset": "apps/v1", "replicaset": "apps/v1", "job": "batch/v1"}

// missing says of a workload without pods whether there is one at all, where that can be asked.
func missing(ctx context.Context, loaded *Loaded, kind string, err error) error {
	var none *explain.NotFound
	if workloadPaths[kind] == "" || loaded.exists == nil || !errors.As(err, &none) {
		return err
	}
	space, name, ok := strings.Cut(none.Name, "/")
	if !ok {
		return err
	}
	if there, asked := loaded.exists(ctx, fmt.Sprintf("/apis/%s/namespaces/%s/%ss/%s", workloadPaths[kind], url.PathEscape(space), kind, url.PathEscape(name))); asked == nil && there {
		return fmt.Errorf("%s %s has no pods that have not finished, so there is nothing to explain; kubectl describe %s %s -n %s says what it is doing", kind, none.Name, kind, name, space)
	}
	return err
}

// namesOf are the names that -o name prints: the pods of a workload, those that need attention first, or the object itself.
func namesOf(a answer, kind string) []string {
	var names []string
	switch a := a.(type) {
	case *explain.Workload:
		for _, g := range a.Groups {
			for _, pod := range g.Pods {
				_, name, _ := strings.Cut(pod, "/")
				names = append(names, "pod/"+name)
			}
		}
	case *explain.Answer:
		names = append(names, kind+"/"+a.Subject.Name)
	}
	return names
}

// writeAnswer writes an answer for programs, with what its prices are if they are estimates.
func writeAnswer(w io.Writer, format string, a answer, estimate string) error {
	switch a := a.(type) {
	case *explain.Workload:
		return encode(w, format, a.Document(estimate), "  ")
	case *explain.Answer:
		return encode(w, format, a.Document(estimate), "  ")
	}
	return nil
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
