package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	karpv1 "karpenter/api/karpenter/v1"
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
		"new-deployment", "scale-up", "scale-down", "same-pool", "pool-label", "pool-zone", "pool-spot", "limits", "no-budget", "budget", "prices", "v1beta1", "apart", "overlay",
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
		{"an overlay with two prices", `{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: x}, spec: {requirements: [], price: "1", priceAdjustment: "+1"}}`, "NodeOverlay x: spec.priceAdjustment: Forbidden: cannot be used together with spec.price; remove one of the two"},
		{"an overlay of CPU", `{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: x}, spec: {requirements: [], capacity: {cpu: "4"}}}`, "NodeOverlay x: spec.capacity[cpu]: Forbidden: comes with the instance type"},
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

// TestPlanTakesTheNamespaceOfTheContext: as kubectl does, for manifests and for what is deleted.
func TestPlanTakesTheNamespaceOfTheContext(t *testing.T) {
	var asked []string
	workloads := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if !strings.HasSuffix(r.URL.Path, "/idle") {
			http.NotFound(w, r)
		}
	})
	config := kubeconfigOf(t, apiServer(t, map[string]http.Handler{"/apis/apps/v1/namespaces/": workloads}))
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, bytes.Replace(text, []byte(`"user": "u"`), []byte(`"user": "u", "namespace": "shop"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, catalog := newFixture(t).write()
	run := func(args ...string) (string, error) {
		out, _, err := execute(t, newPlan(atNoon), append([]string{"--kubeconfig", config, "--offline", "--catalog", catalog}, args...)...)
		return out, err
	}
	file := filepath.Join("testdata", "whatif", "new-deployment.yaml")
	if out, err := run("-f", file); err != nil || !strings.Contains(out, "Deployment shop/") {
		t.Errorf("the context's namespace: %v\n%s", err, out)
	}
	if out, err := run("-f", file, "-n", "pay"); err != nil || !strings.Contains(out, "Deployment pay/") {
		t.Errorf("a namespace that is given: %v\n%s", err, out)
	}
	if _, err := run("--delete", "deployment/idle"); err != nil {
		t.Errorf("a Deployment without pods: %v", err)
	}
	if _, err := run("--delete", "deployment/nosuch"); err == nil || !strings.Contains(err.Error(), "Deployment shop/nosuch is to be deleted, and the cluster has none") {
		t.Errorf("a Deployment that is not there: %v", err)
	}
	if want := []string{"/apis/apps/v1/namespaces/shop/deployments/idle", "/apis/apps/v1/namespaces/shop/deployments/nosuch"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

// TestEstimatesAreMarked: prices that only this program knows of are told from those of a controller, wherever they stand.
func TestEstimatesAreMarked(t *testing.T) {
	f := newFixture(t)
	f.pods("late", 2, "1", "1Gi", "")
	f.pool.Annotations = map[string]string{karpv1.NodeCostAnnotationKey: "0.01"}
	snapshot, catalog := f.write()
	file := filepath.Join("testdata", "whatif", "new-deployment.yaml")
	bare := regexp.MustCompile(`(^|[^≈])\$(\d|/[hH]\b|/month|/MONTH)`)
	const what, node = "Prices are estimates (≈): the built-in list of ", "ip-10-0-1-33.us-west-2.compute.internal"
	for _, x := range []struct {
		name    string
		command func() *cobra.Command
		args    []string
		says    string
	}{
		{"plan", nil, nil, what},
		{"consolidate", nil, []string{"--consolidate"}, what},
		{"a change", nil, []string{"-f", file}, what},
		{"a change for pull requests", nil, []string{"-f", file, "-o", "markdown"}, what},
		{"explain", newExplainAtNoon, []string{"pool/general"}, what},
		{"explain of a node", newExplainAtNoon, []string{"node/" + node}, what},
		{"explain as a tree", newExplainAtNoon, []string{"node/" + node, "-o", "tree"}, what},
		{"top", func() *cobra.Command { return newTop(atNoon) }, []string{"--once", "--width", "300"}, "≈$/H"},
	} {
		t.Run(x.name, func(t *testing.T) {
			command := x.command
			if command == nil {
				command = func() *cobra.Command { return newPlan(atNoon) }
			}
			out, _, err := execute(t, command(), append([]string{"--snapshot", snapshot}, x.args...)...)
			if err != nil || !strings.Contains(out, x.says) || !strings.Contains(out, "≈$") {
				t.Errorf("%v\n%s", err, out)
			}
			for _, line := range strings.Split(out, "\n") {
				// A heading of pull requests has the sign after the figure, which is marked.
				if bare.MatchString(line) && !strings.HasPrefix(line, "### Karpenter plan: ") {
					t.Errorf("a price without a mark: %s", line)
				}
			}
			if strings.Contains(out, "≈≈") {
				t.Errorf("marked twice:\n%s", out)
			}
			out, _, err = execute(t, command(), append([]string{"--snapshot", snapshot, "--catalog", catalog}, x.args...)...)
			if err != nil || strings.Contains(out, "≈") || strings.Contains(out, "estimates") {
				t.Errorf("with prices of its own: %v\n%s", err, out)
			}
		})
	}
	for name, command := range map[string]*cobra.Command{"plan": newPlan(atNoon), "explain": newExplainAtNoon(), "top": newTop(atNoon)} {
		args := map[string][]string{"plan": {"-f", file}, "explain": {"pool/general"}}[name]
		out, _, err := execute(t, command, append(args, "--snapshot", snapshot, "-o", "json")...)
		var answer struct{ Estimate string }
		if err != nil || json.Unmarshal([]byte(out), &answer) != nil || !strings.HasPrefix(answer.Estimate, "built-in list of ") {
			t.Errorf("%s for programs: %v\n%s", name, err, out)
		}
	}
	if _, _, err := execute(t, newPlan(atNoon), "--snapshot", snapshot, "-f", file, "--max-increase", "0"); err == nil || !strings.Contains(err.Error(), "costs ≈$") {
		t.Errorf("too dear: %v", err)
	}
}

func newExplainAtNoon() *cobra.Command {
	e := &explaining{}
	e.source.now = atNoon
	return e.command()
}

// TestPricesOfAnotherRegionAreSaidToBe: of GovCloud and China there is no list of prices. The one that is used instead is named, and nodes
// are planned all the same.
func TestPricesOfAnotherRegionAreSaidToBe(t *testing.T) {
	f := newFixture(t)
	f.pods("late", 2, "2", "1Gi", "")
	snapshot, _ := f.write()
	text, err := os.ReadFile(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, region := range []string{"us-gov-west-1", "cn-north-1"} {
		if err := os.WriteFile(snapshot, bytes.ReplaceAll(text, []byte("us-west-2"), []byte(region)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, messages, err := execute(t, newPlan(atNoon), "--snapshot", snapshot)
		if want := " for us-east-1, as those of " + region + " are not known"; err != nil || !strings.Contains(messages, want) || !strings.Contains(out, want+".\n") {
			t.Errorf("%s: %v\n%s\n%s", region, err, messages, out)
		}
		if !strings.Contains(out, " "+region+"a ") && !strings.Contains(out, " "+region+"b ") || !strings.Contains(out, "2 placed, 0 unschedulable") {
			t.Errorf("%s: no node is planned in its zones:\n%s", region, out)
		}
	}
}
