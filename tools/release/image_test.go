package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// most is how large the program of the image may be, in bytes, and mostPulled what a registry sends of it. Some 15 MB are Kubernetes' API types
// with their codecs, all of which the client library registers, 8 MB the AWS SDK and 4 MB CEL.
const (
	most       = 55_000_000
	mostPulled = 18_000_000
)

// TestTheBuildIsReproducible builds the image's program as the recipe does, twice, and looks at what came of it.
func TestTheBuildIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program twice; not with -short")
	}
	file := filepath.Join(t.TempDir(), "karpenter")
	p := program{pkg: controller, system: "linux", arch: "amd64", file: file}
	if err := build(t.Context(), p, "v1.2.3-test"); err != nil {
		t.Fatal(err)
	}
	if err := rebuild(t.Context(), p, "v1.2.3-test"); err != nil {
		t.Error(err)
	}
	if err := check(file, "amd64"); err != nil {
		t.Error(err)
	}
	if err := check(file, "arm64"); err == nil {
		t.Error("a binary for amd64 passes for one for arm64")
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if root := filepath.Dir(filepath.Dir(folder)); bytes.Contains(binary, []byte(root)) {
		t.Errorf("the binary names the folder that it was built in: %s", root)
	}
	if len(binary) > most {
		t.Errorf("the controller has %d bytes, want at most %d: see what has come in with \"go tool nm -size\"", len(binary), most)
	}
	if packed, err := squeeze(binary); err != nil || len(packed) > mostPulled {
		t.Errorf("the controller has %d bytes when it is packed (%v), want at most %d", len(packed), err, mostPulled)
	}
	out, err := exec.CommandContext(t.Context(), file, "--version").Output()
	if err != nil || !strings.Contains(string(out), "v1.2.3-test") {
		t.Errorf("--version: %s %v", out, err)
	}
	raw, err := bill(file, "karpenter-linux-amd64", "v1.2.3-test", epoch)
	if err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, p := range doc.Packages {
		names[p.Name] = p.Version
	}
	for _, want := range []string{"karpenter", "stdlib", "k8s.io/client-go", "github.com/aws/aws-sdk-go-v2/service/ec2", "sigs.k8s.io/controller-runtime"} {
		if names[want] == "" {
			t.Errorf("the list of parts lacks %s", want)
		}
	}
	if len(doc.Relationships) != len(doc.Packages) {
		t.Errorf("%d packages, %d relationships", len(doc.Packages), len(doc.Relationships))
	}
}

// unpack lists what is in a layer, and gives the digest of the layer as it is before it is packed.
func unpack(t *testing.T, packed []byte) (found map[string]string, digest string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	found = map[string]string{}
	for r := tar.NewReader(bytes.NewReader(plain)); ; {
		header, err := r.Next()
		if err == io.EOF {
			return found, digestOf(plain)
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = header.FileInfo().Mode().String() + " " + string(content)
	}
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// blob reads what a descriptor refers to, and checks it as a registry does.
func blob(t *testing.T, dir string, d descriptor, kind string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(d.Digest, "sha256:")))
	if err != nil {
		t.Fatal(err)
	}
	if got := digestOf(raw); got != d.Digest || len(raw) != d.Size || d.MediaType != kind {
		t.Errorf("%s of %d bytes at %s is described as %+v", kind, len(raw), got, d)
	}
	return raw
}

func parsed[T any](t *testing.T, raw []byte) (out T) {
	t.Helper()
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// settings are what an engine reads of an image.
type settings struct {
	Architecture, OS string
	Config           struct {
		User            string
		Entrypoint, Cmd []string
		Labels          map[string]string
	}
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	}
}

// TestLayout reads a layout as an engine does: from the index of the folder through the image's to the manifest, the settings and
// the layer of each architecture. Two runs give the same.
func TestLayout(t *testing.T) {
	parts := []part{{arch: "amd64", binary: []byte("program of amd64"), roots: []byte("roots")}, {arch: "arm64", binary: []byte("program of arm64"), roots: []byte("roots")}}
	dir, second := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	digest, err := layout(dir, "v1", epoch, parts)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := layout(second, "v1", epoch, parts); err != nil || again != digest {
		t.Errorf("a second run gives %s, the first gave %s: %v", again, digest, err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	top := parsed[manifest](t, raw).Manifests
	if len(top) != 1 || top[0].Digest != digest || top[0].Annotations["org.opencontainers.image.ref.name"] != "v1" {
		t.Fatalf("index.json: %s", raw)
	}
	index := parsed[manifest](t, blob(t, dir, top[0], typeIndex))
	if len(index.Manifests) != len(parts) {
		t.Fatalf("index: %+v", index)
	}
	for i, d := range index.Manifests {
		if d.Platform == nil || d.Platform.Architecture != parts[i].arch || d.Platform.OS != "linux" {
			t.Errorf("platform %+v, want that of %s", d.Platform, parts[i].arch)
		}
		checkImage(t, dir, parts[i].arch, parsed[manifest](t, blob(t, dir, d, typeManifest)))
	}
}

// checkImage checks the image of one architecture.
func checkImage(t *testing.T, dir, arch string, m manifest) {
	t.Helper()
	if m.Config == nil || len(m.Layers) != 1 {
		t.Fatalf("manifest of %s: %+v", arch, m)
	}
	got, plain := unpack(t, blob(t, dir, m.Layers[0], typeLayer))
	want := map[string]string{
		"etc/": "drwxr-xr-x ", "etc/ssl/": "drwxr-xr-x ", "etc/ssl/certs/": "drwxr-xr-x ", "etc/ssl/certs/ca-certificates.crt": "-rw-r--r-- roots",
		"karpenter": "-rwxr-xr-x program of " + arch,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wanted := settings{Architecture: arch, OS: "linux"}
	wanted.Config.User, wanted.Config.Entrypoint, wanted.Config.Cmd = "65532:65532", []string{"/karpenter"}, []string{"controller"}
	wanted.Config.Labels = map[string]string{"org.opencontainers.image.title": "karpenter", "org.opencontainers.image.version": "v1"}
	wanted.RootFS.DiffIDs = []string{plain}
	if diff := cmp.Diff(wanted, parsed[settings](t, blob(t, dir, *m.Config, typeConfig))); diff != "" {
		t.Error(diff)
	}
}

// TestBadRecipe: what no registry or computer would take is refused before anything is built.
func TestBadRecipe(t *testing.T) {
	for _, c := range []struct {
		recipe recipe
		what   string
		want   string
	}{
		{recipe{version: "v1+2", archs: []string{"amd64"}}, "image", "must be a tag"},
		{recipe{version: "v1", archs: []string{"x86"}}, "image", "must be amd64 or arm64"},
		{recipe{version: "v1", archs: []string{"amd64"}}, "", "say what to make"},
	} {
		c.recipe.out = t.TempDir()
		if err := c.recipe.run(t.Context(), c.what); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q in it", c.recipe, err, c.want)
		}
	}
}
