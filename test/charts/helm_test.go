package charts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"karpenter/api/crds"
	"karpenter/internal/cloud/aws/awsplug"
	"karpenter/internal/clouds"
	"karpenter/internal/local/kubelet"
	"karpenter/internal/operator"
	"karpenter/internal/operator/webhook"
	"karpenter/test/harness"
)

// requireHelm, when set in the environment, turns the lack of the helm command from a skipped test into a failed one.
const requireHelm = "KARPENTER_TEST_HELM"

// helmEnv names the helm command when it is not the one in bin/ of this repository.
const helmEnv = "KARPENTER_HELM_BINARY"

// helm is the real command.
type helm struct {
	path string
	env  []string
}

func newHelm(tb testing.TB, kubeconfig string) *helm {
	tb.Helper()
	path := os.Getenv(helmEnv)
	if path == "" {
		path = at("bin", "helm")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv(requireHelm) != "" || os.Getenv(helmEnv) != "" {
			tb.Fatalf("%s is not there: run \"make bin/helm\"", path)
		}
		tb.Skipf("%s is not there: run \"make bin/helm\"", path)
	}
	// A home of its own: helm keeps caches and settings there.
	return &helm{path: path, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + tb.TempDir(), "KUBECONFIG=" + kubeconfig}}
}

func (h *helm) run(tb testing.TB, args ...string) (string, error) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), h.path, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = h.env, at("charts"), &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %q: %w: %s", args, err, errs.String())
	}
	return out.String(), nil
}

func (h *helm) must(tb testing.TB, args ...string) string {
	tb.Helper()
	out, err := h.run(tb, args...)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// three says whether it is Helm 3, which knows no server-side apply.
func (h *helm) three(tb testing.TB) bool {
	tb.Helper()
	return strings.HasPrefix(h.must(tb, "version", "--short"), "v3.")
}

// sets are the values of published installations, as their texts give them, with the variables filled in.
var sets = map[string][]string{
	"eks-node-provisioning": {
		"--namespace", "kube-system",
		"--set", "settings.clusterName=my-cluster",
		"--set", "settings.interruptionQueue=my-cluster",
		"--set", "controller.resources.requests.cpu=1",
		"--set", "controller.resources.requests.memory=1Gi",
		"--set", "controller.resources.limits.cpu=1",
		"--set", "controller.resources.limits.memory=1Gi",
	},
	"deep-dive": {
		"--namespace", "karpenter",
		"--set", "settings.clusterName=production",
		"--set", "settings.clusterEndpoint=https://0123456789.gr7.eu-west-2.eks.amazonaws.com",
		"--set", `serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::111122223333:role/KarpenterControllerRole-production`,
	},
}

// manifests are objects of a rendered chart.
type manifests []*unstructured.Unstructured

// render renders a chart and holds every object against the Go type of its kind, so that a misspelled field is found.
func (h *helm) render(tb testing.TB, args ...string) manifests {
	tb.Helper()
	text := h.must(tb, append([]string{"template", "karpenter"}, args...)...)
	scheme, reader := harness.Scheme(), yaml.NewYAMLReader(newBuffer(text))
	var found manifests
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			tb.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := sigsyaml.Unmarshal(doc, &object.Object); err != nil {
			tb.Fatalf("%v in\n%s", err, doc)
		}
		if len(object.Object) == 0 {
			continue
		}
		if typed, err := scheme.New(object.GroupVersionKind()); err == nil {
			if err := sigsyaml.UnmarshalStrict(doc, typed); err != nil {
				tb.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		} else if object.GetKind() != "ServiceMonitor" {
			tb.Errorf("%s: %v", object.GroupVersionKind(), err)
		}
		found = append(found, object)
	}
}

// pick returns the object of a kind and name as its Go type.
func pick[T client.Object](tb testing.TB, from manifests, kind, name string, into T) T {
	tb.Helper()
	for _, object := range from {
		if object.GetKind() == kind && object.GetName() == name {
			raw, err := object.MarshalJSON()
			if err == nil {
				err = sigsyaml.Unmarshal(raw, into)
			}
			if err != nil {
				tb.Fatal(err)
			}
			return into
		}
	}
	tb.Fatalf("no %s %s", kind, name)
	return into
}

func (m manifests) names() []string {
	var names []string
	for _, object := range m {
		names = append(names, object.GetKind()+" "+object.GetName())
	}
	slices.Sort(names)
	return names
}

// environment is what the container of the controller gets, beside what it takes from other objects as a whole.
func environment(tb testing.TB, deployment *appsv1.Deployment) map[string]string {
	tb.Helper()
	pod := &corev1.Pod{Spec: deployment.Spec.Template.Spec}
	pod.Namespace = deployment.Namespace
	container := pod.Spec.Containers[0]
	container.EnvFrom = nil
	env, err := kubelet.Environment(tb.Context(), nil, pod, &container)
	if err != nil {
		tb.Fatal(err)
	}
	return env
}

// options are the controller's, from that environment. A variable that the controller does not know is an error.
func options(tb testing.TB, deployment *appsv1.Deployment, flags map[string]string) *operator.Options {
	tb.Helper()
	env := environment(tb, deployment)
	known := map[string]bool{}
	for _, s := range operator.Settings(clouds.Plugins()...) {
		known[s.Env] = true
	}
	for name := range env {
		if !known[name] {
			tb.Errorf("the chart sets %s, which the controller does not know", name)
		}
	}
	o, err := operator.ParseOptions(operator.Source{Flags: flags, Getenv: func(name string) string { return env[name] }}, clouds.Plugins()...)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func TestHelmLint(t *testing.T) {
	h := newHelm(t, "")
	h.must(t, "lint", "--strict", "karpenter", "--set", "settings.clusterName=my-cluster")
	h.must(t, "lint", "--strict", "karpenter-crd")
}

func TestTheChartsHaveTheDefinitions(t *testing.T) {
	h := newHelm(t, "")
	target := webhook.Target{ServiceNamespace: "karpenter", ServiceName: "mine", ServicePort: 9443}
	for _, c := range []struct{ chart, values, others string }{
		{"karpenter-crd", "webhook.serviceName=mine,webhook.port=9443,additionalAnnotations.a=b", ""},
		{"karpenter", "fullnameOverride=mine,webhook.port=9443,additionalAnnotations.a=b,settings.clusterName=c", "karpenter.cluster.x-k8s.io"},
		{"karpenter", "fullnameOverride=mine,webhook.port=9443,additionalAnnotations.a=b,settings.provider=cluster-api", "karpenter.k8s.aws"},
	} {
		chart, objects := c.chart, h.render(t, c.chart, "--namespace", "karpenter", "--set", c.values)
		for _, want := range crds.Objects() {
			if want.Spec.Group == c.others { // the class of the provider that is not chosen
				if slices.Contains(objects.names(), "CustomResourceDefinition "+want.Name) {
					t.Errorf("%s is installed with %s", want.Name, c.values)
				}
				continue
			}
			if len(want.Spec.Versions) > 1 {
				want.Spec.Conversion = target.Conversion(want.Spec.Names.Plural, nil)
			}
			want.Annotations["a"], want.Annotations["helm.sh/resource-policy"] = "b", "keep"
			got := pick(t, objects, "CustomResourceDefinition", want.Name, &apiextensionsv1.CustomResourceDefinition{})
			got.Labels = nil
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s of %s: %s", want.Name, chart, d)
			}
		}
	}
	loose := h.render(t, "karpenter-crd", "--set", "keep=false")
	if len(loose) != len(crds.Objects()) || loose[0].GetAnnotations()["helm.sh/resource-policy"] != "" {
		t.Errorf("keep=false: %v %v", loose.names(), loose[0].GetAnnotations())
	}
}

func TestPublishedValues(t *testing.T) {
	h := newHelm(t, "")
	for name, args := range sets {
		t.Run(name, func(t *testing.T) {
			objects := h.render(t, append([]string{"karpenter"}, args...)...)
			deployment := pick(t, objects, "Deployment", "karpenter", &appsv1.Deployment{})
			if o := options(t, deployment, nil); o.Cloud.(*awsplug.Cloud).ClusterName == "" || o.KarpenterService != "karpenter" || o.SystemNamespace != args[1] || o.CPURequests != 1000 {
				t.Errorf("options: %+v", o)
			}
			account := pick(t, objects, "ServiceAccount", "karpenter", &corev1.ServiceAccount{})
			if role := account.Annotations["eks.amazonaws.com/role-arn"]; (name == "deep-dive") != strings.HasSuffix(role, ":role/KarpenterControllerRole-production") {
				t.Errorf("the account's role is %q", role)
			}
		})
	}
}

func TestO75_ThePod(t *testing.T) {
	h := newHelm(t, "")
	objects := h.render(t, "karpenter", "--namespace", "kube-system", "--set", "settings.clusterName=my-cluster")
	deployment := pick(t, objects, "Deployment", "karpenter", &appsv1.Deployment{})
	spec := deployment.Spec.Template.Spec
	term := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	apart := spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	spread := spec.TopologySpreadConstraints[0]
	own := deployment.Spec.Selector
	if term.Key != "karpenter.sh/nodepool" || term.Operator != corev1.NodeSelectorOpDoesNotExist {
		t.Errorf("node affinity: %v", term)
	}
	if apart.TopologyKey != corev1.LabelHostname || cmp.Diff(own, apart.LabelSelector) != "" {
		t.Errorf("anti-affinity: %v", apart)
	}
	if spread.TopologyKey != corev1.LabelTopologyZone || spread.MaxSkew != 1 || spread.WhenUnsatisfiable != corev1.DoNotSchedule || cmp.Diff(own, spread.LabelSelector) != "" {
		t.Errorf("spread: %v", spread)
	}
	if spec.PriorityClassName != "system-cluster-critical" || spec.Tolerations[0].Key != "CriticalAddonsOnly" || *deployment.Spec.Replicas != 2 {
		t.Errorf("priority %q, tolerations %v, replicas %d", spec.PriorityClassName, spec.Tolerations, *deployment.Spec.Replicas)
	}
	container := spec.Containers[0]
	if container.LivenessProbe.HTTPGet.Path != "/healthz" || container.ReadinessProbe.HTTPGet.Path != "/readyz" || container.Args[0] != "controller" {
		t.Errorf("container: %+v", container)
	}
	if !*container.SecurityContext.ReadOnlyRootFilesystem || *container.SecurityContext.RunAsUser != 65532 || !*spec.AutomountServiceAccountToken {
		t.Errorf("security: %+v", container.SecurityContext)
	}
}

func TestEverythingOn(t *testing.T) {
	h := newHelm(t, "")
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(everything), 0o644); err != nil {
		t.Fatal(err)
	}
	objects := h.render(t, "karpenter", "--namespace", "nodes", "--values", values)
	o := options(t, pick(t, objects, "Deployment", "mine", &appsv1.Deployment{}), nil)
	own := o.Cloud.(*awsplug.Cloud)
	if !o.Gates.NodeRepair || !o.Gates.SpotToSpotConsolidation || !o.Gates.PodDeletionCostManagement || o.Gates.ReservedCapacity || o.IgnoreDRARequests || len(o.DefaultSpread) != 1 || o.MetricsPort != 9000 ||
		o.LogLevel != "debug" || o.PreferencePolicy != operator.PreferencesIgnore || own.ReservedENIs != 2 || own.AMIRefreshInterval.Minutes() != 5 || !own.EnableZonalShift {
		t.Errorf("options: %+v", o)
	}
	container := pick(t, objects, "Deployment", "mine", &appsv1.Deployment{}).Spec.Template.Spec.Containers
	if len(container) != 2 || container[1].VolumeMounts[0].Name != "scratch" || !strings.HasSuffix(container[0].Image, ":v9@sha256:"+strings.Repeat("a", 64)) {
		t.Errorf("containers: %+v", container)
	}
	for _, want := range []string{"ServiceMonitor mine", "NetworkPolicy mine", "ServiceAccount mine", "PodDisruptionBudget karpenter", "Role mine-dns", "ClusterRole mine-admin"} {
		if !slices.Contains(objects.names(), want) {
			t.Errorf("no %s among %v", want, objects.names())
		}
	}
	rules := pick(t, objects, "ClusterRole", "mine-core", &rbacv1.ClusterRole{}).Rules
	for _, resource := range []string{"resourceslices", "services", "replicationcontrollers", "replicasets", "statefulsets", "leftovers"} {
		if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) }) {
			t.Errorf("no rule for %s", resource)
		}
	}
}

// With another provider nothing of AWS is set, granted or installed, and its own is.
func TestProviderClusterAPI(t *testing.T) {
	h := newHelm(t, "")
	objects := h.render(t, "karpenter", "--namespace", "kube-system", "--set", "settings.provider=cluster-api,settings.clusterAPI.namespace=fleet")
	env := map[string]string{}
	for _, e := range pick(t, objects, "Deployment", "karpenter", &appsv1.Deployment{}).Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["PROVIDER"] != "cluster-api" || env["CLUSTER_API_NAMESPACE"] != "fleet" {
		t.Errorf("variables: %v", env)
	}
	for _, s := range awsplug.Plugin().New().Settings(func(string) {}) {
		if value, given := env[s.Env]; given {
			t.Errorf("%s=%s is given", s.Env, value)
		}
	}
	classes := false
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			if strings.Contains(object.GetName(), "k8s.aws") {
				t.Errorf("%s is installed", object.GetName())
			}
			continue // descriptions have examples
		}
		text := fmt.Sprint(object.Object)
		if strings.Contains(text, "k8s.aws") || strings.Contains(text, "ec2nodeclasses") {
			t.Errorf("%s %s names AWS: %s", object.GetKind(), object.GetName(), text)
		}
		classes = classes || object.GetKind() == "ClusterRole" && strings.Contains(text, "clusterapinodeclasses/status") && strings.Contains(text, "machinedeployments")
	}
	if !classes {
		t.Error("no role for the classes of the provider")
	}
}

func TestWithoutTheWebhook(t *testing.T) {
	h := newHelm(t, "")
	objects := h.render(t, "karpenter", "--namespace", "kube-system", "--set", "settings.clusterName=c,crds.install=false,webhook.enabled=false,admissionPolicy.enabled=false,serviceAccount.create=false,serviceAccount.name=other")
	if o := options(t, pick(t, objects, "Deployment", "karpenter", &appsv1.Deployment{}), nil); !o.DisableWebhook {
		t.Error("the webhook is not off")
	}
	for _, object := range objects {
		text := fmt.Sprint(object.Object)
		if strings.Contains(text, "secrets") || strings.Contains(text, "customresourcedefinitions") || strings.Contains(text, "https-webhook") || strings.Contains(object.GetKind(), "AdmissionPolicy") {
			t.Errorf("%s %s is about the webhook or a policy: %s", object.GetKind(), object.GetName(), text)
		}
	}
	binding := pick(t, objects, "ClusterRoleBinding", "karpenter", &rbacv1.ClusterRoleBinding{})
	if binding.Subjects[0].Name != "other" || slices.Contains(objects.names(), "ServiceAccount other") {
		t.Errorf("the account: %v", binding.Subjects)
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	h := newHelm(t, "")
	for set, want := range map[string]string{
		"settings.clusterName=":               "settings.clusterName: the name of the EKS cluster must be given",
		"settings.clusterNam=typo":            "clusterNam",
		"settings.batchIdleDuration=soon":     "batchIdleDuration",
		"logLevel=loud":                       "logLevel",
		"settings.featureGates.nodeRepare=on": "nodeRepare",
		"serviceAccount.create=false":         "serviceAccount.name",
		"controller.image.digest=abc":         "digest",
	} {
		_, err := h.run(t, "template", "karpenter", "karpenter", "--set", "settings.clusterName=c", "--set", set)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %q", set, err, want)
		}
	}
}
