package charts

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"karpenter/api/crds"
	"karpenter/test/blocks"
	"karpenter/test/harness"
)

// theirObjects is what stands for the objects of a release of the other controller: same names, labels and kinds.
const theirObjects = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: karpenter, namespace: {{ .Release.Namespace }}, annotations: {{ toJson .Values.serviceAccount.annotations }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: karpenter-core, labels: {app.kubernetes.io/name: karpenter, app.kubernetes.io/instance: {{ .Release.Name }}}}
rules: [{apiGroups: [karpenter.sh], resources: [nodeoverlays], verbs: [get]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: karpenter, namespace: {{ .Release.Namespace }}}
spec: {maxUnavailable: 1, selector: {matchLabels: {app.kubernetes.io/name: karpenter, app.kubernetes.io/instance: {{ .Release.Name }}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: karpenter, namespace: {{ .Release.Namespace }}, labels: {app.kubernetes.io/name: karpenter}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app.kubernetes.io/name: karpenter, app.kubernetes.io/instance: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app.kubernetes.io/name: karpenter, app.kubernetes.io/instance: {{ .Release.Name }}}}
    spec:
      serviceAccountName: karpenter
      containers:
        - name: controller
          image: {{ .Values.controller.image.repository }}:{{ .Values.controller.image.tag }}@{{ .Values.controller.image.digest }}
`

// stranger is a definition that only their chart has: what a version of it that we have not seen may bring.
const stranger = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nodesnapshots.karpenter.sh}
spec:
  group: karpenter.sh
  names: {kind: NodeSnapshot, listKind: NodeSnapshotList, plural: nodesnapshots, singular: nodesnapshot}
  scope: Cluster
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// theirValues are the values of their chart (aws §7.2 and what 1.15 adds): none of ours is among them.
func theirValues(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	put := func(path string, value any) {
		at, keys := all, strings.Split(path, ".")
		for _, key := range keys[:len(keys)-1] {
			inner, ok := at[key].(map[string]any)
			if !ok {
				inner = map[string]any{}
				at[key] = inner
			}
			at = inner
		}
		at[keys[len(keys)-1]] = value
	}
	for line := range strings.Lines(strings.TrimSpace(known)) {
		path, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		put(path, value)
	}
	for path, value := range map[string]any{
		"controller.image.repository": "public.ecr.aws/karpenter/controller", "controller.image.tag": "1.15.0", "controller.image.digest": "sha256:" + strings.Repeat("b", 64),
		"controller.resources": map[string]any{}, "settings.enableDRA": false, "settings.schedulerConfig": "",
		"settings.ignoreDRARequests": nil, "settings.awsFeatureGates.draNVIDIAGPU": nil, "settings.awsFeatureGates.draEFA": nil,
	} {
		put(path, value)
	}
	return all
}

// theirCharts writes charts that leave a cluster as a release of the other controller does, and returns their folder.
func theirCharts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(text string, path ...string) {
		t.Helper()
		name := filepath.Join(append([]string{dir}, path...)...)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, chart := range []string{"karpenter", "karpenter-crd"} {
		write("apiVersion: v2\nname: "+chart+"\nversion: 1.15.0\nappVersion: 1.15.0\n", chart, "Chart.yaml")
	}
	values, err := sigsyaml.Marshal(theirValues(t))
	if err != nil {
		t.Fatal(err)
	}
	write(string(values), "karpenter", "values.yaml")
	write(theirObjects, "karpenter", "templates", "all.yaml")
	write("additionalAnnotations: {}\n", "karpenter-crd", "values.yaml")
	write(stranger, "karpenter-crd", "templates", "stranger.yaml")
	for _, crd := range crds.Objects() {
		stored := crd.Spec.Versions[:0]
		for _, version := range crd.Spec.Versions {
			if version.Storage {
				stored = append(stored, version)
			}
		}
		crd.Spec.Versions = stored
		text, err := sigsyaml.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		write(string(text), "karpenter-crd", "templates", crd.Name+".yaml")
	}
	return dir
}

// belongings are objects of every kind that they have.
const belongings = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-12345678}], securityGroupSelectorTerms: [{id: sg-12345678}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec: {template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: default-7rk9q, finalizers: [karpenter.sh/termination], labels: {karpenter.sh/nodepool: default}}
spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: licence}
spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}], priceAdjustment: "+10%", weight: 10}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: web, namespace: default}
spec: {podTemplateRef: {name: web}, replicas: 5, limits: {cpu: "20"}}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeSnapshot
metadata: {name: one}
`

// ids are the UIDs of those objects.
func (s *site) ids() map[string]string {
	s.t.Helper()
	found := map[string]string{}
	for doc := range strings.SplitSeq(belongings, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := sigsyaml.Unmarshal([]byte(doc), &object.Object); err != nil {
			s.t.Fatal(err)
		}
		name := object.GetKind() + " " + object.GetName()
		if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			found[name] = err.Error()
			continue
		}
		found[name] = string(object.GetUID())
		if object.GetDeletionTimestamp() != nil {
			found[name] = "is being deleted"
		}
	}
	return found
}

// follow runs the blocks of a page of the documentation that name the test, word for word, and returns what they print.
func (s *site) follow(page, test string) string {
	s.t.Helper()
	texts, err := blocks.Of(at("docs", page), test)
	if err != nil {
		s.t.Fatal(err)
	}
	bin, dir := s.t.TempDir(), s.t.TempDir()
	kube, err := harness.Binary()
	if err != nil {
		s.t.Fatal(err)
	}
	charts, err := filepath.Abs(at("charts"))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, target := range map[string]string{filepath.Join(bin, "kubectl"): kube, filepath.Join(bin, "helm"): s.h.path, filepath.Join(dir, "charts"): charts} {
		if err := os.Symlink(target, name); err != nil {
			s.t.Fatal(err)
		}
	}
	var all bytes.Buffer
	for _, text := range texts {
		cmd := exec.CommandContext(s.t.Context(), "bash", "-euo", "pipefail", "-c", text)
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, &all, &all, time.Second
		cmd.Env = append([]string{"KUBECONFIG=" + s.Kubeconfig}, s.h.env...)
		for i, entry := range cmd.Env {
			if path, ok := strings.CutPrefix(entry, "PATH="); ok {
				cmd.Env[i] = "PATH=" + bin + ":" + path
			}
		}
		if err := cmd.Run(); err != nil {
			s.t.Fatalf("%s: %v\n%s\n%s", page, err, text, all.String())
		}
	}
	return all.String()
}

// TestTakeOver_Guide runs the page on the way from upstream Karpenter line by line, on a cluster with two releases of it.
func TestTakeOver_Guide(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.kubelets()
	their := theirCharts(t)
	var asHelm3 []string
	if !s.h.three(t) {
		asHelm3 = []string{"--server-side=false"}
	}
	s.h.must(t, append([]string{"install", "karpenter-crd", filepath.Join(their, "karpenter-crd"), "--namespace", "kube-system"}, asHelm3...)...)
	s.h.must(t, append([]string{
		"install", "karpenter", filepath.Join(their, "karpenter"), "--namespace", "kube-system", "--wait", "--timeout", installTime,
		"--set", "settings.clusterName=my-cluster,controller.resources.requests.cpu=2,logLevel=debug",
		"--set-literal", "settings.interruptionQueue={{ .Values.settings.clusterName }}-queue",
		"--set", `serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::111122223333:role/KarpenterControllerRole-my-cluster`,
		"--set-json", `affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution=[{"weight":1,"podAffinityTerm":{"topologyKey":"topology.kubernetes.io/zone"}}]`,
	}, asHelm3...)...)
	s.established()
	if _, err := s.Kubectl(t.Context(), "", "wait", "--for=condition=Established", "--timeout=60s", "crd/nodeoverlays.karpenter.sh", "crd/capacitybuffers.autoscaling.x-k8s.io", "crd/nodesnapshots.karpenter.sh"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kubectl(t.Context(), belongings, "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	before := s.ids()

	out := s.follow("operate/migrate-from-upstream.md", "TestTakeOver_Guide")
	for _, want := range []string{"default-7rk9q", "deployment.apps/karpenter scaled", "DRIFTED"} {
		if !strings.Contains(out, want) {
			t.Errorf("it was not said: %s\n%s", want, out)
		}
	}
	if diff := cmp.Diff(before, s.ids()); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
	deployment := &appsv1.Deployment{}
	if err := s.get(deployment, "kube-system", "karpenter"); err != nil || deployment.Status.ReadyReplicas != 2 {
		t.Fatalf("deployment: %v, %d replicas are ready\n%s", err, deployment.Status.ReadyReplicas, out)
	}
	spec := deployment.Spec.Template.Spec
	if image := spec.Containers[0].Image; !strings.HasPrefix(image, "registry.example.com/karpenter:") || strings.Contains(image, "1.15.0") || strings.Contains(image, "sha256") {
		t.Errorf("the image is %s", image)
	}
	if term := spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm; cmp.Diff(deployment.Spec.Selector, term.LabelSelector) != "" {
		t.Errorf("preferred anti-affinity: %v", term)
	}
	env := environment(t, deployment)
	for name, want := range map[string]string{"CLUSTER_NAME": "my-cluster", "INTERRUPTION_QUEUE": "my-cluster-queue", "LOG_LEVEL": "debug", "WEBHOOK_PORT": "8443", "IGNORE_DRA_REQUESTS": "true", "NOMINATE_PODS": "true", "AWS_FEATURE_GATES": "NodeClassCEL=false,RebootForRepair=false"} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if requests := spec.Containers[0].Resources.Requests; requests.Cpu().Value() != 2 {
		t.Errorf("requests: %v", requests)
	}
	// What is there stays there with the next upgrade too.
	s.h.must(t, "upgrade", "karpenter-crd", "karpenter-crd", "--namespace", "kube-system")
	if diff := cmp.Diff(before, s.ids()); diff != "" {
		t.Errorf("objects after another upgrade (-before +after):\n%s", diff)
	}
}

// TestValuesOfOlderCharts renders with what files for charts 0.3x have in them.
func TestValuesOfOlderCharts(t *testing.T) {
	h := newHelm(t, "")
	if h.three(t) { // which asks the cluster for its version where it only shows what it would do
		h = newSite(t).h
	}
	for name, older := range map[string]struct {
		values string
		env    map[string]string
		notes  []string
	}{
		"0.30": {
			values: `
controller: {outputPaths: [stdout], errorOutputPaths: [stderr], logLevel: "", logEncoding: "", metrics: {port: 8000}}
webhook: {logLevel: error, port: 8443}
logEncoding: console
settings: {aws: {clusterName: my-cluster, interruptionQueueName: my-queue, vmMemoryOverheadPercent: 0.05, isolatedVPC: true, defaultInstanceProfile: nodes}, featureGates: {driftEnabled: true}}`,
			env:   map[string]string{"CLUSTER_NAME": "my-cluster", "INTERRUPTION_QUEUE": "my-queue", "VM_MEMORY_OVERHEAD_PERCENT": "0.05", "ISOLATED_VPC": "true", "METRICS_PORT": "8000"},
			notes: []string{"read as settings.clusterName", "  logEncoding\n", "  settings.aws.defaultInstanceProfile\n"},
		},
		"0.35": {
			values: `
webhook: {enabled: true, port: 8443, metrics: {port: 8001}}
logConfig: {enabled: false, outputPaths: [stdout], logLevel: {global: info}}
settings: {clusterName: my-cluster, assumeRoleARN: "arn:aws:iam::111122223333:role/other", assumeRoleDuration: 15m, featureGates: {drift: true, spotToSpotConsolidation: true}}`,
			env:   map[string]string{"CLUSTER_NAME": "my-cluster", "WEBHOOK_PORT": "8443"},
			notes: []string{"  settings.assumeRoleARN\n"},
		},
		"1.15": {
			values: `
settings: {clusterName: my-cluster, ignoreDRARequests: null, awsFeatureGates: {draNVIDIAGPU: true, draEFA: null}, featureGates: {podDeletionCostManagement: true, terminateFirstDrift: true, nodeRepair: true}}`,
			env: map[string]string{"FEATURE_GATES": "CapacityBuffer=true,NodeOverlay=false,NodeRepair=true,PodDeletionCostManagement=true,ReservedCapacity=true,SpotToSpotConsolidation=false,StaticCapacity=true,TerminateFirstDrift=true,TerminateFirstRepair=false", "AWS_FEATURE_GATES": "DRANVIDIAGPU=true,NodeClassCEL=false,RebootForRepair=false", "IGNORE_DRA_REQUESTS": "true"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			values := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(values, []byte(older.values), 0o600); err != nil {
				t.Fatal(err)
			}
			env := environment(t, pick(t, h.render(t, "karpenter", "--values", values), "Deployment", "karpenter", &appsv1.Deployment{}))
			for name, want := range older.env {
				if env[name] != want {
					t.Errorf("%s is %q, want %q", name, env[name], want)
				}
			}
			out := h.must(t, "install", "karpenter", "karpenter", "--dry-run=client", "--values", values)
			_, notes, _ := strings.Cut(out, "\nNOTES:\n")
			for _, want := range older.notes {
				if !strings.Contains(notes+"\n", want) {
					t.Errorf("the notes do not have %q:\n%s", want, notes)
				}
			}
			if strings.Contains(notes, "driftEnabled") || strings.Contains(notes, "logConfig") || strings.Contains(notes, "podDeletionCostManagement") {
				t.Errorf("the notes name what is as it always was:\n%s", notes)
			}
		})
	}
}

// TestEveryValueHasADefault renders without values: those that are missing count as the chart's own, or as nothing.
func TestEveryValueHasADefault(t *testing.T) {
	h := newHelm(t, "")
	all := values(t, "karpenter")
	missing := map[string][]string{"": nil, "settings": nil, "controller": nil}
	for key := range all {
		if key != "settings" {
			missing[""] = append(missing[""], key+"=null")
		}
	}
	for _, part := range []string{"settings", "controller"} {
		for key := range all[part].(map[string]any) {
			if key != "clusterName" {
				missing[part] = append(missing[part], part+"."+key+"=null")
			}
		}
	}
	for part, sets := range missing {
		t.Run(part, func(t *testing.T) {
			o := options(t, pick(t, h.render(t, "karpenter", "--set", "settings.clusterName=c,"+strings.Join(sets, ",")), "Deployment", "karpenter", &appsv1.Deployment{}), nil)
			if o.DisableWebhook || o.WebhookPort != 8443 || !o.IgnoreDRARequests || o.MetricsPort != 8080 || !o.NominatePods {
				t.Errorf("options: %+v", o)
			}
		})
	}
	h.render(t, "karpenter-crd", "--set", "webhook=null,keep=null,additionalAnnotations=null")
}
