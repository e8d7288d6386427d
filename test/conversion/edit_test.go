package conversion

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/test/conversion/sample"
)

func at(object *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, append([]string{"spec"}, path...)...)
	return value
}

// TestEdit_WrittenInBetaEditedInV1: the edit shows, the rest stays as it was written.
func TestEdit_WrittenInBetaEditedInV1(t *testing.T) {
	c := shared
	pool := object("karpenter.sh/v1beta1", "NodePool", "edited", parse(t, `
template: {spec: {requirements: [], nodeClassRef: {name: default}, kubelet: {maxPods: 20}}}
disruption: {consolidationPolicy: WhenUnderutilized, budgets: [{nodes: "0", schedule: "0 9-17 * * 1-5"}, {nodes: 10%}]}
`))
	c.create(t, pool)
	c.patch(t, pool, "v1", `{"spec":{"template":{"spec":{"expireAfter":"24h","nodeClassRef":{"name":"other"}}},"disruption":{"consolidateAfter":"5m","budgets":[{"nodes":"1","reasons":["Empty"]},{"nodes":"0","schedule":"0 9-17 * * 1-5","duration":"1h"}]}}}`)
	got := c.read(t, pool, "v1beta1").Object["spec"]
	want := parse(t, `
template: {spec: {requirements: [], nodeClassRef: {name: other}, kubelet: {maxPods: 20}}}
disruption: {consolidationPolicy: WhenUnderutilized, consolidateAfter: 5m, expireAfter: 24h, budgets: [{nodes: "1"}, {nodes: "0", schedule: "0 9-17 * * 1-5"}]}
`)
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// A client of v1beta1 that knows nothing of all this writes one field; what only v1 can say survives.
	c.patch(t, pool, "v1beta1", `{"spec":{"weight":5}}`)
	v1 := c.read(t, pool, "v1")
	if diff := cmp.Diff([]any{
		tree{"nodes": "1", "reasons": []any{"Empty"}},
		tree{"nodes": "0", "schedule": "0 9-17 * * 1-5", "duration": "1h"},
	}, at(v1, "disruption", "budgets")); diff != "" {
		t.Error(diff)
	}
	if at(v1, "weight") != int64(5) || at(v1, "template", "spec", "expireAfter") != "24h" {
		t.Errorf("got %v", v1.Object["spec"])
	}
}

// TestEdit_WrittenInV1EditedInBeta: kubectl edits a v1 object through v1beta1.
func TestEdit_WrittenInV1EditedInBeta(t *testing.T) {
	c := shared
	pool := object("karpenter.sh/v1", "NodePool", "edited", parse(t, `
template: {spec: {requirements: [{key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: ["4"]}], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, terminationGracePeriod: 1h}}
disruption: {consolidationPolicy: Balanced, consolidateAfter: 30s}
`))
	c.create(t, pool)
	before := c.read(t, pool, "v1")
	c.kubectl(t, "", "label", "nodepools.v1beta1.karpenter.sh", "edited", "a=b")
	c.kubectl(t, "", "patch", "nodepools.v1beta1.karpenter.sh", "edited", "--type=merge", "-p", `{"spec":{"limits":{"cpu":"10"}}}`)
	after := c.read(t, pool, "v1")
	want := before.Object["spec"].(tree)
	want["limits"] = tree{"cpu": "10"}
	if diff := cmp.Diff(want, after.Object["spec"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if left := ours(after); len(left) > 0 {
		t.Errorf("annotations %v", left)
	}
	c.patch(t, pool, "v1beta1", `{"spec":{"disruption":{"consolidationPolicy":"WhenEmpty"}}}`)
	if got := at(c.read(t, pool, "v1"), "disruption", "consolidationPolicy"); got != "WhenEmpty" {
		t.Errorf("policy %v", got)
	}
}

// TestStatus_IsSharedByBothVersions: a controller writes the status in v1, a v1beta1 reader sees it and may write it too.
func TestStatus_IsSharedByBothVersions(t *testing.T) {
	c := shared
	claim := object("karpenter.sh/v1beta1", "NodeClaim", "status", tree{"requirements": []any{}})
	c.create(t, claim)
	write := func(version string, change func(object tree)) { // the webhook may write at the same time: whom fields belong to
		t.Helper()
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			got := c.read(t, claim, version)
			change(got.Object)
			return c.Client.Status().Update(t.Context(), got)
		}); err != nil {
			t.Fatal(err)
		}
	}
	write("v1", func(o tree) {
		o["status"] = tree{"providerID": "aws:///a/i-1", "lastPodEventTime": "2026-01-01T00:00:00Z"}
	})
	write("v1beta1", func(o tree) { o["status"].(tree)["nodeName"] = "n" })
	want := tree{"providerID": "aws:///a/i-1", "lastPodEventTime": "2026-01-01T00:00:00Z", "nodeName": "n"}
	if diff := cmp.Diff(any(want), c.read(t, claim, "v1").Object["status"]); diff != "" {
		t.Error(diff)
	}
}

// TestRandom_ThroughTheServer: what the schema of one version accepts, that of the other accepts once converted; nothing is
// lost either way.
func TestRandom_ThroughTheServer(t *testing.T) {
	c := shared
	for _, kind := range sample.Kinds() {
		for from, to := range map[string]string{"v1beta1": "v1", "v1": "v1beta1"} {
			t.Run(kind+" written in "+from, func(t *testing.T) {
				rapid.Check(t, func(r *rapid.T) { checkRandom(t, r, c, sample.Object(r, kind, from), to) })
			})
		}
	}
}

func checkRandom(t *testing.T, r *rapid.T, c *cluster, drawn tree, to string) {
	one := &unstructured.Unstructured{Object: drawn}
	one.SetResourceVersion("")
	one.SetUID("")
	delete(one.Object, "status")
	from := one.GroupVersionKind().Version
	written := one.DeepCopy()
	if err := c.Client.Create(t.Context(), one); err != nil {
		r.Fatalf("not a valid sample: %v", err)
	}
	defer func() {
		if err := c.Client.Delete(t.Context(), in(one, "v1")); err != nil {
			r.Error(err)
		}
	}()
	first := c.read(t, one, from)
	if diff := cmp.Diff(written.Object["spec"], first.Object["spec"]); from == "v1beta1" && diff != "" {
		r.Fatalf("not as written:\n%s", diff)
	}
	other := c.read(t, one, to)
	copied := other.DeepCopy()
	copied.SetName("copy")
	copied.SetResourceVersion("")
	copied.SetUID("")
	if err := c.Client.Create(t.Context(), copied, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
		r.Fatalf("converted to %s it is not valid: %v", to, err)
	}
	// A client that reads and writes in the other version changes nothing. The webhook may write at the same time: whom fields belong to.
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		other := c.read(t, one, to)
		other.SetLabels(map[string]string{"touched": "yes"})
		return c.Client.Update(t.Context(), other)
	}); err != nil {
		r.Fatalf("writing it back in %s: %v", to, err)
	}
	if diff := cmp.Diff(first.Object["spec"], c.read(t, one, from).Object["spec"]); diff != "" {
		r.Fatalf("changed by being written back in %s:\n%s", to, diff)
	}
}
