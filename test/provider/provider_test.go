// Package provider compiles and tests the example provider, which is a module of its own: so what it uses can be imported from outside.
package provider

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const module = "../../examples/provider"

func run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The example passes the suite that its page tells of, as a module that replaces ours and imports nothing internal.
func TestExampleProvider(t *testing.T) {
	if out := run(t, "test", "-v", "./..."); strings.Count(out, "--- PASS: TestConformance/") < 14 {
		t.Errorf("too few tests of the suite ran:\n%s", out)
	}
	run(t, "vet", "./...")
	for _, path := range strings.Fields(run(t, "list", "-f", `{{join .Imports " "}}`, ".")) {
		if strings.HasPrefix(path, "karpenter/internal/") {
			t.Errorf("the example imports %s", path)
		}
	}
	binary := t.TempDir() + "/rack"
	run(t, "build", "-o", binary, ".")
	help, err := exec.CommandContext(t.Context(), binary, "controller", "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(help), "--rack-dir") || strings.Contains(string(help), "AWS") {
		t.Errorf("the program with this provider alone: %v\n%s", err, help)
	}
}
