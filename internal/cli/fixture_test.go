package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state/dump"
)

// noon is the time that fixtures are looked at; their nodes have been quiet for two hours then.
var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// fixture is a cluster that tests put together.
type fixture struct {
	t     *testing.T
	items []any
	pool  *karpv1.NodePool
}

const fixturePool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    metadata: {labels: {team: blue}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: 720h
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
  disruption:
    consolidateAfter: 30s
    consolidationPolicy: WhenEmptyOrUnderutilized
    budgets: [{nodes: 50%}]
`

// newFixture is a pool with three nodes: one full, one half full and one that nearly nothing is on.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, pool: &karpv1.NodePool{}}
	if err := yaml.Unmarshal([]byte(fixturePool), f.pool); err != nil {
		t.Fatal(err)
	}
	f.items = append(f.items, f.pool)
	f.node("ip-10-0-1-11.us-west-2.compute.internal", "m5.xlarge", "us-west-2a")
	f.node("ip-10-0-2-22.us-west-2.compute.internal", "m5.large", "us-west-2b")
	f.node("ip-10-0-1-33.us-west-2.compute.internal", "m5.large", "us-west-2a")
	f.pods("api", 4, "800m", "2Gi", "ip-10-0-1-11.us-west-2.compute.internal")
	f.pods("web", 2, "500m", "1Gi", "ip-10-0-2-22.us-west-2.compute.internal")
	f.pods("cron", 1, "1500m", "1Gi", "ip-10-0-1-33.us-west-2.compute.internal")
	return f
}

// node adds a node with its claim.
func (f *fixture) node(name, typ, zone string) {
	size := map[string]corev1.ResourceList{"m5.large": amounts("1930m", "7220Mi", "29"), "m5.xlarge": amounts("3920m", "14700Mi", "58")}[typ]
	labels := map[string]string{
		"karpenter.sh/nodepool": "general", "karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/instance-type": typ, "kubernetes.io/arch": "amd64",
		"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "us-west-2", "kubernetes.io/hostname": name,
		"team": "blue", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
	}
	made := metav1.NewTime(noon.Add(-2 * time.Hour))
	claim := &karpv1.NodeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: "general-" + name[8:12], Labels: labels, CreationTimestamp: made, Annotations: map[string]string{
			karpv1.NodePoolHashAnnotationKey: f.pool.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
		}},
		Spec:   karpv1.NodeClaimSpec{NodeClassRef: f.pool.Spec.Template.Spec.NodeClassRef, Requirements: []karpv1.NodeSelectorRequirementWithMinValues{}},
		Status: karpv1.NodeClaimStatus{NodeName: name, ProviderID: "aws:///" + zone + "/i-" + name[3:12], Capacity: size, Allocatable: size},
	}
	for _, kind := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized, karpv1.ConditionConsolidatable} {
		claim.StatusConditions().SetTrue(kind, made.Add(45*time.Second))
	}
	f.items = append(f.items, claim, &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, CreationTimestamp: made},
		Spec:       corev1.NodeSpec{ProviderID: claim.Status.ProviderID},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		}},
	})
}

func amounts(cpu, memory, pods string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory), "pods": resource.MustParse(pods)}
}

// pods adds pods of a Deployment; without a node they wait.
func (f *fixture) pods(name string, count int, cpu, memory, node string) {
	for i := range count {
		p := &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-7f9c-%d", name, i), Namespace: "default", Labels: map[string]string{"app": name, "pod-template-hash": "7f9c"},
				CreationTimestamp: metav1.NewTime(noon.Add(-2 * time.Hour)),
				OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-7f9c", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
				Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}},
			}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-2 * time.Hour))},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			}},
		}
		if node == "" {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
			}}
		}
		f.items = append(f.items, p)
	}
}

// add adds an object as YAML.
func (f *fixture) add(text string) {
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		f.t.Fatal(err)
	}
	f.items = append(f.items, o)
}

// write writes the cluster and a small catalogue to files.
func (f *fixture) write() (snapshot, catalog string) {
	f.t.Helper()
	dir := f.t.TempDir()
	snapshot, catalog = filepath.Join(dir, "cluster.json"), filepath.Join(dir, "catalog.json")
	for name, content := range map[string]any{snapshot: map[string]any{"apiVersion": "v1", "kind": "List", "items": f.items}, catalog: fixtureCatalog()} {
		data, err := json.Marshal(content)
		if err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	return snapshot, catalog
}

// fixtureCatalog has a few types of two zones, on demand and as spot.
func fixtureCatalog() *dump.Catalog {
	c := &dump.Catalog{}
	for _, x := range []struct {
		name, arch, cpu, memory, pods string
		price                         float64
	}{
		{"m5.large", "amd64", "1930m", "7220Mi", "29", 0.096},
		{"m5.xlarge", "amd64", "3920m", "14700Mi", "58", 0.192},
		{"m5.2xlarge", "amd64", "7910m", "30000Mi", "58", 0.384},
		{"m6g.large", "arm64", "1930m", "7220Mi", "29", 0.077},
	} {
		t := dump.CatalogType{
			Name: x.name, Labels: map[string]string{"kubernetes.io/arch": x.arch, "kubernetes.io/os": "linux"},
			Allocatable: map[string]string{"cpu": x.cpu, "memory": x.memory, "pods": x.pods},
		}
		for _, zone := range []string{"us-west-2a", "us-west-2b"} {
			t.Offerings = append(t.Offerings, dump.CatalogOffering{Zone: zone, CapacityType: "on-demand", Price: x.price}, dump.CatalogOffering{Zone: zone, CapacityType: "spot", Price: x.price * 0.4})
		}
		c.InstanceTypes = append(c.InstanceTypes, t)
	}
	return c
}

// execute runs a command and returns what it printed.
func execute(t *testing.T, cmd *cobra.Command, args ...string) (out, messages string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetIn(&bytes.Buffer{})
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// newTestRoot is a program with the commands that look at a cluster.
func newTestRoot() *cobra.Command {
	root := &cobra.Command{Use: "karpenter"}
	root.AddCommand(newPlan(atNoon), newTop(atNoon), NewExplain())
	return root
}
