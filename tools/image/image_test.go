package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheBuildIsReproducible builds the program as the recipe does, twice, and looks at what came of it.
func TestTheBuildIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program twice; not with -short")
	}
	file := filepath.Join(t.TempDir(), "karpenter")
	if err := build(t.Context(), file, "amd64", "v1.2.3-test"); err != nil {
		t.Fatal(err)
	}
	if err := rebuild(t.Context(), file, "amd64", "v1.2.3-test"); err != nil {
		t.Error(err)
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"the folder that it was built in": filepath.Dir(filepath.Dir(folder)), "a dynamic linker": "/lib64/ld-linux"} {
		if bytes.Contains(binary, []byte(text)) {
			t.Errorf("the binary names %s: %s", name, text)
		}
	}
	out, err := exec.CommandContext(t.Context(), file, "--version").Output()
	if err != nil || !strings.Contains(string(out), "v1.2.3-test") {
		t.Errorf("--version: %s %v", out, err)
	}
	raw, err := bill(file, "v1.2.3-test")
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

// files lists what is in the only layer of an image.
func files(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if err == io.EOF {
			return found
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

// TestLayout: index, manifests, configurations and layers refer to each other by digests that are right, and two runs give the same.
func TestLayout(t *testing.T) {
	parts := []part{{"amd64", []byte("program of amd64"), []byte("roots")}, {"arm64", []byte("program of arm64"), []byte("roots")}}
	dir := t.TempDir()
	digest, err := layout(filepath.Join(dir, "one"), "v1", parts)
	if err != nil {
		t.Fatal(err)
	}
	again, err := layout(filepath.Join(dir, "two"), "v1", parts)
	if err != nil || again != digest {
		t.Errorf("a second run gives %s, the first gave %s: %v", again, digest, err)
	}
	blob := func(digest string) []byte {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(dir, "one", "blobs", "sha256", strings.TrimPrefix(digest, "sha256:")))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	read := func(digest string) (m manifest) {
		t.Helper()
		if err := json.Unmarshal(blob(digest), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	index := read(digest)
	if len(index.Manifests) != 2 {
		t.Fatalf("index: %+v", index)
	}
	for i, d := range index.Manifests {
		one := read(d.Digest)
		if d.Platform.Architecture != parts[i].arch || d.Size != len(blob(d.Digest)) || one.Layers[0].Size != len(blob(one.Layers[0].Digest)) {
			t.Errorf("%+v: %+v", d, one)
		}
		want := map[string]string{
			"etc/": "drwxr-xr-x ", "etc/ssl/": "drwxr-xr-x ", "etc/ssl/certs/": "drwxr-xr-x ", "etc/ssl/certs/ca-certificates.crt": "-rw-r--r-- roots",
			"karpenter": "-rwxr-xr-x program of " + parts[i].arch,
		}
		if diff := cmp.Diff(want, files(t, blob(one.Layers[0].Digest))); diff != "" {
			t.Error(diff)
		}
		if config := string(blob(one.Config.Digest)); !strings.Contains(config, `"User":"65532:65532"`) || !strings.Contains(config, `"Entrypoint":["/karpenter"]`) {
			t.Errorf("config: %s", config)
		}
	}
}
