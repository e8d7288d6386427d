package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// labelKey is a label, annotation, taint or finalizer of a domain: not a bare word, not a version, not a prefix.
var labelKey = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+/[a-z0-9-]+$`)

// constants are the exported string constants of a package's own files, by name. Only literals, sums, conversions and
// names of the same package are understood, which is what the API packages use.
func constants(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	exprs := map[string]ast.Expr{}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".go" || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, entry.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.CONST {
				collect(general, exprs)
			}
		}
	}
	values := map[string]string{}
	for name, expr := range exprs {
		if value, ok := fold(expr, exprs); ok && ast.IsExported(name) {
			values[name] = value
		}
	}
	return values
}

func collect(decl *ast.GenDecl, into map[string]ast.Expr) {
	for _, spec := range decl.Specs {
		value := spec.(*ast.ValueSpec)
		for i, name := range value.Names {
			if i < len(value.Values) {
				into[name.Name] = value.Values[i]
			}
		}
	}
}

func fold(expr ast.Expr, known map[string]ast.Expr) (string, bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, e.Kind == token.STRING && err == nil
	case *ast.Ident:
		named, ok := known[e.Name]
		if !ok {
			return "", false
		}
		return fold(named, known)
	case *ast.ParenExpr:
		return fold(e.X, known)
	case *ast.CallExpr: // a conversion
		if len(e.Args) != 1 {
			return "", false
		}
		return fold(e.Args[0], known)
	case *ast.BinaryExpr:
		left, okLeft := fold(e.X, known)
		right, okRight := fold(e.Y, known)
		return left + right, e.Op == token.ADD && okLeft && okRight
	}
	return "", false
}

func TestEveryNameOfTheAPIIsDocumented(t *testing.T) {
	labels := read(t, filepath.Join(root, "docs", "reference", "labels.md")) + read(t, filepath.Join(root, "docs", "concepts", "v1beta1.md"))
	conditions := read(t, filepath.Join(root, "docs", "concepts", "conditions.md"))
	for _, dir := range []string{"api/karpenter/v1", "api/aws/v1", "api/capi/v1alpha1", "api/convert"} {
		t.Run(dir, func(t *testing.T) {
			values := constants(t, filepath.Join(root, filepath.FromSlash(dir)))
			for _, name := range slices.Sorted(maps.Keys(values)) {
				value := values[name]
				switch {
				case labelKey.MatchString(value) && !regexp.MustCompile("`"+regexp.QuoteMeta(value)+"[`:=]").MatchString(labels):
					t.Errorf("%s = %q is in neither docs/reference/labels.md nor docs/concepts/v1beta1.md", name, value)
				case (strings.HasPrefix(name, "Condition") || strings.HasPrefix(name, "Reason")) && !strings.Contains(conditions, "`"+value+"`"):
					t.Errorf("%s = %q is not in docs/concepts/conditions.md", name, value)
				}
			}
		})
	}
}
