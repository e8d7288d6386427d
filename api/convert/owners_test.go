package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"
)

// TestPart_WhatIsTakenOutStaysOut: from a v1 object without its defaults, which is an object of which an applier has given up a
// part, nothing is made up on the way to v1beta1. In a manifest, what is missing has its default.
func TestPart_WhatIsTakenOutStaysOut(t *testing.T) {
	pool := objectOf(poolKind, versionV1, parse(t, `{template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}}, disruption: {consolidationPolicy: WhenEmpty}}`))
	class := objectOf(nodeClassKind, versionV1, parse(t, `{role: r, amiSelectorTerms: [{alias: al2023@latest}], metadataOptions: {httpTokens: optional}}`))
	for _, c := range []struct {
		in              tree
		path            string
		part, wholeWant string
	}{
		{pool, "disruption", `{consolidationPolicy: WhenEmpty}`, `{consolidationPolicy: WhenEmpty, consolidateAfter: 0s, expireAfter: 720h, budgets: [{nodes: 10%}]}`},
		{class, "metadataOptions", `{httpTokens: optional, httpPutResponseHopLimit: 1}`, `{httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: optional}`},
	} {
		part := mustConvert(t, c.in, versionBeta)
		if diff := cmp.Diff(parse(t, c.part), part["spec"].(tree)[c.path]); diff != "" {
			t.Errorf("part (-want +got):\n%s", diff)
		}
		outcome := Offline{Version: versionBeta}.Convert([]map[string]any{c.in})[0]
		if outcome.Err != nil {
			t.Fatal(outcome.Err)
		}
		if diff := cmp.Diff(parse(t, c.wholeWant), outcome.Objects[0]["spec"].(tree)[c.path]); diff != "" {
			t.Errorf("whole (-want +got):\n%s", diff)
		}
	}
}

// owned is an object of a kind with one entry of managedFields.
func owned(t *testing.T, kind, spec, fields string) tree {
	t.Helper()
	out := objectOf(kind, versionV1, parse(t, spec))
	out["metadata"].(tree)["annotations"] = tree{KubeletAnnotation: "{}"}
	out["metadata"].(tree)["managedFields"] = []any{tree{"manager": "m", "operation": "Apply", "apiVersion": groupVersion(kind, versionBeta), "time": "2025-01-01T00:00:00Z", "fieldsV1": parse(t, fields)}}
	return out
}

func TestOwners_FieldsMove(t *testing.T) {
	const pool = `{template: {spec: {expireAfter: 48h, nodeClassRef: {group: g, kind: k, name: n}, requirements: []}}, limits: {cpu: 1}, weight: 3}`
	for _, c := range []struct{ name, kind, spec, beta, want string }{
		{"the same place", poolKind, pool, `{"f:spec": {"f:limits": {".": {}, "f:cpu": {}}, "f:weight": {}}}`, `{"f:spec": {"f:limits": {".": {}, "f:cpu": {}}, "f:weight": {}}}`},
		{"A65 expireAfter", poolKind, pool, `{"f:spec": {"f:disruption": {"f:expireAfter": {}}}}`, `{"f:spec": {"f:template": {"f:spec": {"f:expireAfter": {}}}}}`},
		{"weight in the template", poolKind, pool, `{"f:spec": {"f:template": {"f:spec": {"f:weight": {}}}}}`, `{"f:spec": {"f:weight": {}}}`},
		{"A67 the reference", poolKind, pool, `{"f:spec": {"f:template": {"f:spec": {"f:nodeClassRef": {".": {}, "f:apiVersion": {}, "f:name": {}}}}}}`, `{"f:spec": {"f:template": {"f:spec": {"f:nodeClassRef": {".": {}, "f:group": {}, "f:name": {}}}}}}`},
		{"A67 of a claim", claimKind, `{nodeClassRef: {group: g, name: n}}`, `{"f:spec": {"f:nodeClassRef": {"f:apiVersion": {}, "f:kind": {}}}}`, `{"f:spec": {"f:nodeClassRef": {"f:group": {}}}}`},
		{"A68 kubelet", poolKind, pool, `{"f:spec": {"f:template": {"f:spec": {"f:kubelet": {".": {}, "f:maxPods": {}}}}}}`, `{"f:metadata": {"f:annotations": {"f:compatibility.karpenter.sh/v1beta1-kubelet-conversion": {}}}}`},
		{"a family becomes an alias", nodeClassKind, `{amiSelectorTerms: [{alias: al2@latest}]}`, `{"f:spec": {"f:amiFamily": {}}}`, `{"f:spec": {"f:amiSelectorTerms": {}}}`},
		{"a family stays", nodeClassKind, `{amiFamily: AL2, amiSelectorTerms: [{id: ami-1}]}`, `{"f:spec": {"f:amiFamily": {}}}`, `{"f:spec": {"f:amiFamily": {}}}`},
		{"items of lists", poolKind, `{list: [{type: A, x: 1}, {type: B}], set: [a]}`, `{"f:spec": {"f:list": {'k:{"type":"A"}': {".": {}, "f:x": {}, "f:y": {}}, 'k:{"type":"C"}': {}, 'i:1': {}, 'i:2': {}}, "f:set": {'v:"a"': {}, 'v:"b"': {}}}}`, `{"f:spec": {"f:list": {'k:{"type":"A"}': {".": {}, "f:x": {}}, 'i:1': {}}, "f:set": {'v:"a"': {}}}}`},
		{"nothing is left", poolKind, pool, `{"f:spec": {"f:replicas": {}}}`, ``},
		{"what is no tree", poolKind, pool, `{"f:spec": {"f:limits": 3, "k:{": {}, "x": {}, "i:x": {}}}`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := owned(t, c.kind, c.spec, c.beta)
			before := clone(in)
			got, changed := Owners(in)
			if !changed {
				t.Fatal("there was nothing to do")
			}
			if diff := cmp.Diff(before, in); diff != "" {
				t.Fatalf("the input was changed:\n%s", diff)
			}
			if c.want == "" {
				if got != nil {
					t.Errorf("left: %v", got)
				}
				return
			}
			entry := got[0].(tree)
			if diff := cmp.Diff(parse(t, c.want), entry["fieldsV1"]); diff != "" || entry["apiVersion"] != groupVersion(c.kind, versionV1) || entry["manager"] != "m" {
				t.Errorf("%v (-want +got):\n%s", entry, diff)
			}
			if _, again := Owners(tree{"kind": c.kind, "metadata": tree{"managedFields": got}}); again {
				t.Error("there is still something to do")
			}
		})
	}
}

// TestOwners_OneEntryEach: an owner who wrote in both versions has one entry afterwards, with all that he owns.
func TestOwners_OneEntryEach(t *testing.T) {
	in := objectOf(poolKind, versionV1, parse(t, `{limits: {cpu: 1}, weight: 1, template: {}}`))
	in["metadata"].(tree)["managedFields"] = parse(t, `
list:
- {manager: a, operation: Update, apiVersion: karpenter.sh/v1, time: "2025-01-01T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:limits": {}, "f:template": {}}}}
- {manager: a, operation: Update, apiVersion: karpenter.sh/v1beta1, time: "2025-01-02T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:limits": {"f:cpu": {}}, "f:weight": {}, "f:template": {}}}}
- {manager: a, operation: Apply, apiVersion: karpenter.sh/v1beta1, time: "2025-01-02T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:weight": {}}}}
- {manager: a, operation: Update, subresource: status, apiVersion: karpenter.sh/v1, time: "2025-01-01T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:status": {}}}
`)["list"]
	want := parse(t, `
list:
- {manager: a, operation: Update, apiVersion: karpenter.sh/v1, time: "2025-01-02T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:limits": {".": {}, "f:cpu": {}}, "f:weight": {}, "f:template": {}}}}
- {manager: a, operation: Apply, apiVersion: karpenter.sh/v1, time: "2025-01-02T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:weight": {}}}}
- {manager: a, operation: Update, subresource: status, apiVersion: karpenter.sh/v1, time: "2025-01-01T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:status": {}}}
`)["list"]
	got, _ := Owners(in)
	if diff := cmp.Diff(want, any(got)); diff != "" {
		t.Error(diff)
	}
	if _, changed := Owners(objectOf(poolKind, versionV1, tree{})); changed {
		t.Error("an object without a record was changed")
	}
}

// FuzzOwners: no record makes it panic, and what comes out needs no second pass.
func FuzzOwners(f *testing.F) {
	f.Add(`[{"manager":"m","operation":"Apply","apiVersion":"karpenter.sh/v1beta1","fieldsV1":{"f:spec":{"f:disruption":{"f:expireAfter":{}}}}}]`)
	f.Add(`[{"apiVersion":"/v1beta1","fieldsV1":{"k:{}":{"v:1":{},"i:9":{}}}}, 3, {"fieldsV1":[]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var entries []any
		if json.Unmarshal([]byte(text), &entries) != nil {
			return
		}
		for _, kind := range []string{poolKind, claimKind, nodeClassKind, ""} {
			got, _ := Owners(tree{"kind": kind, "metadata": tree{"managedFields": entries}, "spec": tree{"template": tree{"spec": tree{"expireAfter": "1h"}}}})
			if _, again := Owners(tree{"kind": kind, "metadata": tree{"managedFields": got}}); again {
				t.Errorf("a second pass is needed after %v", got)
			}
		}
	})
}
