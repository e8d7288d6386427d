package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestScenarioMistakesAreNamed(t *testing.T) {
	for script, want := range map[string]string{
		"":                              "no step",
		"# only a comment":              "no step",
		"dance":                         `there is no command "dance"; there are apply, clear,`,
		"\n\nexpect nodes":              `script.txt:3: "expect nodes": there is no condition "nodes"`,
		"expect nodes is 3":             `"is" is no comparison`,
		"expect nodes <= many":          `"many" is not a number`,
		"expect nonsense <= 3":          `there is no figure "nonsense"; there are claims,`,
		"wait pods-bound":               "how long it may take",
		"wait pods-bound soon":          `"soon" is not a time`,
		"at noon kill controller":       `"noon" is not a time`,
		"at 5s":                         "a time and a command",
		"kill everything":               "only the controller",
		"scale deployment inflate many": "number of replicas",
		"apply nonsense.yaml":           "no such file",
		"fault action=ec2:CreateFleet":  "a kind and settings",
		"stock m5.large":                "name=value",
		"clear everything":              "faults and stock",
		"interrupt some":                "neither a number of instances nor all",
		"pause":                         "a time",
		"show everything":               "one of nodes, claims, pods",
	} {
		t.Run(script, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "script.txt")
			if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadScenario(file); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
		})
	}
}

func TestScenarioSteps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script.txt")
	if err := os.WriteFile(file, []byte("# first\npause 1s\n\nat 1m30s  kill   controller # boom\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ReadScenario(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.steps) != 2 || s.steps[0].line != 2 || s.steps[0].timed || s.steps[1].line != 4 || s.steps[1].at != 90*time.Second ||
		s.steps[1].text != "at 1m30s kill controller" {
		t.Errorf("got %+v", s.steps)
	}
}

func TestConditions(t *testing.T) {
	bound, waiting := &corev1.Pod{}, &corev1.Pod{}
	bound.Spec.NodeName, bound.Status.Phase = "n", corev1.PodRunning
	s := &sight{pods: []*corev1.Pod{bound, waiting}, instances: 3, settled: true}
	for text, want := range map[string]bool{
		"pods == 2": true, "pods-pending == 1": true, "pods-bound > 1": false, "pods-running >= 1": true, "instances != 3": false,
		"nodes < 1": true, "pods-bound": false, "pods-running": false, "nodes-ready": true,
	} {
		holds, err := parseCondition(strings.Fields(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, is := holds(s); got != want {
			t.Errorf("%s: %v (%s), want %v", text, got, is, want)
		}
	}
}

func TestScenariosThatComeWithItCanBeRead(t *testing.T) {
	files, err := filepath.Glob("../../examples/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario found: %v", err)
	}
	for _, file := range files {
		if _, err := ReadScenario(file); err != nil {
			t.Error(err)
		}
	}
}
