package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws/awsplug"
)

var updateImport = flag.Bool("update-import", false, "rewrite testdata/import")

// runImport runs the command; AWS has the groups given.
func runImport(t *testing.T, groups []awsplug.NodeGroup, args ...string) (out, warnings string, err error) {
	t.Helper()
	cmd := newImport(func(context.Context, string) ([]awsplug.NodeGroup, error) {
		if groups == nil {
			return nil, errors.New("AWS was asked")
		}
		return groups, nil
	})
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{"--cluster-name", "my-cluster"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// goldenImport compares with a file of testdata/import.
func goldenImport(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "import", name)
	if *updateImport {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update-import rewrites it):\n%s", name, diff)
	}
}

var importSnapshot = filepath.Join("testdata", "import", "cluster.json")

// Groups of Cluster Autoscaler's flags, with what their nodes tell: two that differ only in their zone become one pool.
func TestImport_FromFlags(t *testing.T) {
	out, warnings, err := runImport(t, nil, "--from", "cluster-autoscaler", "--snapshot", importSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	goldenImport(t, "flags.yaml", out)
	for _, want := range []string{
		"--nodes=nonsense: must be MIN:MAX:NAME", "Deployment kube-system/cluster-autoscaler runs Cluster Autoscaler, which scales web-a, web-b, gpu, gone:",
		"1 pod has the annotation cluster-autoscaler.kubernetes.io/safe-to-evict", "default/web-1",
	} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings lack %q:\n%s", want, warnings)
		}
	}
}

// The plan takes the nodes of the groups away and prices what their pods would get instead.
func TestImport_Plan(t *testing.T) {
	out, _, err := runImport(t, nil, "--from", "cluster-autoscaler", "--snapshot", importSnapshot, "--plan")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(out, "---\n")
	for _, want := range []string{"# Cost now: 4 nodes of these groups for ≈$1.", "# Cost with these pools: 1 node for ≈$0.3840/h, ", "% less; 2 of 2 pods placed (prices are the built-in list", "web-1: m5.2xlarge, us-west-2"} {
		if !strings.Contains(head, want) {
			t.Errorf("the plan lacks %q:\n%s", want, head)
		}
	}
}

// group is one of AWS, with everything that is carried over.
func importGroup(name string, edit func(*awsplug.NodeGroup)) awsplug.NodeGroup {
	g := awsplug.NodeGroup{
		Name: name, Kind: "Auto Scaling group", ScalingGroup: name, Min: 1, Max: 4, Now: 2,
		Types: []string{"m5.large", "m5a.large"}, CapacityTypes: []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand},
		Largest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi")},
		Labels:  map[string]string{"tier": "web", "kubernetes.io/os": "linux", "eks.amazonaws.com/nodegroup": name},
		Taints:  []karpv1.Taint{{Key: "tier", Value: "web", Effect: corev1.TaintEffectNoSchedule}},
		Tags:    map[string]string{"k8s.io/cluster-autoscaler/enabled": "true", "k8s.io/cluster-autoscaler/my-cluster": "owned"},
		Class: awsv1.EC2NodeClassSpec{
			Role: "node", AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{ID: "subnet-" + name}}, SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{ID: "sg-1"}},
		},
	}
	if edit != nil {
		edit(&g)
	}
	return g
}

func TestImport_FromAWS(t *testing.T) {
	out, warnings, err := runImport(t, []awsplug.NodeGroup{
		importGroup("Web_a", nil), importGroup("Web_b", func(g *awsplug.NodeGroup) { g.Max = 6 }),
		importGroup("batch", func(g *awsplug.NodeGroup) {
			g.Types, g.Arch, g.Lifetime, g.Labels = nil, "arm64", 24*time.Hour, nil
			g.Class.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-Web_a"}, {ID: "subnet-Web_b"}}
			g.Left = []string{"memory of 2 to 4 GiB for each vCPU"}
			g.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
				{Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpGt, Values: []string{"1"}}, {Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"t"}},
			}
		}),
	})
	if err != nil || warnings != "" {
		t.Fatal(err, warnings)
	}
	goldenImport(t, "aws.yaml", out)
}

// Cluster Autoscaler finds groups by tags too, and warns nobody while it is scaled to zero.
func TestImport_BothAct(t *testing.T) {
	snapshot := func(replicas, flag string) string {
		path := filepath.Join(t.TempDir(), "cluster.json")
		text := `{"items":[{"kind":"Deployment","metadata":{"name":"ca","namespace":"ops"},"spec":{"replicas":` + replicas + `,"template":{"spec":{"containers":[
			{"name":"cluster-autoscaler","image":"x","command":["./ca","` + flag + `","--scale-down-enabled=false"]}]}}}}]}`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const all = "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/my-cluster=owned"
	for _, c := range []struct {
		name, replicas, flag string
		warned               bool
	}{
		{"by tags", "1", all, true},
		{"by tags that the group lacks", "1", all + ",other", false},
		{"by a value that the group lacks", "1", "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/my-cluster=shared", false},
		{"by name", "2", "--nodes=1:2:web", true},
		{"another group", "2", "--nodes=1:2:other", false},
		{"scaled to zero", "0", all, false},
		{"not an Auto Scaling group", "1", "--node-group-auto-discovery=mig:namePrefix=x", false},
	} {
		out, warnings, err := runImport(t, []awsplug.NodeGroup{importGroup("web", nil)}, "--snapshot", snapshot(c.replicas, c.flag))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(warnings, "Deployment ops/ca runs Cluster Autoscaler, which scales web:"); got != c.warned {
			t.Errorf("%s: %q, want a warning: %t", c.name, warnings, c.warned)
		}
		if !strings.Contains(out, "consolidateAfter: Never") {
			t.Errorf("%s: scale-down is off there and on here:\n%s", c.name, out)
		}
	}
}

func TestImport_BadInput(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("kind: List"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(empty, []byte(`{"items":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--cluster-name", ""}, "--cluster-name is missing"},
		{[]string{"--from", "gcp"}, `--from is "gcp"; give aws or cluster-autoscaler`},
		{[]string{"--from", "cluster-autoscaler"}, "reads the snapshot"},
		{[]string{"--plan"}, "--plan needs to know nodes and pods"},
		{[]string{"--catalog", "x"}, "--catalog is about --plan"},
		{[]string{"--snapshot", bad}, "not a Kubernetes List in JSON"},
		{[]string{"--snapshot", empty, "--from", "cluster-autoscaler"}, "no Deployment of Cluster Autoscaler"},
		{[]string{"--snapshot", empty}, "AWS was asked"},
		{[]string{"--snapshot", "none.json"}, "read snapshot"},
	} {
		if _, _, err := runImport(t, nil, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.args, err, c.want)
		}
	}
	if _, _, err := runImport(t, []awsplug.NodeGroup{}); err == nil || !strings.Contains(err.Error(), "no node group to import") {
		t.Errorf("no groups: %v", err)
	}
}

// TestImport_LifecycleLabels: pods select spot and on-demand by labels; a pool has them, or the comments say what to select by.
func TestImport_LifecycleLabels(t *testing.T) {
	group := func(name, kind string, labels map[string]string, capacity ...string) awsplug.NodeGroup {
		return awsplug.NodeGroup{Name: name, Kind: kind, Labels: labels, CapacityTypes: capacity, Types: []string{"m5.large"}, Max: 2}
	}
	const instead = "pods that select by it select by karpenter.sh/capacity-type instead"
	for name, c := range map[string]struct {
		group         awsplug.NodeGroup
		has, comments []string
	}{
		"the usual label": {
			group("web", "Auto Scaling group", map[string]string{"node.kubernetes.io/lifecycle": "spot", "lifecycle": "Ec2Spot"}, "spot"),
			[]string{"node.kubernetes.io/lifecycle: spot", "lifecycle: Ec2Spot"},
			nil,
		},
		"of several types": {
			group("web", "Auto Scaling group", map[string]string{"node.kubernetes.io/lifecycle": "spot"}, "on-demand", "spot"),
			nil,
			[]string{"the label node.kubernetes.io/lifecycle=spot: nodes of the pool are of several capacity types; " + instead},
		},
		"a managed group": {
			group("web", "EKS managed node group", nil, "spot"),
			nil,
			[]string{"the label eks.amazonaws.com/capacityType, which EKS puts on nodes of its groups: " + instead},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := runImport(t, []awsplug.NodeGroup{c.group}, "--from", "aws")
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.has {
				if !strings.Contains(out, "        "+want+"\n") {
					t.Errorf("the pool lacks the label %s:\n%s", want, out)
				}
			}
			for _, want := range c.comments {
				if !strings.Contains(out, want+"\n") {
					t.Errorf("no comment %q:\n%s", want, out)
				}
			}
			if c.comments != nil && strings.Contains(out, "        node.kubernetes.io/lifecycle:") {
				t.Errorf("the label is there:\n%s", out)
			}
		})
	}
	// Groups that differ in nothing but the label are no one pool: it would have the label of one of them.
	out, _, err := runImport(t, []awsplug.NodeGroup{
		group("web-a", "Auto Scaling group", map[string]string{"node.kubernetes.io/lifecycle": "spot"}, "spot"),
		group("web-b", "Auto Scaling group", map[string]string{"node.kubernetes.io/lifecycle": "Ec2Spot"}, "spot"),
	}, "--from", "aws")
	if err != nil || !strings.Contains(out, "        node.kubernetes.io/lifecycle: spot\n") || !strings.Contains(out, "        node.kubernetes.io/lifecycle: Ec2Spot\n") {
		t.Errorf("two groups with a label each: %v\n%s", err, out)
	}
}
