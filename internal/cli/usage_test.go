package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestCommandLinesThatMakeNoSense(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	for _, x := range []struct{ line, want string }{
		{"explain", "explain needs more arguments; it is called as: karpenter explain KIND NAME | KIND/NAME [flags]"},
		{"explain pod x y", `explain does not take "pod x y"; it is called as: karpenter explain KIND`},
		{"plan deployment.yaml", `plan does not take "deployment.yaml"; it is called as: karpenter plan [-f FILE|DIR] [flags]`},
		{"replay", "replay needs more arguments; it is called as: karpenter replay FILE|- [flags]"},
		{"plan --outptu json", "plan has no flag --outptu; did you mean --output?"},
		{"top --banana", "top has no flag --banana; karpenter top --help lists those that it has"},
		{"plan -f x --max-increase much", `--max-increase is "much"; give a number, such as 12.5`},
		{"plan --workers x", `--workers is "x"; give a whole number`},
		{"plan --workers 0", "--workers is 0; give at least 1"},
		{"top --interval soon", `--interval is "soon"; give a length of time, such as 30s or 5m`},
		{"top --once=perhaps", `--once is "perhaps"; give true or false`},
		{"top --sort", "flag needs an argument: --sort; karpenter top --help says what flags there are"},
		{"top --once", "no cluster is known: there is no kubeconfig at ~/.kube/config, and $KUBECONFIG is not set; give --kubeconfig, --controller or --snapshot"},
		{"top --controller here", `--controller is "here"; give an address such as http://127.0.0.1:8080`},
		{"plan --color blue --snapshot x", `--color is "blue"; give auto, always or never`},
		{"plan --request-timeout soon --kubeconfig testdata/none", `--request-timeout is "soon"; give a length of time, such as 30s, or 0`},
		{"plan --as-group admins --kubeconfig testdata/none", "--as-group goes with --as; give the user too"},
		{"plan -f no-such-file.yaml", "no-such-file.yaml: no such file or directory"},
		{"top --snapshot usage_test.go", "snapshot usage_test.go is neither a recording nor a Kubernetes List in JSON"},
		{"explain pod x --snapshot testdata/explain", "read snapshot"},
	} {
		root := newTestRoot()
		root.AddCommand(NewReplay("test"))
		Guide(root)
		_, _, err := execute(t, root, strings.Fields(x.line)...)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("karpenter %s: %v, want %s", x.line, err, x.want)
		}
	}
}

// Every command of the program is in a group, so that none is listed as an afterthought.
func TestHelpListsCommandsByWhatTheyAreFor(t *testing.T) {
	root := &cobra.Command{Use: "karpenter"}
	root.AddCommand(newPlan(atNoon), newTop(atNoon), NewExplain(), NewReplay("test"), NewImport("test"), NewConvert(), NewAWSSim(), NewSim())
	Guide(root)
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" {
			t.Errorf("%s is in no group", cmd.Name())
		}
	}
	out, _, err := execute(t, root, "--help")
	if err != nil || strings.Index(out, "Look at a cluster") > strings.Index(out, "plan  ") || !strings.Contains(out, "Migrate:\n  convert") {
		t.Errorf("%v\n%s", err, out)
	}
}
