package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

const fleetSnapshot = `{"kind":"List","items":[
	{"kind":"NodePool","metadata":{"name":"general"},"spec":{"template":{"spec":{"requirements":[]}},"disruption":{"consolidateAfter":"0s","budgets":[{"nodes":"100%"}]}}},
	{"kind":"Node","metadata":{"name":"n1","labels":{"karpenter.sh/nodepool":"general","node.kubernetes.io/instance-type":"small","topology.kubernetes.io/zone":"us-east-1a","karpenter.sh/capacity-type":"on-demand"}},
	 "spec":{"providerID":"i-1"},"status":{"allocatable":{"cpu":"2","memory":"4Gi","pods":"10"},"conditions":[{"type":"Ready","status":"True"}]}},
	{"kind":"NodeClaim","metadata":{"name":"c1","labels":{"karpenter.sh/nodepool":"general"}},"status":{"providerID":"i-1","nodeName":"n1",
	 "conditions":[{"type":"Registered","status":"True"},{"type":"Initialized","status":"True"},{"type":"Consolidatable","status":"True"}]}},
	{"kind":"Node","metadata":{"name":"n2","labels":{"karpenter.sh/nodepool":"general","node.kubernetes.io/instance-type":"small","topology.kubernetes.io/zone":"us-east-1a","karpenter.sh/capacity-type":"on-demand"}},
	 "spec":{"providerID":"i-2"},"status":{"allocatable":{"cpu":"2","memory":"4Gi","pods":"10"},"conditions":[{"type":"Ready","status":"True"}]}},
	{"kind":"NodeClaim","metadata":{"name":"c2","labels":{"karpenter.sh/nodepool":"general"}},"status":{"providerID":"i-2","nodeName":"n2",
	 "conditions":[{"type":"Registered","status":"True"},{"type":"Initialized","status":"True"},{"type":"Consolidatable","status":"True"}]}},
	{"kind":"ConfigMap","metadata":{"name":"x"}},
	{"kind":"Pod","metadata":{"name":"web","namespace":"default","uid":"1"},"spec":{"nodeName":"n1","containers":[{"resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Running"}},
	{"kind":"Pod","metadata":{"name":"api","namespace":"default","uid":"2"},"spec":{"nodeName":"n2","containers":[{"resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Running"}}]}`

func TestPlanConsolidatePrintsJSON(t *testing.T) {
	text, err := plan(t, fleetSnapshot, "--consolidate", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"decideMillis", "firstMoveMillis", "loadMillis", "before", "after", "moves", "kept", "ignored"} {
		if _, ok := got[key]; !ok {
			t.Errorf("%s is missing", key)
		}
	}
	before, after := got["before"].(map[string]any), got["after"].(map[string]any)
	if before["nodes"] != 2.0 || before["pricePerHour"] != 0.2 || after["nodes"] != 1.0 || after["pricePerHour"] != 0.1 {
		t.Errorf("before %v, after %v", before, after)
	}
	move := got["moves"].([]any)[0].(map[string]any)
	if remove := move["remove"].([]any); len(remove) != 1 || move["evicts"] != 1.0 || move["savesPerHour"] != 0.1 || move["reason"] != "Underutilized" || move["why"] == "" {
		t.Errorf("move is %v", move)
	}
	if _, ok := move["add"].([]any); !ok {
		t.Error("add is no list")
	}
	kept := got["kept"].([]any)[0].(map[string]any)
	if kept["node"] == "" || kept["why"] == "" {
		t.Errorf("kept is %v", kept)
	}
}

// Objects do not say whether nodes are repaired: they are shown as if they were, and that is said.
func TestN6_PlanOfPlainObjectsShowsRepairs(t *testing.T) {
	const note = "unhealthy nodes are shown as the feature gate NodeRepair has them repaired"
	ill := func(more string) string {
		return strings.Replace(fleetSnapshot, `"conditions":[{"type":"Ready","status":"True"}]`, `"conditions":[{"type":"Ready","status":"True"},{"type":"StorageReady","status":"False","reason":"DiskBroken"`+more+`}]`, 1)
	}
	kept := strings.Replace(ill(`,"lastTransitionTime":"2026-01-01T00:00:00Z"`), `"name":"n1",`, `"name":"n1","annotations":{"karpenter.sh/do-not-repair":"true"},`, 1)
	for name, x := range map[string]struct {
		snapshot  string
		want, not []string
	}{
		"for long":         {ill(`,"lastTransitionTime":"2026-01-01T00:00:00Z"`), []string{note, "Unhealthy", "StorageReady is False since 2026-01-01T00:00:00Z (DiskBroken)"}, nil},
		"nobody knows":     {ill(""), nil, []string{note, "Unhealthy"}},
		"healthy":          {fleetSnapshot, nil, []string{note, "Unhealthy"}},
		"not to be healed": {kept, []string{note, "it has the annotation karpenter.sh/do-not-repair"}, []string{"Unhealthy  "}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := plan(t, x.snapshot, "--consolidate", "-o", "wide")
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range x.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
			for _, not := range x.not {
				if strings.Contains(text, not) {
					t.Errorf("%q is in\n%s", not, text)
				}
			}
		})
	}
}

func TestPlanConsolidatePrintsATable(t *testing.T) {
	text, err := plan(t, fleetSnapshot, "--consolidate")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"REMOVE", "Underutilized", "n1", "KEPT", "n2", "1 × ConfigMap", "2 nodes for $0.2000/h become 1 for $0.1000/h, 50.0% less: 1 move, 1 restart"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if _, err := plan(t, fleetSnapshot, "--spot-to-spot"); err == nil || !strings.Contains(err.Error(), "--consolidate") {
		t.Errorf("--spot-to-spot alone: %v", err)
	}
}
