package convert

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// offline converts objects written as YAML and returns what they became, one list for all, with all warnings.
func offline(t *testing.T, texts ...string) ([]tree, string) {
	t.Helper()
	var objects []map[string]any
	for _, text := range texts {
		objects = append(objects, parse(t, text))
	}
	var out []tree
	var warnings []string
	for i, outcome := range (Offline{}).Convert(objects) {
		if outcome.Err != nil {
			t.Fatalf("object %d: %v", i, outcome.Err)
		}
		out = append(out, outcome.Objects...)
		warnings = append(warnings, outcome.Warnings...)
	}
	return out, strings.Join(warnings, "\n")
}

func poolWith(name, class, kubelet string) string {
	return fmt.Sprintf(`{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: %s}, spec: {template: {spec: {requirements: [], nodeClassRef: {name: %s}, kubelet: %s}}, disruption: {expireAfter: Never}}}`, name, class, kubelet)
}

func TestA68_KubeletMovesToTheClass(t *testing.T) {
	const class = `{apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, metadata: {name: c}, spec: {amiFamily: AL2, role: r}}`
	const v1Class = `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: c}, spec: {role: r%s}}`
	for _, c := range []struct {
		name   string
		input  []string
		moved  bool
		reason string
	}{
		{"one pool", []string{poolWith("a", "c", "{maxPods: 5}"), class}, true, "moved to spec.kubelet"},
		{"the class comes first", []string{class, poolWith("a", "c", "{maxPods: 5}")}, true, "moved to spec.kubelet"},
		{"the class is in v1", []string{poolWith("a", "c", "{maxPods: 5}"), fmt.Sprintf(v1Class, "")}, true, "moved to spec.kubelet"},
		{"the class has the same", []string{poolWith("a", "c", "{maxPods: 5}"), fmt.Sprintf(v1Class, ", kubelet: {maxPods: 5}")}, true, "moved to spec.kubelet"},
		{"pools agree", []string{poolWith("a", "c", "{maxPods: 5}"), poolWith("b", "c", "{maxPods: 5}"), class}, true, "moved to spec.kubelet"},
		{"pools do not agree", []string{poolWith("a", "c", "{maxPods: 5}"), poolWith("b", "c", "{maxPods: 6}"), class}, false, "another NodePool"},
		{"a pool without settings", []string{poolWith("a", "c", "{maxPods: 5}"), poolWith("b", "c", "null"), class}, false, "another NodePool"},
		{"the class has other settings", []string{poolWith("a", "c", "{maxPods: 5}"), fmt.Sprintf(v1Class, ", kubelet: {maxPods: 6}")}, false, "has other settings"},
		{"no class", []string{poolWith("a", "c", "{maxPods: 5}")}, false, "is not part of the input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, warnings := offline(t, c.input...)
			if !strings.Contains(warnings, c.reason) {
				t.Errorf("warnings %q lack %q", warnings, c.reason)
			}
			for _, object := range out {
				switch object["kind"] {
				case nodeClassKind:
					if got := lookup(object, "spec", "kubelet") != nil; got != c.moved {
						t.Errorf("class %v", object)
					}
				case poolKind:
					if got := kubeletOf(object) != nil; nameOf(object) == "a" && got == c.moved {
						t.Errorf("pool %v", object)
					}
				}
			}
		})
	}
}

func TestA73_OldAnnotationsGetTheirNewName(t *testing.T) {
	out, warnings := offline(t, `{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: a}, spec: {template: {metadata: {annotations: {karpenter.sh/do-not-evict: "true", mine: x}}, spec: {requirements: []}}}}`)
	want := tree{"karpenter.sh/do-not-disrupt": "true", "mine": "x"}
	if diff := cmp.Diff(any(want), lookup(out[0], "spec", "template", "metadata", "annotations")); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(warnings, "do-not-evict") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestA75_HashAnnotationsAreLeftAlone(t *testing.T) {
	object := objectOf(poolKind, versionBeta, poolSpec(t, `{}`))
	annotations := tree{"karpenter.sh/nodepool-hash": "123", "karpenter.sh/nodepool-hash-version": "v2", "karpenter.sh/stored-version-migrated": "true"}
	object["metadata"].(tree)["annotations"] = clone(annotations)
	got := mustConvert(t, object, versionV1)["metadata"].(tree)["annotations"].(tree)
	for name, value := range annotations {
		if got[name] != value {
			t.Errorf("%s is %v", name, got[name])
		}
	}
}

type pools map[string]error

func (p pools) ExpireAfter(pool string) (string, bool, error) {
	err, found := p[pool]
	return "24h", found && err == nil, err
}

func TestA77_ClaimsTakeExpireAfterOfTheirPool(t *testing.T) {
	known := pools{"p": nil, "down": errors.New("cannot be read")}
	claim := func(pool string) tree {
		object := objectOf(claimKind, versionBeta, tree{"requirements": []any{}, "nodeClassRef": tree{"name": "a"}})
		object["metadata"].(tree)["labels"] = tree{poolLabel: pool}
		return object
	}
	for pool, want := range map[string]string{"p": "24h", "gone": "720h", "": "720h"} {
		v1, err := Object(claim(pool), "karpenter.sh/v1", known)
		if err != nil {
			t.Fatal(err)
		}
		if got := lookup(v1, "spec", "expireAfter"); got != want {
			t.Errorf("pool %q: %v, want %s", pool, got, want)
		}
		back, err := Object(v1, "karpenter.sh/v1beta1", known)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(claim(pool), back); diff != "" {
			t.Errorf("pool %q: %s", pool, diff)
		}
	}
	if _, err := Object(claim("down"), "karpenter.sh/v1", known); err == nil || !strings.Contains(err.Error(), `NodePool "down"`) {
		t.Errorf("an unreadable pool: %v", err)
	}
	// Reading in v1beta1 must not depend on the pool, and must not lose what the claim says.
	v1 := objectOf(claimKind, versionV1, parse(t, `{requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}, expireAfter: 1h}`))
	v1["metadata"].(tree)["labels"] = tree{poolLabel: "down"}
	beta, err := Object(v1, "karpenter.sh/v1beta1", known)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v1, mustConvert(t, beta, versionV1)); diff != "" {
		t.Error(diff)
	}
}

func TestOffline_LeavesNothingOfTheServer(t *testing.T) {
	out, _ := offline(t, `
apiVersion: karpenter.sh/v1beta1
kind: NodeClaim
metadata:
  name: a
  uid: u
  resourceVersion: "1"
  generation: 3
  creationTimestamp: null
  selfLink: /x
  managedFields: []
  labels: {a: b}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
spec: {requirements: []}
status: {nodeName: n}
`)
	if diff := cmp.Diff(any(tree{"name": "a", "labels": tree{"a": "b"}}), out[0]["metadata"]); diff != "" {
		t.Error(diff)
	}
	if out[0]["status"] != nil {
		t.Errorf("status %v", out[0]["status"])
	}
}
