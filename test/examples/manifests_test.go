// Package examples holds the manifests in examples/ to their word: each is strictly valid for its Go type, explains
// itself, and is accepted by a real API server, twice; those in v1beta1 read back as v1 and as they were written.
package examples

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"karpenter/test/harness"

	awsv1beta1 "karpenter/api/aws/v1beta1"
	karpv1beta1 "karpenter/api/karpenter/v1beta1"
)

const folder = "../../examples"

// otherFile is how a comment names another example: by its path, or by its number in the same article. Bare names may be
// an article's own.
var otherFile = regexp.MustCompile(`(\.\./[\w./-]+|\b\d\d-[\w-]+)\.yaml\b`)

// manifest is one YAML document of a file.
type manifest struct {
	file   string // below folder, with slashes
	text   []byte
	object unstructured.Unstructured
}

func (m manifest) String() string {
	return m.file + " " + m.object.GetKind() + " " + m.object.GetName()
}

// ours tells whether the manifest is of our API.
func (m manifest) ours() bool {
	return strings.HasPrefix(m.object.GroupVersionKind().Group, "karpenter.")
}

// beta tells whether the manifest is in an older version of our API.
func (m manifest) beta() bool { return m.ours() && m.object.GroupVersionKind().Version == "v1beta1" }

func files(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() && filepath.Ext(path) == ".yaml" {
			below, err := filepath.Rel(folder, path)
			found = append(found, filepath.ToSlash(below))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func manifests(t *testing.T) []manifest {
	t.Helper()
	var found []manifest
	for _, file := range files(t) {
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for {
			document, err := reader.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			m := manifest{file: file, text: document}
			if err := yaml.UnmarshalStrict(document, &m.object.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		t.Fatal("no manifest found")
	}
	return found
}

// scheme knows every kind that the examples use.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := harness.Scheme()
	for _, add := range []func(*runtime.Scheme) error{karpv1beta1.AddToScheme, awsv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func TestEveryManifestFitsItsType(t *testing.T) {
	known := scheme(t)
	for _, m := range manifests(t) {
		object, err := known.New(m.object.GroupVersionKind())
		if err != nil {
			t.Errorf("%s: %v", m, err)
			continue
		}
		if err := yaml.UnmarshalStrict(m.text, object); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
}

func TestEveryFileExplainsItself(t *testing.T) {
	for _, file := range files(t) {
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		comment, _, _ := bytes.Cut(text, []byte("\napiVersion:"))
		wants := []string{"# Does: ", "# Costs: ", "# Change: "}
		if strings.HasPrefix(file, "guides/") {
			// A file says what was repaired, or that nothing was.
			wants = []string{"# From ", "epaired"}
		}
		for _, want := range wants {
			if !bytes.Contains(comment, []byte(want)) {
				t.Errorf("%s: its first comment lacks %q", file, want)
			}
		}
		for _, mentioned := range otherFile.FindAllString(string(comment), -1) {
			if _, err := os.Stat(filepath.Join(folder, filepath.Dir(filepath.FromSlash(file)), filepath.FromSlash(mentioned))); err != nil {
				t.Errorf("%s mentions %s: %v", file, mentioned, err)
			}
		}
	}
}

// TestOwnExamplesAreOfOnePiece holds the files that are not from an article to the current version, to names that are
// used once, and to pools whose class is in the same file, so that each file can be applied by itself.
func TestOwnExamplesAreOfOnePiece(t *testing.T) {
	owner := map[string]string{}
	classes := map[string]string{}
	var pools []manifest
	for _, m := range manifests(t) {
		if strings.HasPrefix(m.file, "guides/") {
			continue
		}
		id := m.object.GetKind() + " " + m.object.GetName()
		if owner[id] != "" {
			t.Errorf("%s: %s defines the same", m, owner[id])
		}
		owner[id] = m.file
		switch {
		case m.beta():
			t.Errorf("%s: is in v1beta1", m)
		case strings.HasSuffix(m.object.GetKind(), "NodeClass"):
			classes[m.object.GetName()] = m.file
		case m.object.GetKind() == "NodePool":
			pools = append(pools, m)
		}
	}
	for _, pool := range pools {
		class, _, _ := unstructured.NestedString(pool.object.Object, "spec", "template", "spec", "nodeClassRef", "name")
		if classes[class] != pool.file {
			t.Errorf("%s: its class %q is not in the same file", pool, class)
		}
	}
}

// TestGuidesStayInTheirVersion: the articles' own API version is what makes them worth keeping.
func TestGuidesStayInTheirVersion(t *testing.T) {
	want := map[string]string{"eks-node-provisioning": "v1beta1", "karpenter-deep-dive": "v1beta1", "karpenter-in-depth": "v1"}
	var seen []string
	for _, m := range manifests(t) {
		parts := strings.Split(m.file, "/")
		if parts[0] != "guides" || !m.ours() {
			continue
		}
		if version := m.object.GroupVersionKind().Version; version != want[parts[1]] {
			t.Errorf("%s: is in %s, want %q", m, version, want[parts[1]])
		}
		seen = append(seen, parts[1])
	}
	slices.Sort(seen)
	if got := len(slices.Compact(seen)); got != len(want) {
		t.Errorf("guides of %d articles found, want %d", got, len(want))
	}
}
