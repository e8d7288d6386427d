package examples

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"karpenter/internal/cli"
	"karpenter/test/harness"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// world is a cluster with both versions of our API in it.
type world struct{ *harness.Cluster }

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{harness.Start(t, harness.Options{Conversion: true})}
}

// apply runs kubectl apply as a reader of the examples would.
func (w *world) apply(t *testing.T, stdin string, files ...string) string {
	t.Helper()
	out, err := w.Kubectl(t.Context(), stdin, append([]string{"apply", "--validate=strict", "-R", "-f"}, files...)...)
	if err != nil {
		t.Fatalf("applying %q: %v\n%s", files, err, out)
	}
	return out
}

func (w *world) get(t *testing.T, m manifest, version string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	gvk := m.object.GroupVersionKind()
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: gvk.Group, Version: version, Kind: gvk.Kind})
	if err := w.Client.Get(t.Context(), m.key(), object); err != nil {
		t.Fatalf("%s: %v", m, err)
	}
	return object
}

func (w *world) remove(t *testing.T, m manifest) {
	t.Helper()
	if err := client.IgnoreNotFound(w.Client.Delete(t.Context(), m.object.DeepCopy())); err != nil {
		t.Fatalf("%s: %v", m, err)
	}
}

// key says where the object is; what has a namespace is applied to the default one.
func (m manifest) key() client.ObjectKey {
	key := client.ObjectKey{Name: m.object.GetName()}
	if !m.ours() {
		key.Namespace = "default"
	}
	return key
}

// plain makes values comparable that differ only in how their numbers were decoded.
func plain(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestApply(t *testing.T) {
	w := newWorld(t)
	t.Run("everything twice", w.everythingTwice)
	t.Run("each folder again changes nothing", w.eachFolderAgain)
	t.Run("A63 A64 A65 A66 A67 A78 v1beta1 reads back as v1 and as written", w.betaReadsBack)
	t.Run("convert gives what the webhook gives", w.offline)
	t.Run("v1 without the webhook", w.withoutWebhook)
}

func (w *world) everythingTwice(t *testing.T) {
	all := manifests(t)
	var specs [2]map[string]any
	for i := range specs {
		out := w.apply(t, "", folder)
		if got := strings.Count(out, "\n"); got != len(all) {
			t.Errorf("kubectl applied %d objects of %d:\n%s", got, len(all), out)
		}
		specs[i] = map[string]any{}
		for _, m := range all {
			specs[i][m.object.GetKind()+" "+m.object.GetName()] = w.get(t, m, m.object.GroupVersionKind().Version).Object["spec"]
		}
	}
	if diff := cmp.Diff(specs[0], specs[1]); diff != "" {
		t.Errorf("the second time made a difference (-first +second):\n%s", diff)
	}
}

// eachFolderAgain compares resource versions, not what kubectl says: it prints "configured" for a quantity that the API
// server writes in another way, although nothing changes. Folder by folder, because the articles share names.
func (w *world) eachFolderAgain(t *testing.T) {
	byFolder := map[string][]manifest{}
	for _, m := range manifests(t) {
		byFolder[path.Dir(m.file)] = append(byFolder[path.Dir(m.file)], m)
	}
	for _, part := range slices.Sorted(maps.Keys(byFolder)) {
		versions := func() []string {
			w.apply(t, "", path.Join(folder, part))
			var out []string
			for _, m := range byFolder[part] {
				out = append(out, m.String()+" "+w.settled(t, m))
			}
			return out
		}
		if diff := cmp.Diff(versions(), versions()); diff != "" {
			t.Errorf("applying %s again changed something (-first +second):\n%s", part, diff)
		}
	}
}

// settled is the resource version of an object, once the webhook has moved the record of who owns its fields to v1.
func (w *world) settled(t *testing.T, m manifest) string {
	t.Helper()
	old := func(e metav1.ManagedFieldsEntry) bool { return strings.HasSuffix(e.APIVersion, "/v1beta1") && m.beta() }
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		object := w.get(t, m, m.object.GroupVersionKind().Version)
		if !slices.ContainsFunc(object.GetManagedFields(), old) {
			return object.GetResourceVersion()
		}
	}
	t.Fatalf("%s still has owners of fields in v1beta1 after a minute", m)
	return ""
}

func (w *world) betaReadsBack(t *testing.T) {
	for _, m := range manifests(t) {
		if !m.beta() {
			continue
		}
		w.remove(t, m)
		w.apply(t, string(m.text), "-")
		if diff := cmp.Diff(plain(t, m.object.Object["spec"]), plain(t, w.get(t, m, "v1beta1").Object["spec"])); diff != "" {
			t.Errorf("%s does not read back as it was written (-written +read):\n%s", m, diff)
		}
		golden(t, m, w.get(t, m, "v1").Object["spec"])
	}
}

// golden holds the spec that was read against the file for the manifest in testdata.
func golden(t *testing.T, m manifest, spec any) {
	t.Helper()
	file := filepath.FromSlash(m.golden())
	text, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%s: %v (go test ./test/examples -update writes it)", m, err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("%s in v1 differs from %s (-want +got):\n%s", m, file, diff)
	}
}

func (m manifest) golden() string {
	article := path.Base(path.Dir(m.file))
	return path.Join("testdata", "v1", article+"-"+strings.ToLower(m.object.GetKind())+"-"+m.object.GetName()+".yaml")
}

// offline runs karpenter convert over each file and applies what it prints.
func (w *world) offline(t *testing.T) {
	for _, m := range manifests(t) {
		if !m.beta() {
			continue
		}
		var out, warnings bytes.Buffer
		convert := cli.NewConvert()
		convert.SetArgs([]string{"-f", "-"})
		convert.SetIn(bytes.NewReader(m.text))
		convert.SetOut(&out)
		convert.SetErr(&warnings)
		if err := convert.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%s: %v\n%s", m, err, warnings.String())
			continue
		}
		if !strings.Contains(out.String(), "/v1\n") {
			t.Errorf("%s: karpenter convert printed no v1:\n%s", m, out.String())
		}
		w.remove(t, m)
		w.apply(t, out.String(), "-")
		text, err := os.ReadFile(filepath.FromSlash(m.golden()))
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := yaml.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain(t, want), plain(t, w.get(t, m, "v1").Object["spec"])); diff != "" {
			t.Errorf("%s: converted offline it is another object (-webhook +offline):\n%s", m, diff)
		}
	}
}

// withoutWebhook runs last: v1 clients never depend on the webhook.
func (w *world) withoutWebhook(t *testing.T) {
	w.StopConversion()
	for _, m := range manifests(t) {
		if m.ours() && !m.beta() {
			w.remove(t, m)
		}
	}
	for _, part := range []string{"pools", "cluster-api", "workloads", "guides/karpenter-in-depth"} {
		w.apply(t, "", path.Join(folder, part))
	}
	for _, m := range manifests(t) {
		if m.object.GetKind() == "NodePool" {
			w.get(t, m, "v1") // also those that were written in v1beta1
		}
	}
}
