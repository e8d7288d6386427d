package convert

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"karpenter/test/conversion/sample"
)

func mustConvert(t rapid.TB, in tree, version string) tree {
	t.Helper()
	before := clone(in)
	kind, _ := in["kind"].(string)
	out, err := Object(in, groupVersion(kind, version), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, in); diff != "" {
		t.Fatalf("the input was changed:\n%s", diff)
	}
	return out
}

// read converts, and reads the result as the API server does.
func read(t rapid.TB, in tree, version string) tree {
	t.Helper()
	return defaulted(mustConvert(t, in, version))
}

type tree = map[string]any

func groupVersion(kind, version string) string { return converters[kind].group + "/" + version }

func pick[V any](t *rapid.T, label string, values ...V) V {
	return rapid.SampledFrom(values).Draw(t, label)
}

// remains returns the annotations of this package's that an object carries.
func remains(object tree) []string {
	annotations, _ := object["metadata"].(tree)["annotations"].(tree)
	var out []string
	for _, name := range sortedKeys(annotations) {
		if strings.HasPrefix(name, "compatibility.") {
			out = append(out, name)
		}
	}
	return out
}

// served is a random object as the API server has it.
func served(t *rapid.T, kind, version string) tree {
	return defaulted(sample.Object(t, kind, version))
}

// defaulted does what the API server does when it reads a v1 object from etcd: it writes out the defaults.
func defaulted(object tree) tree {
	spec := node{tree: object["spec"].(tree)}
	if !strings.HasSuffix(object["apiVersion"].(string), "/"+versionV1) {
		return object
	}
	at := func(path ...string) node {
		out := spec
		for _, step := range path {
			out, _ = out.ensure(step)
		}
		return out
	}
	switch object["kind"] {
	case nodeClassKind:
		_ = fillOptions(spec, v1HopLimit)
	case claimKind:
		spec.fill("expireAfter", defaultExpireAfter)
	case poolKind:
		at("template", "spec").fill("expireAfter", defaultExpireAfter)
		at("disruption").fill("consolidationPolicy", policyV1Underutil)
		at("disruption").fill("consolidateAfter", defaultConsolidateAfter)
		at("disruption").fill("budgets", []any{tree{"nodes": defaultBudgetNodes}})
	}
	return object
}

// An object without its defaults, which is part of one, keeps all that it has.
func TestRoundTrip_OfPart(t *testing.T) {
	for _, kind := range sample.Kinds() {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := sample.Object(t, kind, versionV1)
				back := mustConvert(t, mustConvert(t, in, versionBeta), versionV1)
				has := parts(back["spec"].(tree))
				for path, value := range parts(in["spec"].(tree)) {
					if diff := cmp.Diff(value, has[path]); diff != "" && path != "disruption" && path != "metadataOptions" {
						t.Fatalf("%s (-before +after):\n%s", path, diff)
					}
				}
			})
		})
	}
}

func TestRoundTrip_LosesNothing(t *testing.T) {
	for _, kind := range sample.Kinds() {
		for from, to := range map[string]string{versionBeta: versionV1, versionV1: versionBeta} {
			t.Run(kind+" from "+from, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					in := served(t, kind, from)
					there := read(t, in, to)
					back := read(t, there, from)
					if diff := cmp.Diff(in, back); diff != "" {
						t.Fatalf("there and back (-before +after):\n%s\nbetween: %v", diff, there)
					}
				})
			})
		}
	}
}

// A conversion webhook may change annotations, spec and status, and nothing else.
func TestRoundTrip_OnlySpecAndAnnotationsChange(t *testing.T) {
	for _, kind := range sample.Kinds() {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				from := pick(t, "from", versionV1, versionBeta)
				in := served(t, kind, from)
				out := read(t, in, map[string]string{versionV1: versionBeta, versionBeta: versionV1}[from])
				for _, object := range []tree{in, out} {
					delete(object, "apiVersion")
					delete(object, "spec")
					delete(object["metadata"].(tree), "annotations")
				}
				if diff := cmp.Diff(in, out); diff != "" {
					t.Fatal(diff)
				}
			})
		})
	}
}

// What is written in one version, edited in the other and read again shows the edit, whatever annotations say: reading
// the object gives the same meaning as converting the edited spec alone.
func TestEdit_AlwaysWins(t *testing.T) {
	for _, kind := range sample.Kinds() {
		for from, to := range map[string]string{versionBeta: versionV1, versionV1: versionBeta} {
			t.Run(kind+" written in "+from, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { checkEdit(t, kind, from, to) })
			})
		}
	}
}

func checkEdit(t *rapid.T, kind, from, to string) {
	there := read(t, served(t, kind, from), to)
	edited := edit(t, there, served(t, kind, to))
	back := read(t, edited, from)

	c := converters[kind]
	forth, reverse := c.up, c.down
	if from == versionV1 {
		forth, reverse = c.down, c.up
	}
	plain, err := translated(edited["spec"].(tree), reverse)
	if err != nil {
		t.Fatal(err)
	}
	want, err := translated(plain, forth)
	if err != nil {
		t.Fatal(err)
	}
	got, err := translated(back["spec"].(tree), forth)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the edit was lost (-edited +read back):\n%s\nedited: %v\nread: %v", diff, edited, back)
	}
	// And the editor's own view does not change by a reader in the other version having written it back unchanged.
	again := read(t, back, to)
	if diff := cmp.Diff(edited["spec"], again["spec"]); diff != "" {
		t.Fatalf("written back unchanged (-before +after):\n%s\nbetween: %v", diff, back)
	}
}

// edit replaces some parts of an object's spec by those of another.
func edit(t *rapid.T, object, other tree) tree {
	spec := object["spec"].(tree)
	mine, theirs := parts(spec), parts(other["spec"].(tree))
	for path := range mine {
		theirs[path] = slot(theirs, path).value
	}
	for _, path := range sortedKeys(theirs) {
		if rapid.IntRange(0, 3).Draw(t, "edit "+path) == 0 {
			spec = withPart(spec, path, theirs[path], theirs[path] != nil)
		}
	}
	object["spec"] = spec
	return object
}

// The translations are each other's inverse on everything that the other one makes; restore depends on it.
func TestTranslations_SettleAfterOneRound(t *testing.T) {
	for _, kind := range sample.Kinds() {
		c := converters[kind]
		for from, pair := range map[string][2]translate{versionBeta: {c.up, c.down}, versionV1: {c.down, c.up}} {
			t.Run(kind+" from "+from, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					spec := served(t, kind, from)["spec"].(tree)
					steps := []tree{}
					for _, do := range []translate{pair[0], pair[1], pair[0]} {
						var err error
						if spec, err = translated(spec, do); err != nil {
							t.Fatal(err)
						}
						steps = append(steps, spec)
					}
					if diff := cmp.Diff(steps[0], steps[2]); diff != "" {
						t.Fatal(diff)
					}
				})
			})
		}
	}
}

// Nothing that a person may have put into the annotations stops or bends a conversion.
func TestRestore_ForeignAnnotations(t *testing.T) {
	names := []string{KubeletAnnotation, ClassRefAnnotation, UbuntuAnnotation, AliasVersionAnnotation, BetaSpecAnnotation, SpecAnnotation}
	texts := []string{
		"", "null", "[]", "{", `"x"`, `{"template":3}`, `{"template.spec":{"nodeClassRef":7}}`, `{"disruption":"x"}`, `{"disruption":{"budgets":[1]}}`,
		`{"amiSelectorTerms":[{"alias":"x"}]}`, `{"amiFamily":5}`, `{"a.b.c":1}`, `{"":1}`, "amiFamily,incompatible", `{"name":4}`,
	}
	for _, kind := range sample.Kinds() {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				from := pick(t, "from", versionV1, versionBeta)
				to := map[string]string{versionV1: versionBeta, versionBeta: versionV1}[from]
				in := served(t, kind, from)
				clean := read(t, in, to)
				in["metadata"].(tree)["annotations"] = tree{rapid.SampledFrom(names).Draw(t, "name"): rapid.SampledFrom(texts).Draw(t, "text")}
				out := read(t, in, to)
				back := converters[kind].down
				if to == versionBeta {
					back = converters[kind].up
				}
				want, _ := translated(clean["spec"].(tree), back)
				got, err := translated(out["spec"].(tree), back)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("an annotation changed the meaning:\n%s", diff)
				}
			})
		})
	}
}
