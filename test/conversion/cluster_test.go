package conversion

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/test/harness"
)

type tree = map[string]any

// shared is the cluster of the tests that leave it as they found it. The webhook runs for as long as they do.
var shared *cluster

// checks is how many random objects of each kind go through the API server; -rapid.checks asks for more.
const checks = "25"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	os.Exit(harness.Main(m, harness.Options{Conversion: true}, func(c *harness.Cluster) { shared = &cluster{Cluster: c} }))
}

// cluster adds what these tests ask a control plane for.
type cluster struct{ *harness.Cluster }

// own gives a test a cluster of its own, without our definitions.
func own(t *testing.T) *cluster {
	t.Helper()
	return &cluster{Cluster: harness.Start(t, harness.Options{NoCRDs: true})}
}

func object(apiVersion, kind, name string, spec tree) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: tree{"apiVersion": apiVersion, "kind": kind, "metadata": tree{"name": name}, "spec": spec}}
}

// kubectl runs a command that must succeed.
func (c *cluster) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// get reads an object with kubectl in the version that the resource names, for example nodepools.v1beta1.karpenter.sh.
func (c *cluster) get(t *testing.T, resource, name string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(c.kubectl(t, "", "get", resource, name, "-o", "json")), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// create writes an object that must be accepted, and removes it with the test.
func (c *cluster) create(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	c.cleanup(t, object)
	if err := c.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// cleanup removes an object with the test, through v1.
func (c *cluster) cleanup(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	gone := in(object, "v1")
	t.Cleanup(func() {
		if err := c.Client.Delete(context.Background(), gone); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// in returns an empty object of the same kind and name in another version.
func in(object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	kind := object.GroupVersionKind()
	kind.Version = version
	out.SetGroupVersionKind(kind)
	out.SetName(object.GetName())
	return out
}

// read returns the object in a version.
func (c *cluster) read(t *testing.T, object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	out := in(object, version)
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(object), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// patch merges a change into the object through a version.
func (c *cluster) patch(t *testing.T, object *unstructured.Unstructured, version, change string) {
	t.Helper()
	if err := c.Client.Patch(t.Context(), in(object, version), client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
		t.Fatal(err)
	}
}

// resource is how kubectl calls a kind in a version.
func resource(kind, version string) string {
	group := "karpenter.sh"
	if kind == "EC2NodeClass" {
		group = "karpenter.k8s.aws"
	}
	plural := map[string]string{"NodePool": "nodepools", "NodeClaim": "nodeclaims", "EC2NodeClass": "ec2nodeclasses"}[kind]
	return strings.Join([]string{plural, version, group}, ".")
}

// guides are the files with manifests of the documents that people follow.
func guides(t *testing.T) []string {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "examples", "guides", "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no guides found: %v", err)
	}
	return files
}
