package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"karpenter/internal/model"
	"karpenter/test/schema"
)

// TestDocumentsAreAsTheirSchemas: what commands print for programs is what docs/reference/schema says, in JSON and in YAML.
func TestDocumentsAreAsTheirSchemas(t *testing.T) {
	f := newFixture(t)
	f.pods("late", 2, "1", "1Gi", "")
	f.pods("huge", 1, "100", "1Gi", "")
	snapshot, catalog := f.write()
	files := []string{"--snapshot", snapshot, "--catalog", catalog}
	recording, change := filepath.Join(t.TempDir(), "recording.json"), filepath.Join(t.TempDir(), "web.yaml")
	for file, data := range map[string][]byte{recording: recordedFixture(t), change: []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"more"},
		"spec":{"replicas":3,"selector":{"matchLabels":{"app":"more"}},"template":{"metadata":{"labels":{"app":"more"}},
		"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}}}`)} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	controller := "--controller=" + ledgerAPI(t, someDecisions())
	seen := map[string]bool{}
	for _, format := range []string{"json", "yaml"} {
		for _, run := range []struct {
			kind string
			args []string
		}{
			{model.KindPlan, append([]string{"plan"}, files...)},
			{model.KindConsolidation, append([]string{"plan", "--consolidate"}, files...)},
			{model.KindForecast, append([]string{"plan", "-f", change}, files...)},
			{model.KindExplanation, append([]string{"explain", "pod", "huge-7f9c-0"}, files...)},
			{model.KindExplanation, append([]string{"explain", "node", "ip-10-0-1-11.us-west-2.compute.internal"}, files...)},
			{model.KindExplanation, append([]string{"explain", "nodepool", "general"}, files...)},
			{model.KindWorkload, []string{"explain", "deployment", "web", "-n", "shop", "--snapshot", "testdata/explain/cluster.json", "--catalog", "testdata/explain/catalog.json"}},
			{model.KindFleet, append([]string{"top"}, files...)},
			{model.KindReplay, []string{"replay", recording}},
			{model.KindDecisionList, []string{"decisions", controller}},
			{model.KindDecision, []string{"decisions", "2", controller}},
		} {
			root := newTestRoot()
			root.AddCommand(NewReplay("test"), NewDecisions())
			out, messages, err := execute(t, root, append(run.args, "-o", format)...)
			if err != nil {
				t.Errorf("%s: %v %s", strings.Join(run.args, " "), err, messages)
				continue
			}
			seen[run.kind] = true
			schema.Check(t, run.kind, []byte(out))
		}
	}
	for kind := range Documents() {
		if !seen[kind] {
			t.Errorf("no document of kind %s was looked at", kind)
		}
	}
}

// TestOnePodHasOneReason: plan, top and explain give the same main reason for a pod.
func TestOnePodHasOneReason(t *testing.T) {
	f := newFixture(t)
	f.pods("huge", 1, "100", "1Gi", "")
	snapshot, catalog := f.write()
	var said []string
	for _, args := range [][]string{{"plan"}, {"top"}, {"explain", "pod", "huge-7f9c-0"}} {
		out, _, err := execute(t, newTestRoot(), append(args, "--snapshot", snapshot, "--catalog", catalog, "-o", "json")...)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Pending []model.Pending
			Verdict string
		}
		if err := yaml.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		text := strings.TrimPrefix(got.Verdict, "is pending: ")
		if len(got.Pending) == 1 {
			text = got.Pending[0].Summary
		}
		said = append(said, text)
	}
	if len(slices.Compact(slices.Clone(said))) != 1 || said[0] != "pool general cannot take it: cpu: asks for 100, the largest type leaves 7.91" {
		t.Errorf("plan, top and explain say %q", said)
	}
}
