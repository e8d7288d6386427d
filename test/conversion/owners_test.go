package conversion

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/test/harness"
)

// betaObjects are one of each kind, with the fields that v1 has elsewhere.
func betaObjects(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	return []*unstructured.Unstructured{
		object("karpenter.sh/v1beta1", "NodePool", name, parse(t, `
template: {spec: {requirements: [{key: a, operator: Exists}], nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: old}, kubelet: {maxPods: 10}}}
disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m, expireAfter: 48h, budgets: [{nodes: "3"}]}
limits: {cpu: 5}
`)),
		object("karpenter.sh/v1beta1", "NodeClaim", name, parse(t, `{requirements: [{key: a, operator: Exists}], nodeClassRef: {name: old}, kubelet: {maxPods: 10}}`)),
		object("karpenter.k8s.aws/v1beta1", "EC2NodeClass", name, parse(t, `{amiFamily: AL2023, role: r, tags: {a: b}, metadataOptions: {httpTokens: optional}, subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}`)),
	}
}

// writers are the ways in which an object comes into the cluster.
var writers = map[string]func(*testing.T, *cluster, *unstructured.Unstructured){
	"create": func(t *testing.T, c *cluster, one *unstructured.Unstructured) {
		if err := c.Client.Create(t.Context(), one.DeepCopy(), client.FieldOwner("someone")); err != nil {
			t.Fatal(err)
		}
	},
	"client-side-apply": func(t *testing.T, c *cluster, one *unstructured.Unstructured) {
		c.kubectl(t, manifest(t, one), "apply", "-f", "-")
	},
	"server-side-apply": func(t *testing.T, c *cluster, one *unstructured.Unstructured) {
		c.kubectl(t, manifest(t, one), "apply", "--server-side", "-f", "-")
	},
}

// manifest is what a user would have in a file: no status, and of the metadata the name.
func manifest(t *testing.T, one *unstructured.Unstructured) string {
	t.Helper()
	raw, err := json.Marshal(object(one.GetAPIVersion(), one.GetKind(), one.GetName(), one.Object["spec"].(tree)).Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// awaitOwners waits until nobody is on record as an owner of fields in v1beta1.
func (c *cluster) awaitOwners(t *testing.T, one *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		read := c.read(t, one, "v1")
		old := func(e metav1.ManagedFieldsEntry) bool { return strings.HasSuffix(e.APIVersion, "/v1beta1") }
		if !slices.ContainsFunc(read.GetManagedFields(), old) {
			return read
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s %s: owners in v1beta1 after a minute: %v", one.GetKind(), one.GetName(), read.GetManagedFields())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestV1_AppliesWithoutTheWebhook: an object that was written in v1beta1, by whichever means, takes every kind of write in v1 after
// the webhook has gone. Server-side apply is the hard one: the API server converts the object to each version in which anybody
// is on record as the owner of a field.
func TestV1_AppliesWithoutTheWebhook(t *testing.T) {
	c := &cluster{Cluster: harness.Start(t, harness.Options{Conversion: true})}
	var written []*unstructured.Unstructured
	for _, how := range slices.Sorted(maps.Keys(writers)) {
		for _, one := range betaObjects(t, how) {
			writers[how](t, c, one)
			written = append(written, one)
		}
	}
	for _, one := range written {
		c.awaitOwners(t, one)
	}
	c.StopConversion()
	for _, one := range written {
		t.Run(one.GetKind()+" "+one.GetName(), func(t *testing.T) { everyWrite(t, c, one) })
	}
}

// everyWrite does to an object what v1 clients do.
func everyWrite(t *testing.T, c *cluster, one *unstructured.Unstructured) {
	ctx, kind := t.Context(), resource(one.GetKind(), "v1")
	read := c.read(t, one, "v1")
	if names := c.kubectl(t, "", "get", kind, "-o", "name"); !strings.Contains(names, "/"+one.GetName()+"\n") {
		t.Errorf("list: %s", names)
	}
	c.patch(t, one, "v1", `{"metadata":{"labels":{"merge":"patch"}}}`)
	json6902 := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/labels/json","value":"patch"}]`))
	if err := c.Client.Patch(ctx, in(one, "v1"), json6902); err != nil {
		t.Errorf("JSON patch: %v", err)
	}
	now := c.read(t, one, "v1")
	now.SetAnnotations(mergedWith(now.GetAnnotations(), "update", "yes"))
	if err := c.Client.Update(ctx, now); err != nil {
		t.Errorf("update: %v", err)
	}
	now.Object["status"] = tree{"conditions": []any{tree{"type": "X", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2025-01-01T00:00:00Z"}}}
	if err := c.Client.Status().Update(ctx, now); err != nil {
		t.Errorf("update of the status: %v", err)
	}
	// Another manager's first apply, of a field that nobody has, and of one that somebody has.
	labels := in(one, "v1")
	labels.SetLabels(map[string]string{"applied": "yes"})
	if err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(labels), client.FieldOwner("labeller")); err != nil {
		t.Errorf("apply of a label: %v", err)
	}
	again := object(read.GetAPIVersion(), read.GetKind(), read.GetName(), tree{"requirements": read.Object["spec"].(tree)["requirements"]})
	if one.GetKind() != "NodeClaim" { // whose spec nobody may change
		again = changed(t, read)
	}
	if one.GetKind() != "NodeClaim" {
		err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(again), client.FieldOwner("rival"))
		if !apierrors.IsConflict(err) {
			t.Errorf("a rival's apply was not refused for a conflict: %v", err)
		}
	}
	c.kubectl(t, manifest(t, read), "apply", "-f", "-")
	c.kubectl(t, manifest(t, read), "apply", "--server-side", "--force-conflicts", "-f", "-")
	if err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(again), client.FieldOwner("rival"), client.ForceOwnership); err != nil {
		t.Errorf("apply with force: %v", err)
	}
	if got := c.read(t, one, "v1").GetLabels(); got["merge"] != "patch" || got["json"] != "patch" || got["applied"] != "yes" {
		t.Errorf("labels %v", got)
	}
	c.kubectl(t, "", "delete", kind, one.GetName())
}

func mergedWith(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

// changed is an apply of one field that the object's author had set to something else.
func changed(t *testing.T, read *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	out := object(read.GetAPIVersion(), read.GetKind(), read.GetName(), nil)
	spec := map[string]string{
		"NodePool":     `{template: {spec: {expireAfter: 72h}}}`,
		"EC2NodeClass": `{amiSelectorTerms: [{alias: al2023@v20250704}]}`,
	}[read.GetKind()]
	out.Object["spec"] = parse(t, spec)
	return out
}

// TestOwners_ApplierKeepsWhatIsHis: who applied in v1beta1 and goes on in v1 still removes what he leaves out of his manifest, and only
// that.
func TestOwners_ApplierKeepsWhatIsHis(t *testing.T) {
	c := shared
	for _, one := range betaObjects(t, "applier") {
		if one.GetKind() == "NodeClaim" {
			continue
		}
		t.Run(one.GetKind(), func(t *testing.T) {
			c.cleanup(t, one)
			writers["server-side-apply"](t, c, one)
			c.kubectl(t, "", "annotate", resource(one.GetKind(), "v1beta1"), one.GetName(), "note=mine")
			read := c.awaitOwners(t, one)
			v1 := object(read.GetAPIVersion(), read.GetKind(), read.GetName(), read.Object["spec"].(tree))
			unstructured.RemoveNestedField(v1.Object, "spec", "limits")
			unstructured.RemoveNestedField(v1.Object, "spec", "tags")
			unstructured.RemoveNestedField(v1.Object, "spec", "template", "spec", "expireAfter")
			c.kubectl(t, manifest(t, v1), "apply", "--server-side", "-f", "-")
			after := c.read(t, one, "v1")
			if at(after, "limits") != nil || at(after, "tags") != nil || after.GetAnnotations()["note"] != "mine" {
				t.Errorf("limits %v, tags %v, annotations %v", at(after, "limits"), at(after, "tags"), after.GetAnnotations())
			}
			if one.GetKind() == "NodePool" && (at(after, "template", "spec", "expireAfter") != "720h" || at(c.read(t, one, "v1beta1"), "template", "spec", "kubelet") != nil) {
				t.Errorf("expireAfter and kubelet stayed: %v, %v", after.Object["spec"], after.GetAnnotations())
			}
		})
	}
}

// TestOwners_GitOpsGoesOnInBeta: a tool that applies the same v1beta1 manifest again and again, with the owners moved to v1 in
// between, changes nothing, and still removes what is taken out of the manifest.
func TestOwners_GitOpsGoesOnInBeta(t *testing.T) {
	c := shared
	for _, how := range []string{"client-side-apply", "server-side-apply"} {
		for _, one := range betaObjects(t, "again-"+how) {
			t.Run(how+" "+one.GetKind(), func(t *testing.T) {
				c.cleanup(t, one)
				writers[how](t, c, one)
				first := c.awaitOwners(t, one)
				for range 3 {
					writers[how](t, c, one)
					if now := c.awaitOwners(t, one); now.GetGeneration() != first.GetGeneration() {
						t.Fatalf("applied again, %v became %v", first.Object["spec"], now.Object["spec"])
					}
				}
				if one.GetKind() == "NodeClaim" {
					return
				}
				less := one.DeepCopy()
				for _, path := range [][]string{{"limits"}, {"tags"}, {"disruption"}, {"template", "spec", "kubelet"}, {"metadataOptions"}} {
					unstructured.RemoveNestedField(less.Object, append([]string{"spec"}, path...)...)
				}
				writers[how](t, c, less)
				c.awaitOwners(t, one)
				if diff := cmp.Diff(less.Object["spec"], c.read(t, one, "v1beta1").Object["spec"]); diff != "" && one.GetKind() == "NodePool" {
					t.Errorf("after removal (-want +got):\n%s", diff)
				}
				options := at(c.read(t, one, "v1"), "metadataOptions")
				if want := any(tree{"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": int64(2), "httpTokens": "required"}); one.GetKind() == "EC2NodeClass" && !cmp.Equal(want, options) {
					t.Errorf("metadataOptions %v", options)
				}
			})
		}
	}
}
