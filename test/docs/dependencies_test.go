package docs

import (
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
		{"tools/tools.mod", "tool", "Tools (tools/tools.mod)"},
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
