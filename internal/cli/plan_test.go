package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	planCatalog = `{"instanceTypes":[{"name":"small","labels":{"kubernetes.io/arch":"amd64"},"allocatable":{"cpu":"2","memory":"4Gi","pods":"10"},
		"offerings":[{"zone":"us-east-1a","capacityType":"on-demand","price":0.1}]}]}`
	planSnapshot = `{"kind":"List","items":[
		{"kind":"NodePool","metadata":{"name":"general"},"spec":{"template":{"spec":{"requirements":[]}}}},
		{"kind":"ConfigMap","metadata":{"name":"x"}},
		{"kind":"Pod","metadata":{"name":"web","namespace":"default"},"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]},
		 "status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}},
		{"kind":"Pod","metadata":{"name":"huge","namespace":"default"},"spec":{"containers":[{"resources":{"requests":{"cpu":"100"}}}]},
		 "status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}]}`
)

// plan runs the command on the snapshot given as standard input.
func plan(t *testing.T, snapshot string, args ...string) (string, error) {
	t.Helper()
	catalog := filepath.Join(t.TempDir(), "catalog.json")
	if err := os.WriteFile(catalog, []byte(planCatalog), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := NewPlan()
	cmd.SetIn(strings.NewReader(snapshot))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"--snapshot", "-", "--catalog", catalog}, args...))
	err := cmd.Execute()
	return out.String(), err
}

func TestPlanPrintsJSON(t *testing.T) {
	text, err := plan(t, planSnapshot, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"pods": 2, "placed": 1, "unplaced": 1, "totalPricePerHour": 0.1, "lowerBoundPerHour": 0.1, "nodeCostPerHour": 0.005, "lowerBoundWithNodeCostPerHour": 0.105} {
		if v, ok := got[key].(float64); !ok || math.Abs(v-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	for _, key := range []string{"solveMillis", "loadMillis", "allocatedMiB", "existing", "pending", "ignored"} {
		if _, ok := got[key]; !ok {
			t.Errorf("%s is missing", key)
		}
	}
	node := got["nodes"].([]any)[0].(map[string]any)
	for key, want := range map[string]any{"node": "general-1", "pool": "general", "instanceType": "small", "zone": "us-east-1a", "capacityType": "on-demand", "pricePerHour": 0.1} {
		if node[key] != want {
			t.Errorf("node: %s is %v, want %v", key, node[key], want)
		}
	}
	if pods := node["pods"].([]any); len(pods) != 1 || pods[0] != "default/web" {
		t.Errorf("node has pods %v", pods)
	}
}

func TestPlanPrintsATable(t *testing.T) {
	text, err := plan(t, planSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NEW NODE", "general-1", "default/web", "UNSCHEDULABLE", "default/huge", "asks for 100", "1 × ConfigMap", "2 pods: 1 placed, 1 unschedulable. 1 new node for $0.1000/h", "(karpenter.sh/node-cost: address, daemons, image pulls): $0.0050/h; $0.1050/h in all, 0.0% above the least possible $0.1050/h."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestPlanRefusesBadFlags(t *testing.T) {
	for flag, want := range map[string]string{
		"--preference-policy=Maybe": "Respect or Ignore", "--min-values-policy=Some": "Strict or BestEffort", "--output=xml": "give table, wide, json or yaml, or markdown with -f",
	} {
		if _, err := plan(t, planSnapshot, flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
	if _, err := plan(t, "not a list"); err == nil {
		t.Error("text is planned")
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	bare := NewPlan()
	bare.SetArgs([]string{})
	bare.SetErr(io.Discard)
	bare.SetOut(io.Discard)
	if err := bare.Execute(); err == nil {
		t.Error("nothing is planned without complaint")
	}
}

func TestN1_PlanNamesWhatIsWrongWithASchedulerConfig(t *testing.T) {
	_, err := plan(t, planSnapshot, "--scheduler-config", `{"podTopologySpread":{"defaultConstraints":[{"maxSkew":0,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]}}`)
	if want := "--scheduler-config: podTopologySpread.defaultConstraints[0]: maxSkew 0: must be 1 or more"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
