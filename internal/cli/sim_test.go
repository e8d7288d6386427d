package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runSim(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := NewSim()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestSim_BadInput: a plan that makes no sense is told with its line, and with what would.
func TestSim_BadInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.plan")
	for text, want := range map[string]string{
		"seed x\n1m end\n":                          "bad.plan:1: seed \"x\" is no whole number from 0 on; write for example: seed 7",
		"seed 1\nsoon crash\n":                      "bad.plan:2: \"soon\" is no time since the start",
		"# so\n\n1m crsh\n":                         "bad.plan:3: \"crsh\" is no verb; did you mean crash?",
		"1m\n":                                      "bad.plan:1: there is a time and nothing that happens then",
		"2m crash\n1m crash\n":                      "bad.plan:2: 1m0s is before 2m0s of the line above",
		"0s app web\n":                              "bad.plan:1: 1 of at least 4 arguments are there; it is written as: TIME app NAME REPLICAS",
		"0s pool default speed=9\n":                 "bad.plan:1: \"speed\" is not one of cpu, nodes",
		"0s fault drop ec2:CreateFleet 120%\n":      "bad.plan:1: \"120%\" is no share such as 20%",
		"0s fault melt ec2:CreateFleet 20%\n":       "bad.plan:1: fault: kind \"melt\" is not error",
		"0s crash-at 0 before\n":                    "bad.plan:1: \"0 before\" is no number from 1 on with before or after",
		"0s watch drop Node\n":                      "bad.plan:1: \"drop\" is not relist, repeat or hold",
		"1m crash\n":                                "the last line must say when it ends, such as: 50m end",
		"0s crash now\n5m end\n":                    "bad.plan:1: \"now\" is too much",
		"0s app web three 500m 1Gi\n5m end\n":       "bad.plan:1: replicas: \"three\" is no whole number",
		"0s delete pod\n5m end\n":                   "bad.plan:1: \"pod\" is neither nodeclaim nor node",
		"0s app a 1 1 1Gi spread=rack\n5m end\n":    "bad.plan:1: spread: \"rack\" is neither zone nor host",
		"0s stock * * sopt 0\n5m end\n":             "bad.plan:1: capacity type \"sopt\" is not spot, on-demand or *",
		"0s pool default\n1m scale wbe 3\n5m end\n": "bad.plan:2: 1m0s scale wbe 3: there is no workload with the name wbe (to play it again: karpenter sim --plan ",
		"0s pool default\n1m replicas 2\n5m end\n":  "bad.plan:2: 1m0s replicas 2: the controller runs already",
		"0s pool default budget=many\n5m end\n":     "bad.plan:1: budget: \"many\" is no whole number",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := runSim(t, "--plan", path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, args := range [][]string{{"--seed", "1", "--plan", path}, {"--history"}, {"--for", "0s"}, {"--plan", filepath.Join(t.TempDir(), "none")}} {
		if _, err := runSim(t, args...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// TestSim_Plays plays a plan of a few minutes, and seeds for a moment.
func TestSim_Plays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "good.plan")
	if err := os.WriteFile(path, []byte("seed 3\n0s pool default cpu=16\n0s app web 3 500m 1Gi\n2m crash\n4m calm\n6m end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := runSim(t, "--plan", path, "--history")
	if err != nil || !strings.Contains(out, "Played seed 3: no rule was broken.") || !strings.Contains(out, "crash of karpenter-1") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := runSim(t, "--for", "1s"); err != nil || !strings.Contains(out, "no rule was broken") || !strings.Contains(out, " of simulated time, ") {
		t.Errorf("%v\n%s", err, out)
	}
}
