package docs

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	block     = regexp.MustCompile(`(?ms)^(require|tool) \((.*?)^\)`)
	single    = regexp.MustCompile(`(?m)^(require|tool) ([^\s(].*)$`)
	moduleRow = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| .+ \\|$") // one module or more, one reason
)

// directives are the lines of one kind in a go.mod file, without what is needed only indirectly.
func directives(text, kind string) []string {
	var lines []string
	for _, match := range block.FindAllStringSubmatch(text, -1) {
		if match[1] == kind {
			lines = append(lines, strings.Split(match[2], "\n")...)
		}
	}
	for _, match := range single.FindAllStringSubmatch(text, -1) {
		if match[1] == kind {
			lines = append(lines, match[2])
		}
	}
	var paths []string
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasSuffix(line, "// indirect") {
			paths = append(paths, fields[0])
		}
	}
	return paths
}

// section is the part of a page under one heading of the second level.
func section(t *testing.T, text, title string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, "\n## "+title+"\n")
	if !ok {
		t.Fatalf("no section %q", title)
	}
	before, _, _ := strings.Cut(after, "\n## ")
	return before
}

func TestEveryDependencyHasAReason(t *testing.T) {
	page := filepath.Join(root, "docs", "design", "dependencies.md")
	text := read(t, page)
	for _, c := range []struct{ file, kind, section string }{
		{"go.mod", "require", "The product (go.mod)"},
		{"kube/go.mod", "require", "The control plane (kube/go.mod)"},
		{"kube/oldest/go.mod", "require", "The oldest control plane (kube/oldest/go.mod)"},
		{"tools/tools.mod", "tool", "Tools (tools/tools.mod)"},
		{"kube/capi/go.mod", "tool", "Cluster API (kube/capi/go.mod)"},
		{"tools/helm/go.mod", "tool", "Helm (tools/helm/go.mod)"},
		{"tools/helm3/go.mod", "tool", "Helm 3 (tools/helm3/go.mod)"},
	} {
		t.Run(c.file, func(t *testing.T) {
			used := directives(read(t, filepath.Join(root, filepath.FromSlash(c.file))), c.kind)
			if len(used) == 0 {
				t.Fatalf("%s: no %s found", c.file, c.kind)
			}
			var listed []string
			for _, row := range moduleRow.FindAllStringSubmatch(section(t, text, c.section), -1) {
				listed = append(listed, strings.Split(strings.Trim(row[1], "`"), "`, `")...)
			}
			// A tool is a package of a module, a requirement is the module itself.
			covers := func(module, path string) bool {
				return path == module || c.kind == "tool" && strings.HasPrefix(path, module+"/")
			}
			for _, path := range used {
				if !slices.ContainsFunc(listed, func(module string) bool { return covers(module, path) }) {
					t.Errorf("%s needs %s: give its reason in %s under %q", c.file, path, page, c.section)
				}
			}
			for _, module := range listed {
				if !slices.ContainsFunc(used, func(path string) bool { return covers(module, path) }) {
					t.Errorf("%s gives a reason for %s, which %s does not need", page, module, c.file)
				}
			}
		})
	}
}

func TestEveryPackageOfJavaScriptHasAReason(t *testing.T) {
	var has struct {
		DevDependencies map[string]string `json:"devDependencies"`
	}
	folder := filepath.Join(root, "tools", "javascript")
	if err := json.Unmarshal([]byte(read(t, filepath.Join(folder, "package.json"))), &has); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range moduleRow.FindAllStringSubmatch(section(t, read(t, filepath.Join(root, "docs", "design", "dependencies.md")), "JavaScript (tools/javascript/package.json)"), -1) {
		listed = append(listed, strings.Split(strings.Trim(row[1], "`"), "`, `")...)
	}
	slices.Sort(listed)
	if used := slices.Sorted(maps.Keys(has.DevDependencies)); !slices.Equal(used, listed) {
		t.Errorf("tools/javascript/package.json has %q, docs/design/dependencies.md gives reasons for %q", used, listed)
	}
	for name, version := range has.DevDependencies {
		if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(version) {
			t.Errorf("tools/javascript/package.json: %s %s is not pinned; name one version", name, version)
		}
	}
	if lock := read(t, filepath.Join(folder, "package-lock.json")); strings.Contains(lock, `"resolved"`) || !strings.Contains(lock, `"integrity"`) {
		t.Error("tools/javascript/package-lock.json names a registry, or has no checksums; make it anew with npm install --package-lock-only")
	}
}

// TestVersions holds that what is built, what it is called and what users are told have the same versions.
func TestVersions(t *testing.T) {
	stated := read(t, filepath.Join(root, "docs", "operate", "install.md"))
	makefile := read(t, filepath.Join(root, "Makefile"))
	for _, c := range []struct{ name, file, module string }{
		{"KUBE_VERSION", "kube/go.mod", "k8s.io/kubernetes"},
		{"OLDEST_KUBE_VERSION", "kube/oldest/go.mod", "k8s.io/kubernetes"},
		{"HELM_VERSION", "tools/helm/go.mod", "helm.sh/helm/v4"},
		{"CAPI_VERSION", "kube/capi/go.mod", "sigs.k8s.io/cluster-api"},
		{"OLDEST_HELM_VERSION", "tools/helm3/go.mod", "helm.sh/helm/v3"},
	} {
		version := regexp.MustCompile(`(?m)^` + c.name + ` +:= (\S+)$`).FindStringSubmatch(makefile)
		if version == nil {
			t.Errorf("the Makefile has no %s", c.name)
			continue
		}
		if built := read(t, filepath.Join(root, filepath.FromSlash(c.file))); !regexp.MustCompile(`(?m)^\s*(require )?` + regexp.QuoteMeta(c.module+" v"+version[1]) + `\s`).MatchString(built) {
			t.Errorf("%s does not require %s v%s, which the Makefile calls %s", c.file, c.module, version[1], c.name)
		}
		if !strings.Contains(stated, version[1]) {
			t.Errorf("docs/operate/install.md does not name %s %s", c.module, version[1])
		}
	}
}
