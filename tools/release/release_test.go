package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// small is a release of the source that is here, with this test in place of the programs: compiling those for every platform takes
// minutes.
func small(t *testing.T) *recipe {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, []byte("roots\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &recipe{
		root: filepath.Join("..", ".."), out: filepath.Join(t.TempDir(), "dist"), roots: roots, version: chartsVersion(t), url: "https://example.com/r/",
		commit: "0123456789abcdef0123456789abcdef01234567", when: time.Unix(1_800_000_000, 0).UTC(), archs: []string{testArch(t, self)},
		build: func(_ context.Context, p program, _ string) error {
			if err := os.MkdirAll(filepath.Dir(p.file), 0o755); err != nil {
				return err
			}
			return os.WriteFile(p.file, binary, 0o755)
		},
		tell: t.Logf,
	}
}

func testArch(t *testing.T, self string) string {
	t.Helper()
	for arch := range machines {
		if check(self, arch) == nil {
			return arch
		}
	}
	t.Skip("this test is not a static program for linux, as the release's are")
	return ""
}

// chartsVersion is what both charts say, twice each.
func chartsVersion(t *testing.T) string {
	t.Helper()
	found := map[string]bool{}
	for _, name := range []string{"karpenter", "karpenter-crd"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "charts", name, "Chart.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range chartVersion.FindAllSubmatch(raw, -1) {
			found[string(line[2])] = true
		}
	}
	if len(found) != 1 {
		t.Fatalf("the charts say versions %v, want one", found)
	}
	for version := range found {
		return version
	}
	return ""
}

// content reads every file of a folder.
func content(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := tree(folder, "")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range entries {
		found[e.name] = string(e.content)
	}
	return found
}

// TestAReleaseIsTheSameTwice makes a release in two folders, and looks at what is in it.
func TestAReleaseIsTheSameTwice(t *testing.T) {
	r, again := small(t), small(t)
	for _, one := range []*recipe{r, again} {
		if err := one.all(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	files, second := content(t, r.out), content(t, again.out)
	v := r.version
	want := []string{
		"SHA256SUMS", "karpenter-" + v + ".tgz", "karpenter-controller_" + v + ".oci.tar", "karpenter-controller_" + v + "_linux_" + r.archs[0] + ".spdx.json",
		"karpenter-crd-" + v + ".tgz", "karpenter-crds_" + v + ".yaml", "karpenter.krew.yaml", "karpenter_" + v + ".intoto.json",
	}
	for _, p := range platforms {
		base := "karpenter_" + v + "_" + p[0] + "_" + p[1]
		want = append(want, base+".spdx.json", base+".tar.gz")
	}
	for _, name := range want {
		if files[name] == "" {
			t.Errorf("the release lacks %s", name)
		}
		if files[name] != second[name] {
			t.Errorf("%s differs between two runs", name)
		}
	}
	if len(files) != len(want) || len(second) != len(want) {
		t.Errorf("%d and %d files, want %d", len(files), len(second), len(want))
	}
	for name, text := range files {
		if strings.Contains(text, r.out) || strings.Contains(text, filepath.Dir(r.roots)) {
			t.Errorf("%s names a folder of the computer that it was made on", name)
		}
	}
	checkSums(t, r, files)
	checkKrew(t, r, files["karpenter.krew.yaml"])
	checkProvenance(t, r, files["karpenter_"+v+".intoto.json"])
	archived, _ := unpack(t, []byte(files[archiveName(v, "linux", "amd64")]))
	if len(archived) != 2 || !strings.HasPrefix(archived["karpenter"], "-rwxr-xr-x ") || !strings.HasPrefix(archived["LICENSE"], "-rw-r--r-- ") {
		t.Errorf("the archive of the command line has %d files, want karpenter and LICENSE", len(archived))
	}
}

// checkSums has the real sha256sum read the sums.
func checkSums(t *testing.T, r *recipe, files map[string]string) {
	t.Helper()
	if got := strings.Count(files["SHA256SUMS"], "\n"); got != len(files)-1 {
		t.Errorf("sums of %d files, want of %d", got, len(files)-1)
	}
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	cmd.Dir = r.out
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sha256sum --check: %s %v", out, err)
	}
}

func checkKrew(t *testing.T, r *recipe, text string) {
	t.Helper()
	var plugin struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.Metadata.Name != "karpenter" || plugin.Spec.Version != "v"+r.version || len(plugin.Spec.Platforms) != len(platforms) {
		t.Errorf("krew: %+v", plugin)
	}
	for i, p := range plugin.Spec.Platforms {
		name := archiveName(r.version, platforms[i][0], platforms[i][1])
		sum, err := r.sum(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.URI != "https://example.com/r/"+name || p.SHA256 != sum || p.Bin != "karpenter" || p.Selector.MatchLabels["os"] != platforms[i][0] || p.Selector.MatchLabels["arch"] != platforms[i][1] {
			t.Errorf("krew: %+v, want %s of %s", p, sum, name)
		}
	}
}

func checkProvenance(t *testing.T, r *recipe, text string) {
	t.Helper()
	var s statement
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("provenance: %s, %s", s.Type, s.PredicateType)
	}
	if got := s.Predicate.Definition.Dependencies[0].Digest["gitCommit"]; got != r.commit {
		t.Errorf("provenance: commit %s, want %s", got, r.commit)
	}
	subjects := map[string]bool{}
	for _, subject := range s.Subject {
		subjects[subject.Name] = true
		if sum, err := r.sum(subject.Name); err != nil || sum != subject.Digest["sha256"] {
			t.Errorf("provenance: %s is %s, want %s %v", subject.Name, subject.Digest["sha256"], sum, err)
		}
	}
	names, err := r.made()
	if err != nil {
		t.Fatal(err)
	}
	if len(subjects) != len(names)-2 { // all but itself and the sums, which are made from it
		t.Errorf("provenance of %d files, want of %d", len(subjects), len(names)-2)
	}
}

// TestPackIsIndependentOfOrder: the same files in another order are the same archive.
func TestPackIsIndependentOfOrder(t *testing.T) {
	a, b := entry{"a/b", 0o644, []byte("1")}, entry{"a.c", 0o755, []byte("2")}
	one, err := archive(time.Unix(5, 0), []entry{a, b})
	if err != nil {
		t.Fatal(err)
	}
	two, err := archive(time.Unix(5, 0), []entry{b, a})
	if err != nil {
		t.Fatal(err)
	}
	if string(one) != string(two) {
		t.Error("the archive depends on the order that files were read in")
	}
	if header := one[4:10]; string(header[:4]) != "\x00\x00\x00\x00" {
		t.Errorf("gzip's header says a time: %x", header)
	}
}

// TestTheChartsAreOfTheRelease: a chart of another version is refused.
func TestTheChartsAreOfTheRelease(t *testing.T) {
	r := small(t)
	r.version = "9.9.9"
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("charts/karpenter/Chart.yaml: version is %s, and the release is 9.9.9: they must be the same", chartsVersion(t))
	if err := r.charts(t.Context(), ""); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestOneVersion: what is said of the version in several places is the same.
func TestOneVersion(t *testing.T) {
	changes, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## (\d\S*)`).FindSubmatch(changes)
	if newest == nil || string(newest[1]) != chartsVersion(t) {
		t.Errorf("CHANGELOG.md's newest version is %s, and the charts' is %s", newest, chartsVersion(t))
	}
}

// TestHelmTakesTheCharts renders a packed chart by the real helm, and gets what the folder gives.
func TestHelmTakesTheCharts(t *testing.T) {
	helm, err := filepath.Abs(filepath.Join("..", "..", "bin", "helm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(helm); err != nil {
		if os.Getenv("KARPENTER_TEST_HELM") != "" {
			t.Fatalf("%s is not there: run \"make bin/helm\"", helm)
		}
		t.Skipf("%s is not there: run \"make bin/helm\"", helm)
	}
	r := small(t)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.charts(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	render := func(chart string) string {
		cmd := exec.CommandContext(t.Context(), helm, "template", "x", chart, "--set", "settings.clusterName=my-cluster", "--include-crds")
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %s %v", chart, out, err)
		}
		return string(out)
	}
	folder, packed := render(filepath.Join(r.root, "charts", "karpenter")), render(filepath.Join(r.out, "karpenter-"+r.version+".tgz"))
	if diff := cmp.Diff(folder, packed); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(packed, "image: karpenter/controller:"+r.version) {
		t.Errorf("the chart's image is not of version %s", r.version)
	}
}
