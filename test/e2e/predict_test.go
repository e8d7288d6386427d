package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness"
)

// prediction is what plan -f -o json says, as far as it is compared with what happens.
type prediction struct {
	With struct {
		Nodes int     `json:"nodes"`
		Price float64 `json:"pricePerHour"`
	} `json:"with"`
	Nodes   []machine         `json:"nodes"`
	Pending []json.RawMessage `json:"pending"`
}

// machine is a node in the words of plan and of top.
type machine struct {
	Pool         string  `json:"pool"`
	Type         string  `json:"instanceType"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"pricePerHour"`
}

// fleet is what top -o json says.
type fleet struct {
	Total struct {
		Nodes   int     `json:"nodes"`
		Price   float64 `json:"pricePerHour"`
		Pending int     `json:"pendingPods"`
	} `json:"total"`
	Nodes []struct {
		machine
		State string `json:"state"`
	} `json:"nodes"`
}

// karpenter runs the program on the world's cluster.
func (w *world) karpenter(args ...string) ([]byte, error) {
	w.t.Helper()
	root, err := harness.Root()
	w.must(err)
	var out, messages bytes.Buffer
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(root, "bin", "karpenter"), append(args, "--kubeconfig", w.Kubeconfig)...)
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("karpenter %s: %w\n%s", strings.Join(args, " "), err, messages.String())
	}
	if strings.Contains(messages.String(), "no controller answers") {
		return nil, fmt.Errorf("karpenter %s did not ask the controller: %s", strings.Join(args, " "), messages.String())
	}
	return out.Bytes(), nil
}

// predict asks what a manifest comes to. All pods here have a place, as soon as the controller knows what can be bought: that takes
// a moment after its start.
func (w *world) predict(file string) *prediction {
	w.t.Helper()
	deadline := time.Now().Add(calm)
	for {
		data, err := w.karpenter("plan", "-f", file, "-o", "json")
		w.must(err)
		p := &prediction{}
		w.must(json.Unmarshal(data, p))
		if len(p.Pending) == 0 {
			return p
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("after %v plan still leaves pods without a place: %s", calm, p.Pending)
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatal("interrupted")
		case <-time.After(glance):
		}
	}
}

// write puts a manifest into a file.
func (w *world) write(manifest string) string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "manifest.yaml")
	w.must(os.WriteFile(file, []byte(manifest), 0o600))
	return file
}

// apply has kubectl apply a file.
func (w *world) apply(file string) {
	w.t.Helper()
	kube, err := harness.Binary()
	w.must(err)
	cmd := exec.CommandContext(w.t.Context(), kube, "kubectl", "--kubeconfig", w.Kubeconfig, "apply", "-f", file)
	cmd.Env = append(cmd.Environ(), "HOME="+w.t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// arrive waits until the fleet is as it was predicted, and says what it is instead if that takes too long.
func (w *world) arrive(want *prediction, pods int) {
	w.t.Helper()
	deadline := time.Now().Add(calm)
	for {
		err := w.compare(want, pods)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("plan said %d nodes for $%.4f/h: %v; %v later: %v", want.With.Nodes, want.With.Price, names(want.Nodes), calm, err)
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatal("interrupted")
		case <-time.After(glance):
		}
	}
}

// compare says how the fleet differs from the prediction.
func (w *world) compare(want *prediction, pods int) error {
	var list corev1.PodList
	if err := w.Client.List(w.t.Context(), &list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return err
	}
	running := 0
	for i := range list.Items {
		if list.Items[i].Status.Phase == corev1.PodRunning && list.Items[i].DeletionTimestamp == nil {
			running++
		}
	}
	if running != pods || len(list.Items) != pods {
		return fmt.Errorf("%d of %d pods run, %d should", running, len(list.Items), pods)
	}
	data, err := w.karpenter("top", "-o", "json")
	if err != nil {
		return err
	}
	var is fleet
	if err := json.Unmarshal(data, &is); err != nil {
		return err
	}
	var have []machine
	for _, n := range is.Nodes {
		if n.State != "ready" {
			return errors.New("a node is " + n.State)
		}
		have = append(have, n.machine)
	}
	if got, want := names(have), names(want.Nodes); !slices.Equal(got, want) {
		return fmt.Errorf("the nodes are %v", got)
	}
	if math.Abs(is.Total.Price-want.With.Price) > 1e-6 {
		return fmt.Errorf("they cost $%.6f/h", is.Total.Price)
	}
	return nil
}

// names lists what machines are, in order. Zones of one price are as good as each other, so that they are left out.
func names(list []machine) []string {
	var out []string
	for _, m := range list {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", m.Pool, m.Type, m.CapacityType)))
	}
	slices.Sort(out)
	return out
}

// deployment is a manifest for pods of one shape.
func deployment(name string, replicas int, requests, more string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      %[4]s
      containers:
      - {name: main, image: "registry.k8s.io/pause:3.10", resources: {requests: {%[3]s}}}
`, name, replicas, requests, more)
}

const zoneSpread = `topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: wide}}}]`

// onDemand is the default pool without spot: what a fleet of spot machines is made of is AWS's choice.
const onDemand = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
      - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["4"]}
  disruption: {consolidateAfter: %s, budgets: [{nodes: "100%%"}]}
`

// TestPlanPredictsWhatHappens asks plan what a manifest comes to, applies it, and compares: same nodes, same cost.
func TestPlanPredictsWhatHappens(t *testing.T) {
	w := newWorld(t, karpv1.NeverDuration())
	w.apply(w.write(fmt.Sprintf(onDemand, "Never")))
	for _, x := range []struct {
		name, manifest string
		pods           int // that run afterwards
	}{
		{"a deployment comes", deployment("first", 5, "cpu: '1', memory: 1Gi", ""), 5},
		{"it grows", deployment("first", 13, "cpu: '1', memory: 1Gi", ""), 13},
		{"another one is spread over zones", deployment("wide", 6, "cpu: 700m, memory: 3Gi", zoneSpread), 19},
		{"nodes that are empty go", fmt.Sprintf(onDemand, "1s") + "---" + deployment("first", 0, "cpu: '1', memory: 1Gi", "") + "---" + deployment("wide", 0, "cpu: 700m, memory: 3Gi", zoneSpread), 0},
		{"and others come for what is wanted then", deployment("first", 3, "cpu: '2', memory: 2Gi", ""), 3},
		{"nodes that the pool no longer asks for are replaced", strings.Replace(fmt.Sprintf(onDemand, "1s"), "requirements:", "requirements:\n      - {key: karpenter.k8s.aws/instance-family, operator: NotIn, values: [c6a]}", 1), 3},
		{"what is too large for its pods is replaced", deployment("first", 1, "cpu: '2', memory: 2Gi", ""), 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			w.t = t
			file := w.write(x.manifest)
			want := w.predict(file)
			w.apply(file)
			w.arrive(want, x.pods)
		})
	}
	w.t = t
	t.Run("top on a terminal", func(t *testing.T) { topOnATerminal(t, w.Kubeconfig) })
	t.Run("explain on a terminal", func(t *testing.T) { explainOnATerminal(t, w.Kubeconfig) })
	t.Run("plan on a terminal", func(t *testing.T) {
		planOnATerminal(t, w.Kubeconfig, w.write(deployment("second", 4, "cpu: '1', memory: 1Gi", "")))
	})
}
