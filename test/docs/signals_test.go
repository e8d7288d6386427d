package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources are the files of internal/, without tests, parsed, by path.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		files[filepath.ToSlash(path)] = file
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A metric that nothing records is a promise on the page and a hole in a dashboard.
func TestO1_O48_EveryMetricIsRecorded(t *testing.T) {
	names := constants(t, filepath.Join(root, "internal", "meter"))
	used := map[string]bool{}
	for path, file := range sources(t) {
		if strings.Contains(path, "/internal/meter/") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "meter" {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
	}
	// recorded by the package itself, or there for alerts only
	for _, name := range []string{"Refused", "DisruptionConsolidationTimeouts"} {
		used[name] = true
	}
	page := read(t, filepath.Join(root, "docs", "reference", "metrics.md"))
	for name, value := range names {
		if !used[name] && strings.Contains(page, value+"`") {
			t.Errorf("%s (%s) is documented and recorded by nobody", value, name)
		}
	}
}

// reasonsTold are the reasons of events in the code: those of control.Event literals, and constants that are named as such.
func reasonsTold(t *testing.T) (told map[string]bool, words map[string]bool) {
	told, words = map[string]bool{}, map[string]bool{}
	reason := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	for path, file := range sources(t) {
		tells := strings.Contains(path, "/internal/control/") || strings.Contains(path, "/class/") // elsewhere the word means other things
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(x.Value); err == nil {
					words[text] = true
				}
			case *ast.ValueSpec:
				for i, name := range x.Names {
					lit, ok := valueAt(x, i).(*ast.BasicLit)
					if ok && tells && (strings.HasPrefix(name.Name, "event") || strings.HasPrefix(name.Name, "Event")) {
						if text, err := strconv.Unquote(lit.Value); err == nil && reason.MatchString(text) {
							told[text] = true
						}
					}
				}
			case *ast.CompositeLit:
				if s, ok := x.Type.(*ast.SelectorExpr); !ok || s.Sel.Name != "Event" {
					return true
				}
				for _, element := range x.Elts {
					pair, ok := element.(*ast.KeyValueExpr)
					if !ok {
						continue
					}
					lit, ok := pair.Value.(*ast.BasicLit)
					if key, named := pair.Key.(*ast.Ident); ok && named && key.Name == "Reason" {
						if text, err := strconv.Unquote(lit.Value); err == nil {
							told[text] = true
						}
					}
				}
			}
			return true
		})
	}
	return told, words
}

func valueAt(spec *ast.ValueSpec, i int) ast.Expr {
	if i < len(spec.Values) {
		return spec.Values[i]
	}
	return nil
}

func TestO49_EventsAndTheirPageAreTheSame(t *testing.T) {
	page := read(t, filepath.Join(root, "docs", "reference", "events.md"))
	told, words := reasonsTold(t)
	for reason := range told {
		if !strings.Contains(page, "`"+reason+"`") {
			t.Errorf("event %s is not in docs/reference/events.md", reason)
		}
	}
	api := map[string]bool{}
	for _, dir := range []string{"api/karpenter/v1", "api/aws/v1", "api/capi/v1alpha1"} {
		for _, value := range constants(t, filepath.Join(root, filepath.FromSlash(dir))) {
			api[value] = true
		}
	}
	cell := regexp.MustCompile("(?m)^\\| ((?:`[A-Za-z]+`(?:, )?)+) \\|")
	var checked []string
	for _, row := range cell.FindAllStringSubmatch(page, -1) {
		for _, reason := range strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ") {
			checked = append(checked, reason)
			if !words[reason] && !api[reason] {
				t.Errorf("docs/reference/events.md has %s, which nothing in the code says", reason)
			}
		}
	}
	if slices.Sort(checked); len(checked) < 20 {
		t.Errorf("only %v are found on the page", checked)
	}
}

// What deletes nodes, holds pools back or waits is on one page, with the value that it has.
func TestB1_TimersAreDocumented(t *testing.T) {
	page := read(t, filepath.Join(root, "docs", "operate", "timers.md"))
	for _, timer := range []struct{ file, code, text string }{
		{"internal/engine/life/claim.go", "Launch: 5 * time.Minute, Register: 15 * time.Minute, Initialize: 30 * time.Minute", "| no instance | 5 min after"},
		{"internal/engine/life/claim.go", "Register: 15 * time.Minute", "| no node | 15 min after"},
		{"internal/operator/settings.go", `Env: "INITIALIZATION_TIMEOUT", ID: "ours", Default: "30m"`, "| node not usable | 30 min after"},
		{"internal/engine/life/expiry.go", "jitterShare = 20", "up to 5 % of it"},
		{"internal/engine/life/expiry.go", "jitterMost  = 6 * time.Hour", "at most 6 h early"},
		{"internal/engine/life/health.go", "{0, 0, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}", "after 2 failures in a row 1 min, then 5 min, 15 min, 1 h"},
		{"internal/control/claim/collect.go", "collectEvery = 2 * time.Minute", "looked at every 2 min"},
		{"internal/engine/life/inventory.go", "proof = time.Minute", "two looks at least 1 min apart"},
		{"internal/engine/life/inventory.go", "heldProof = 30 * time.Minute", "believed after 30 min"},
		{"internal/engine/life/inventory.go", "longProof = 10 * time.Minute", "an empty one where one is expected after 10 min"},
		{"internal/engine/life/reboot.go", "rebootWindow = 20 * time.Minute", "the node may take 20 min to come back"},
		{"internal/engine/life/reboot.go", "rebootRetry    = 5 * time.Minute", "EC2 is asked for up to 5 min"},
		{"internal/engine/life/reboot.go", "rebootDay  = 24 * time.Hour", "At most 2 reboots in 24 h"},
		{"internal/engine/disrupt/repair.go", "repairShare = 5", "more than a fifth of the pool, rounded up"},
		{"internal/control/quota.go", "quotaWindow = 10 * time.Minute", "a tenth of the nodes in ten minutes"},
		{"internal/control/disruption/breaker.go", "longHold  = time.Hour", "1 h after the third"},
		{"internal/control/disruption/calm.go", "maxWait = 5 * time.Minute", "every 5 min it has its turn"},
		{"internal/control/disruption/advance.go", "leastPatience = 10 * time.Minute", "| replacement does not come up | 10 min to 1 h"},
		{"internal/state/mirror.go", "assumeFor  = 5 * time.Minute", "| a claim that was created and that no watch has shown | 5 min |"},
		{"internal/control/provision/doubt.go", "absentFor = 4 * time.Second", "planned anew after 4 s"},
		{"internal/control/provision/pins.go", "maxPin = 20 * time.Minute", "at most 20 min"},
		{"internal/engine/life/evict.go", "stuckAfter = time.Minute", "1 min beyond its grace period"},
		{"internal/control/drain/claims.go", "unlaunchedPatience = 5 * time.Minute", "before it has an instance on record | 5 min |"},
	} {
		if !strings.Contains(read(t, filepath.Join(root, filepath.FromSlash(timer.file))), timer.code) {
			t.Errorf("%s does not say %q any more: change docs/operate/timers.md and this test with it", timer.file, timer.code)
		}
		if !strings.Contains(page, timer.text) {
			t.Errorf("docs/operate/timers.md does not say %q", timer.text)
		}
	}
}
