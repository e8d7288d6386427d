package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTreeFollowsTheRules(t *testing.T) {
	packages, err := List("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 5 {
		t.Fatalf("go list found only %d packages", len(packages))
	}
	found, err := Check(packages, Rules)
	if err != nil {
		t.Fatal(err)
	}
	names, err := CheckNames(packages, Leaks)
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range slices.Concat(found, CheckClosures(packages, Closures), names) {
		t.Error(breach)
	}
}

// A cloud that is named outside its provider is found, as an identifier, in a text and in an import; in a comment, in its home, and where
// it is allowed it is not.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	source := "package x\n\nimport _ \"karpenter/api/aws/v1\"\n\n// EC2 is named here.\nvar loadAWS = \"karpenter.k8s.aws/instance-family\"\n\nvar draws, raw, laws = \"what it draws\", \"kubernetes.io/aws-ebs\", `an EC2NodeClass`\n"
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	pkg := func(path string) []Package {
		return []Package{{ImportPath: "karpenter/" + path, Dir: dir, GoFiles: []string{"a.go"}}}
	}
	leaks := []Leak{{Name: Leaks[0].Name, Homes: Leaks[0].Homes, Allowed: []Allowed{{"internal/control/a.go", regexp.MustCompile(`aws-ebs`), "r"}}}}
	for path, want := range map[string][]string{
		"internal/control":         {"a.go:3", "a.go:6", "a.go:6", "a.go:8"},
		"internal/state":           {"a.go:3", "a.go:6", "a.go:6", "a.go:8", "a.go:8"},
		"internal/cloud/aws/class": nil,
		"test/e2e":                 nil,
	} {
		found, err := CheckNames(pkg(path), leaks)
		if err != nil || len(found) != len(want) {
			t.Errorf("%s: found %q, %v; want %q", path, found, err, want)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(found[i], path+"/"+want[i]+":") {
				t.Errorf("%s: found %q, want it at %s", path, found[i], want[i])
			}
		}
	}
	for _, leak := range Leaks {
		for _, h := range leak.Homes {
			if h.Reason == "" {
				t.Errorf("the home %s has no reason", h.Package)
			}
		}
		for _, a := range leak.Allowed {
			if _, err := os.Stat("../../" + a.File); err != nil || a.Reason == "" {
				t.Errorf("the exception for %s has no reason, or there is no such file: %v", a.File, err)
			}
		}
	}
}

// A package that a program must not hold is found also where it comes in by another one.
func TestClosures(t *testing.T) {
	packages := []Package{
		{ImportPath: "karpenter/cmd/controller", Imports: []string{"fmt", "karpenter/internal/operator"}},
		{ImportPath: "karpenter/internal/operator", Imports: []string{"karpenter/internal/web", "karpenter/api/x"}},
		{ImportPath: "karpenter/internal/web", Imports: []string{"karpenter/internal/cloud/simaws/catalog"}},
		{ImportPath: "karpenter/api/x"},
	}
	closures := []Closure{{Package: "cmd/controller", Never: []string{"internal/cloud/simaws/...", "internal/local/..."}, Reason: "small"}, {Package: "cmd/other", Reason: "r"}}
	want := []string{
		"cmd/controller must not hold internal/cloud/simaws/catalog (small): cmd/controller → internal/operator → internal/web → internal/cloud/simaws/catalog",
		"cmd/other: there is no such program",
	}
	if got := CheckClosures(packages, closures); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRulesNameTheirReason(t *testing.T) {
	for _, rule := range Rules {
		if rule.Reason == "" {
			t.Errorf("the rule for %s has no reason", rule.Package)
		}
	}
}

func TestCheckFindsBreaches(t *testing.T) {
	dir := t.TempDir()
	source := "package pack\n\nimport (\n\tclock \"time\"\n\n\t\"k8s.io/api/core/v1\"\n)\n\nvar _ = v1.Pod{}\nvar t = clock.Now()\n"
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		pkg  Package
		want string // empty: no breach
	}{
		{"engine imports Kubernetes", Package{ImportPath: "karpenter/internal/engine/pack", Imports: []string{"k8s.io/api/core/v1"}}, "may not import k8s.io/api/core/v1"},
		{"engine imports state", Package{ImportPath: "karpenter/internal/engine/pack", Imports: []string{"karpenter/internal/state"}}, "may not import karpenter/internal/state"},
		{"pack imports disrupt", Package{ImportPath: "karpenter/internal/engine/pack", Imports: []string{"karpenter/internal/engine/disrupt"}}, "may not import"},
		{"disrupt imports pack", Package{ImportPath: "karpenter/internal/engine/disrupt", Imports: []string{"karpenter/internal/engine/pack", "sort"}}, ""},
		{"the SDK outside the provider", Package{ImportPath: "karpenter/internal/control", Imports: []string{"github.com/aws/aws-sdk-go-v2/aws"}}, "may not import github.com/aws"},
		{"the SDK in the provider", Package{ImportPath: "karpenter/internal/cloud/aws", Imports: []string{"github.com/aws/aws-sdk-go-v2/aws"}}, ""},
		{"a reconciler knows the interface of clouds", Package{ImportPath: "karpenter/internal/control/claim", Imports: []string{"karpenter/cloud"}}, ""},
		{"and no cloud", Package{ImportPath: "karpenter/internal/control/claim", Imports: []string{"karpenter/internal/cloud/aws"}}, "may not import karpenter/internal/cloud/aws"},
		{"nor a cloud's conformance suite", Package{ImportPath: "karpenter/internal/control/claim", Imports: []string{"karpenter/cloud/cloudtest"}}, "may not import"},
		{"the interface imports what is below it", Package{ImportPath: "karpenter/cloud", Imports: []string{"karpenter/internal/cloud/simaws"}}, "may not import"},
		{"simaws with the SDK", Package{ImportPath: "karpenter/internal/cloud/simaws", Imports: []string{"github.com/aws/aws-sdk-go-v2/aws"}}, "may not import"},
		{"a package without a rule", Package{ImportPath: "karpenter/internal/utils"}, "no rule covers"},
		{"a prefix is not a parent", Package{ImportPath: "karpenter/internal/control", Imports: []string{"karpenter/internal/statement"}}, "may not import"},
		{"the clock under another name", Package{ImportPath: "karpenter/internal/engine/pack", Dir: dir, GoFiles: []string{"a.go"}}, "time.Now is banned here"},
		{"another module's package", Package{ImportPath: "example.com/x", Imports: []string{"karpenter/internal/state"}}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found, err := Check([]Package{c.pkg}, Rules)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(found, "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want it to contain %q", got, c.want)
			}
		})
	}
}
