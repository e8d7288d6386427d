package conversion

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"karpenter/test/harness"
)

// TestV1_WorksWithoutTheWebhook stops the webhook and goes through what v1 clients do, also with objects that came from v1beta1.
func TestV1_WorksWithoutTheWebhook(t *testing.T) {
	c := &cluster{Cluster: harness.Start(t, harness.Options{Conversion: true})}
	old := object("karpenter.sh/v1beta1", "NodePool", "old", tree{"template": tree{"spec": tree{"requirements": []any{}, "kubelet": tree{"maxPods": int64(10)}}}})
	c.create(t, old)
	c.StopConversion()

	if _, err := c.Kubectl(t.Context(), "", "get", "nodepools.v1beta1.karpenter.sh", "old"); err == nil || !strings.Contains(err.Error(), "conversion webhook") {
		t.Errorf("v1beta1 without the webhook: %v", err)
	}
	// v1beta1 is refused, never stored unconverted.
	early := object("karpenter.sh/v1beta1", "NodePool", "early", tree{"template": tree{"spec": tree{"requirements": []any{}}}})
	if err := c.Client.Create(t.Context(), early); err == nil {
		t.Error("stored without a webhook to convert it")
	}
	if names := c.kubectl(t, "", "get", "nodepools", "-o", "name"); !strings.Contains(names, "nodepool.karpenter.sh/old") {
		t.Errorf("list: %s", names)
	}
	const manifest = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: new}
spec:
  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: new}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
`
	c.kubectl(t, manifest, "apply", "-f", "-")
	c.kubectl(t, strings.ReplaceAll(manifest, "requirements: []", "requirements: [{key: a, operator: Exists}]"), "apply", "-f", "-")
	c.kubectl(t, manifest, "apply", "--server-side", "--force-conflicts", "-f", "-")
	for _, name := range []string{"old", "new"} {
		c.kubectl(t, "", "patch", "nodepool", name, "--type=merge", "-p", `{"spec":{"limits":{"cpu":"10"}}}`)
		c.kubectl(t, "", "label", "nodepool", name, "a=b")
		c.kubectl(t, "", "annotate", "nodepool", name, "a=b")
		pool := c.get(t, "nodepool", name)
		if err := unstructured.SetNestedField(pool.Object, int64(3), "status", "nodes"); err != nil {
			t.Fatal(err)
		}
		if err := c.Client.Status().Update(t.Context(), pool); err != nil {
			t.Errorf("status of %s: %v", name, err)
		}
		c.kubectl(t, "", "delete", "nodepool", name)
	}
}
