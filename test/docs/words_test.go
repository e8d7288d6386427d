package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// words are what users and readers are not to be told, with what to say instead. Whoever knows Kubernetes and Karpenter searches for
// things by the names that they have there.
var words = []struct {
	avoid, say string
	// but is where the same letters mean something else; "" for nowhere.
	but string
}{
	{`definitions?`, "CRDs", ""},
	{`markets?`, "capacity type", "`market`"},
	{`pocket AWS`, "AWS simulator", ""},
	{`machines?`, "instance for the cloud's, node for Kubernetes', computer for the reader's", "virtual machine|machine image|`machine`|^machine$|(?-i:Machines?)|x-k8s(?:\\.|\\\\\\.)io/(?:delete-)?machine|machines: get|machinedeployments,machines|json:\"machines?,omitempty|\\[machines\\]|machine_ended|nodeclaim\\.machine"}, // with a capital it is Cluster API's kind
	{`(?:takes?|taken|took) away|(?:goes?|going) away|(?:nodes?|instances?|claims?) (?:comes?|goes|leaves?)`, "is launched, is removed, is deleted, is disrupted", ""},
	{`in vain|pods? (?:that )?(?:want|wants|wait|waits|have waited)|wait(?:s|ed)? for a node`, "pending, unschedulable", ""},
	{`without a place|(?:finds?|found) no place`, "unschedulable, does not fit", ""},
	{`seeds`, "guides", "random seeds"},
	{`take it away|come from somewhere else`, "Uninstall, Migrate", ""},
	{`the reference`, "upstream Karpenter", "the reference pages|in the reference"},
	{`pretend(?:s|ed|ing)?|make-believe`, "simulated", ""},
	{`company between pods|keeps? company`, "pod affinity or anti-affinity", ""},
	{`purses?`, "rate limiter, quota", ""},
	{`brakes?|strikes?`, "circuit breaker, failures", ""},
	{`flights|musters?|census`, "in-flight launches, inventory", ""},
	{`speakers?|bouncers?|front door`, "event recorder, authentication middleware", ""},
	{`foresight|lessons?|leaning`, "speculative plan, retry constraints, preferred domain", ""},
}

// A text is what people read: a line of a page, or a string of the program.
type text struct{ where, says string }

// TestWords holds pages, charts, manifests, the dashboard and the strings of the program against the table.
func TestWords(t *testing.T) {
	texts := slices.Concat(lines(t), literals(t))
	if len(texts) < 20_000 {
		t.Fatalf("only %d texts", len(texts))
	}
	var all []string
	for _, w := range words {
		all = append(all, w.avoid)
	}
	every := regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
	texts = slices.DeleteFunc(texts, func(x text) bool { return !every.MatchString(x.says) }) // nearly all
	for _, w := range words {
		avoid := regexp.MustCompile(`(?i)\b(?:` + w.avoid + `)\b`)
		var but *regexp.Regexp
		if w.but != "" {
			but = regexp.MustCompile(`(?i)` + w.but)
		}
		for _, x := range texts {
			says := x.says
			if but != nil {
				says = but.ReplaceAllString(says, "")
			}
			if found := avoid.FindString(says); found != "" {
				t.Errorf("%s says %q; say %s:\n\t%s", x.where, found, w.say, strings.TrimSpace(x.says))
			}
		}
	}
}

// ofClusterAPI are the folders in which a Machine is Cluster API's kind.
var ofClusterAPI = regexp.MustCompile(`/(?:capi|clusterapi|infra)/|/clusterapi\.go$|internal/local/(?:machines|command)\.go$`)

// TestNamesInCode holds the names of declarations against those of the table that are about code.
func TestNamesInCode(t *testing.T) {
	avoid := regexp.MustCompile(`(?i)^(?:pocket|machines?|purses?|brakes?|strikes?|musters?|census|speakers?|bouncers?|foresight|lessons?|leaning)$`)
	part := regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
	declared := func(set *token.FileSet, name *ast.Ident) {
		for _, p := range part.FindAllString(name.Name, -1) {
			if strings.EqualFold(strings.TrimSuffix(strings.ToLower(p), "s"), "machine") && ofClusterAPI.MatchString(set.Position(name.Pos()).Filename) {
				continue
			}
			if avoid.MatchString(p) {
				t.Errorf("%v: the name %s has %q in it: see the table of words in words_test.go", set.Position(name.Pos()), name.Name, p)
			}
		}
	}
	each(t, []string{"internal", "cloud", "cmd", "api", "examples", "test"}, func(set *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.FuncDecl:
				declared(set, x.Name)
			case *ast.TypeSpec:
				declared(set, x.Name)
			case *ast.Field:
				for _, name := range x.Names {
					declared(set, name)
				}
			case *ast.ValueSpec:
				for _, name := range x.Names {
					declared(set, name)
				}
			case *ast.AssignStmt:
				for _, left := range x.Lhs {
					if name, ok := left.(*ast.Ident); ok {
						declared(set, name)
					}
				}
			}
			return true
		})
	})
}

// lines are those of pages, charts, manifests and the dashboard.
func lines(t *testing.T) []text {
	t.Helper()
	files := pages(t)
	for _, folder := range []string{"charts", "deploy", "examples", "api/crds", "internal/web/page"} {
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(folder)), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && slices.Contains([]string{".yaml", ".txt", ".tpl", ".js", ".html"}, filepath.Ext(path)) {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var out []text
	for _, file := range files {
		for i, line := range strings.Split(read(t, file), "\n") {
			out = append(out, text{fmt.Sprintf("%s:%d", file, i+1), line})
		}
	}
	return out
}

// literals are the strings of the program: help, events, logs, conditions, answers.
func literals(t *testing.T) (out []text) {
	t.Helper()
	each(t, []string{"internal", "cloud", "cmd", "api", "examples"}, func(set *token.FileSet, file *ast.File) {
		if strings.HasSuffix(set.Position(file.Pos()).Filename, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if _, ok := n.(*ast.ImportSpec); ok {
				return false
			}
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if says, err := strconv.Unquote(literal.Value); err == nil {
				out = append(out, text{set.Position(literal.Pos()).String(), says})
			}
			return true
		})
	})
	return out
}

// each parses the Go files of folders.
func each(t *testing.T, folders []string, see func(*token.FileSet, *ast.File)) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
			if err == nil {
				see(set, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
