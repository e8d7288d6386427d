package conversion

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	wall "k8s.io/utils/clock"

	"karpenter/api/crds"
)

// TestTakeOver_StoredInBeta begins with a cluster whose definitions know v1beta1 only, and has ours take it over: etcd still holds
// v1beta1 then, and every v1 read goes through the conversion.
func TestTakeOver_StoredInBeta(t *testing.T) {
	c := own(t)
	old := crds.Objects()
	for _, definition := range old {
		for i := range definition.Spec.Versions {
			if len(definition.Spec.Versions) == 1 {
				continue // has never had another
			}
			beta := definition.Spec.Versions[i].Name == "v1beta1"
			definition.Spec.Versions[i].Served, definition.Spec.Versions[i].Storage = beta, beta
		}
	}
	if err := c.Plane.Install(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	pool := object("karpenter.sh/v1beta1", "NodePool", "old", parse(t, `{template: {spec: {requirements: [], nodeClassRef: {name: old}}}, disruption: {expireAfter: Never}}`))
	class := object("karpenter.k8s.aws/v1beta1", "EC2NodeClass", "old", parse(t, `{amiFamily: AL2023, role: r, subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}`))
	objects := []*unstructured.Unstructured{pool, class}
	for _, name := range []string{"c1", "c2", "c3"} {
		claim := object("karpenter.sh/v1beta1", "NodeClaim", name, tree{"requirements": []any{}, "nodeClassRef": tree{"name": "old"}})
		claim.SetLabels(map[string]string{"karpenter.sh/nodepool": "old"})
		claim.SetAnnotations(map[string]string{"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v2"})
		objects = append(objects, claim)
	}
	for _, one := range objects {
		if err := c.Client.Create(t.Context(), one.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}

	if err := c.StartConversion(t.Context(), wall.RealClock{}); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitConversion(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, one := range objects {
		if diff := cmp.Diff(one.Object["spec"], c.read(t, one, "v1beta1").Object["spec"]); diff != "" {
			t.Errorf("%s in v1beta1:\n%s", one.GetKind(), diff)
		}
	}
	if got := at(c.read(t, class, "v1"), "amiSelectorTerms"); !cmp.Equal(got, []any{tree{"alias": "al2023@latest"}}) {
		t.Errorf("class: %v", got)
	}
	// A77: the pool lets its nodes live for ever, and its claims must not be told otherwise.
	lives := c.kubectl(t, "", "get", "nodeclaims", "-o", "jsonpath={.items[*].spec.expireAfter}")
	if lives != "Never Never Never" {
		t.Errorf("A77 expireAfter of the claims: %q", lives)
	}
	if kept := c.kubectl(t, "", "get", "nodeclaims", "c1", "-o", "jsonpath={.metadata.annotations}"); !strings.Contains(kept, `"karpenter.sh/nodepool-hash-version":"v2"`) {
		t.Errorf("A75 annotations: %s", kept)
	}
	// A v1 client writes, which moves the object to v1 in etcd; it reads the same as before.
	c.kubectl(t, "", "label", "nodeclaims", "--all", "touched=yes")
	c.kubectl(t, "", "label", "nodepools", "--all", "touched=yes")
	for _, one := range objects {
		if diff := cmp.Diff(one.Object["spec"], c.read(t, one, "v1beta1").Object["spec"]); diff != "" {
			t.Errorf("%s in v1beta1 after a write in v1:\n%s", one.GetKind(), diff)
		}
	}
}
