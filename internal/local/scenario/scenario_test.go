package scenario

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
		"predict":                       "off and a reason, or on",
		"predict off":                   "say why",
		"show everything":               "one of nodes, claims, pods",
	} {
		t.Run(script, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "script.txt")
			if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(file); err == nil || !strings.Contains(err.Error(), want) {
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
	s, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.steps) != 2 || s.steps[0].line != 2 || s.steps[0].timed || s.steps[1].line != 4 || s.steps[1].at != 90*time.Second ||
		s.steps[1].text != "at 1m30s kill controller" {
		t.Errorf("got %+v", s.steps)
	}
}

func TestStepsThatPlanIsAskedAbout(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pod.yaml"), []byte("{apiVersion: v1, kind: Pod, metadata: {name: p}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"apply pod.yaml": "change", "scale deployment web 3": "change", "kubectl patch nodepool p -p {}": "change", "kubectl delete node n": "change",
		"kubectl get nodes": "", "kubectl wait node/n --for=delete": "", "wait pods-bound 5s": "", "kill controller": "", "fault drop": "",
		"terminate 1": "surprise", "interrupt all": "surprise", "storm percent=50": "surprise",
		"predict off nobody knows": "off: nobody knows", "predict on": "on: ",
	} {
		s, err := parseStep(dir, strings.Fields(text))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		switch {
		case s.predict != "":
			got = s.predict + ": " + s.excuse
		case s.surprise:
			got = "surprise"
		case s.change != nil:
			got = "change"
		}
		if got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestFleetsAreCompared(t *testing.T) {
	a := plannedNode{Pool: "p", Type: "m5.large", Zone: "a", CapacityType: "spot", Price: 0.03}
	b := plannedNode{Pool: "p", Type: "c5.large", Zone: "b", CapacityType: "on-demand", Price: 0.08}
	system := plannedNode{Type: "m5.xlarge"}
	dear, elsewhere := a, a
	dear.Price, elsewhere.Zone = 0.0301, "b"
	is := newOutlook([]plannedNode{a, b, a}, 2)
	for name, x := range map[string]struct {
		other outlook
		same  bool
	}{
		"in another order, with what is not ours": {newOutlook([]plannedNode{b, a, system, a}, 2), true},
		"at another price":                        {newOutlook([]plannedNode{dear, b, a}, 2), false},
		"in another zone":                         {newOutlook([]plannedNode{elsewhere, b, a}, 2), false},
		"without one of them":                     {newOutlook([]plannedNode{a, b}, 2), false},
		"with other pods waiting":                 {newOutlook([]plannedNode{a, b, a}, 1), false},
	} {
		if is.same(x.other) != x.same {
			t.Errorf("%s: same is %v", name, !x.same)
		}
	}
	if got, want := is.String(), "3 nodes for $0.1400/h (1 × p c5.large on-demand b, 2 × p m5.large spot a), 2 unschedulable pods"; got != want {
		t.Errorf("it is told as %q, want %q", got, want)
	}
}

func TestConditions(t *testing.T) {
	bound, waiting := &corev1.Pod{}, &corev1.Pod{}
	bound.Spec.NodeName, bound.Status.Phase = "n", corev1.PodRunning
	s := &observation{pods: []*corev1.Pod{bound, waiting}, instances: 3, settled: true}
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
	files, err := filepath.Glob("../../../examples/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario found: %v", err)
	}
	for _, file := range files {
		if _, err := Read(file); err != nil {
			t.Error(err)
		}
	}
}
