// Package archtest holds the code to the import table of docs/design/architecture.md: which part may import which,
// and which names of the standard library a part may not use. It reads the tree through "go list" and go/parser
// and changes nothing.
package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Module is the name of the module that the rules are about.
const Module = "karpenter"

// Package is what "go list -json" says of one package, as far as the rules need it.
type Package struct {
	ImportPath string
	Dir        string
	Standard   bool
	GoFiles    []string
	Imports    []string
}

// List asks the go command for the packages below root.
func List(root string) ([]Package, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Standard,GoFiles,Imports", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages of %s: %w", root, err)
	}
	var packages []Package
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what go list printed: %w", err)
		}
		packages = append(packages, p)
	}
}

// Check returns one sentence per breach of the rules, sorted.
func Check(packages []Package, rules []Rule) ([]string, error) {
	var found []string
	for _, p := range packages {
		path, ok := inModule(p.ImportPath)
		if !ok {
			continue
		}
		rule := ruleFor(path, rules)
		if rule == nil {
			found = append(found, fmt.Sprintf("%s: no rule covers this package: give it a line in tools/archtest/rules.go and in docs/design/architecture.md", path))
			continue
		}
		for _, imported := range p.Imports {
			if !allowed(imported, rule) {
				found = append(found, fmt.Sprintf("%s may not import %s (%s)", path, imported, rule.Reason))
			}
		}
		for _, file := range p.GoFiles {
			uses, err := banned(filepath.Join(p.Dir, file), rule.Bans)
			if err != nil {
				return nil, err
			}
			found = append(found, uses...)
		}
	}
	sort.Strings(found)
	return found, nil
}

// CheckClosures returns one sentence per package that a program holds and must not, with the way by which it comes in.
func CheckClosures(packages []Package, closures []Closure) []string {
	imports := map[string][]string{}
	for _, p := range packages {
		if path, ok := inModule(p.ImportPath); ok {
			imports[path] = p.Imports
		}
	}
	var found []string
	for _, c := range closures {
		if imports[c.Package] == nil {
			found = append(found, fmt.Sprintf("%s: there is no such program", c.Package))
			continue
		}
		way := map[string]string{c.Package: c.Package}
		for queue := []string{c.Package}; len(queue) > 0; queue = queue[1:] {
			for _, imported := range imports[queue[0]] {
				path, ours := inModule(imported)
				if !ours || way[path] != "" {
					continue
				}
				way[path] = way[queue[0]] + " → " + path
				if slices.ContainsFunc(c.Never, func(line string) bool { return covers(line, path) }) {
					found = append(found, fmt.Sprintf("%s must not hold %s (%s): %s", c.Package, path, c.Reason, way[path]))
					continue // what it imports in turn comes in by the same mistake
				}
				queue = append(queue, path)
			}
		}
	}
	sort.Strings(found)
	return found
}

func inModule(importPath string) (string, bool) {
	if importPath == Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

func ruleFor(path string, rules []Rule) *Rule {
	for i := range rules {
		if covers(rules[i].Package, path) {
			return &rules[i]
		}
	}
	return nil
}

// covers says whether a path of this module is meant by a line of the table: a package, or a tree if it ends in "/...".
func covers(line, path string) bool {
	if tree, ok := strings.CutSuffix(line, "/..."); ok {
		return below(path, tree)
	}
	return path == line
}

func allowed(imported string, rule *Rule) bool {
	path, ours := inModule(imported)
	if !ours && standard(imported) {
		return true
	}
	for _, line := range rule.Imports {
		if line == "*" || ours && covers(line, path) || !ours && below(imported, line) {
			return true
		}
	}
	return false
}

func below(path, tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }

// standard tells the standard library by the rule that the go command uses too: no dot in the first element.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// banned lists the uses of banned names in one file.
func banned(file string, bans []Ban) ([]string, error) {
	if len(bans) == 0 {
		return nil, nil
	}
	fileset := token.NewFileSet()
	parsed, err := parser.ParseFile(fileset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	names := map[string]string{} // local name → import path
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("reading an import of %s: %w", file, err)
		}
		local := filepath.Base(strings.TrimSuffix(path, "/v2"))
		if spec.Name != nil {
			local = spec.Name.Name
		}
		names[local] = path
	}
	var found []string
	ast.Inspect(parsed, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		ident, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		for _, ban := range bans {
			if names[ident.Name] == ban.Path && (ban.Name == "*" || ban.Name == selector.Sel.Name) {
				found = append(found, fmt.Sprintf("%s: %s.%s is banned here: %s", fileset.Position(selector.Pos()), ban.Path, selector.Sel.Name, ban.Instead))
			}
		}
		return true
	})
	return found, nil
}
