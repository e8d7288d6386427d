package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// whatIfOf runs plan -f on the fixture.
func whatIfOf(t *testing.T, f *fixture, manifest string, args ...string) (string, error) {
	t.Helper()
	snapshot, catalog := f.write()
	out, messages, err := execute(t, newPlan(atNoon), append([]string{"--snapshot", snapshot, "--catalog", catalog, "-f", manifest}, args...)...)
	if messages != "" {
		t.Logf("it said: %s", messages)
	}
	return out, err
}

func TestPlanSaysWhatAChangeComesTo(t *testing.T) {
	for _, name := range []string{
		"new-deployment", "scale-up", "scale-down", "same-pool", "pool-label", "pool-zone", "pool-spot", "limits", "no-budget", "budget", "prices", "v1beta1",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := whatIfOf(t, newFixture(t), filepath.Join("testdata", "whatif", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "whatif", name+".txt"), out)
		})
	}
}

func TestPlanWritesAChangeForPullRequests(t *testing.T) {
	out, err := whatIfOf(t, newFixture(t), filepath.Join("testdata", "whatif", "pool-zone.yaml"), "-o", "markdown")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/whatif/pool-zone.md", out)
}

func TestPlanWritesAChangeForPrograms(t *testing.T) {
	out, err := whatIfOf(t, newFixture(t), filepath.Join("testdata", "whatif", "new-deployment.yaml"), "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/whatif/new-deployment.json", indented(t, out))
}

// indented makes JSON readable, without where it was read from.
func indented(t *testing.T, text string) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	delete(v, "from")
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}

func TestPlanEndsWithACodeForPipelines(t *testing.T) {
	for _, x := range []struct {
		name, manifest string
		args           []string
		want           int
		words          string
	}{
		{"no change", "same-pool", []string{"--detailed-exitcode"}, 0, ""},
		{"a change", "new-deployment", []string{"--detailed-exitcode"}, ExitChanges, ""},
		{"a change that is not asked about", "new-deployment", nil, 0, ""},
		{"too dear", "new-deployment", []string{"--max-increase", "10", "--detailed-exitcode"}, ExitTooDear, "--max-increase allows $10.00"},
		{"dear enough", "new-deployment", []string{"--max-increase", "100000"}, 0, ""},
		{"cheaper", "scale-down", []string{"--max-increase", "0"}, 0, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := whatIfOf(t, newFixture(t), filepath.Join("testdata", "whatif", x.manifest+".yaml"), x.args...)
			if got := ExitCode(err); got != x.want {
				t.Errorf("ended with %d (%v), want %d", got, err, x.want)
			}
			if x.words != "" && !strings.Contains(err.Error(), x.words) {
				t.Errorf("said %q, want %q in it", err, x.words)
			}
		})
	}
}

func TestPlanRefusesManifestsThatMakeNoSense(t *testing.T) {
	for _, x := range []struct{ name, manifest, want string }{
		{"a misspelled field", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replica: 3}}", `Deployment default/x: unknown field`},
		{"no containers", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replicas: 3}}", "spec.template.spec.containers is empty"},
		{"no YAML", "a: b: c", "document 1"},
		{"no kind", "metadata: {name: x}", "kind is missing"},
		{"a price below zero", "{kind: Prices, prices: [{instanceType: m5.large, price: -1}]}", "-1 is no price"},
		{"a price without meaning", "{kind: Prices, prices: [{instanceType: m5.large}]}", "says nothing; give price, factor or unavailable"},
		{"a pool with a bad requirement", `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: x}, spec: {template: {spec: {
			nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [{key: karpenter.sh/capacity-type, operator: In, values: []}]}}}}`, "NodePool x"},
	} {
		t.Run(x.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "manifest.yaml")
			if err := os.WriteFile(file, []byte(x.manifest), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := whatIfOf(t, newFixture(t), file); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("said %v, want %q in it", err, x.want)
			}
		})
	}
	if _, err := whatIfOf(t, newFixture(t), "testdata/whatif", "--consolidate"); err == nil {
		t.Error("-f and --consolidate are taken together")
	}
}

func TestPlanUsesTheBuiltInCatalogue(t *testing.T) {
	f := newFixture(t)
	f.pods("late", 1, "1", "1Gi", "")
	f.add(`{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}]}}`)
	snapshot, _ := f.write()
	out, messages, err := execute(t, newPlan(atNoon), "--snapshot", snapshot, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(messages, "prices are the built-in list of 20") || !strings.Contains(messages, "us-west-2") {
		t.Errorf("it said %q, want the day of the price list and the region", messages)
	}
	var r planReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Placed != 1 {
		t.Errorf("%d pods placed: %s", r.Placed, out)
	}
	t.Run("a class that changes makes its nodes drift", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "class.yaml")
		class := `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}],
			subnetSelectorTerms: [{id: subnet-1234}], securityGroupSelectorTerms: [{id: sg-1234}], detailedMonitoring: true}}`
		if err := os.WriteFile(file, []byte(class), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _, err := execute(t, newPlan(atNoon), "--snapshot", snapshot, "-f", file, "-o", "json")
		if err != nil {
			t.Fatal(err)
		}
		var r whatIf
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Drift) != 3 || r.Drift[0].Reason != "NodeClassDrift" || r.Evicts < 7 {
			t.Errorf("drift %+v and %d restarts, want all three nodes", r.Drift, r.Evicts)
		}
	})
}

func TestPlanPutsWhatNamesNoNamespaceIntoTheOneGiven(t *testing.T) {
	file := filepath.Join("testdata", "whatif", "new-deployment.yaml")
	out, err := whatIfOf(t, newFixture(t), file, "--namespace", "shop")
	if err != nil || !strings.Contains(out, "Deployment shop/") {
		t.Errorf("%v\n%s", err, out)
	}
	other := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(other, []byte("{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: pay}, spec: {containers: [{name: c, image: i}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := whatIfOf(t, newFixture(t), other, "-n", "shop"); err == nil || !strings.Contains(err.Error(), "Pod pay/x is in namespace pay, and --namespace is shop") {
		t.Errorf("two namespaces: %v", err)
	}
	if _, err := whatIfOf(t, newFixture(t), file, "--delete", "deployment/nosuch"); err == nil || !strings.Contains(err.Error(), "Deployment default/nosuch is to be deleted") {
		t.Errorf("nothing to delete: %v", err)
	}
}

// TestEstimatesAreMarked: prices that only this program knows of are told from those of a controller, wherever they stand.
func TestEstimatesAreMarked(t *testing.T) {
	snapshot, catalog := newFixture(t).write()
	file := filepath.Join("testdata", "whatif", "new-deployment.yaml")
	const what = "Prices are estimates (≈): the built-in list of "
	for name, args := range map[string][]string{
		"plan": {}, "consolidate": {"--consolidate"}, "a change": {"-f", file}, "a change for pull requests": {"-f", file, "-o", "markdown"},
	} {
		out, _, err := execute(t, newPlan(atNoon), append([]string{"--snapshot", snapshot}, args...)...)
		if err != nil || !strings.Contains(out, what) || !strings.Contains(out, "≈$") && !strings.Contains(out, "≈+") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		out, _, err = execute(t, newPlan(atNoon), append([]string{"--snapshot", snapshot, "--catalog", catalog}, args...)...)
		if err != nil || strings.Contains(out, "≈") || strings.Contains(out, "estimates") {
			t.Errorf("%s, with prices of its own: %v\n%s", name, err, out)
		}
	}
	if out, _, err := execute(t, newPlan(atNoon), "--snapshot", snapshot, "-f", file, "-o", "json"); err != nil || !strings.Contains(out, `"estimate":"built-in list of `) {
		t.Errorf("for programs: %v\n%s", err, out)
	}
	if _, _, err := execute(t, newPlan(atNoon), "--snapshot", snapshot, "-f", file, "--max-increase", "0"); err == nil || !strings.Contains(err.Error(), "costs ≈$") {
		t.Errorf("too dear: %v", err)
	}
}
