package forecast

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"karpenter/internal/state/dump"
)

func parsed[T any](t *testing.T, text string) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// The rules are those of the API server's LimitRanger, and of the defaults of a LimitRange.
func TestLimitRangesFillPodsIn(t *testing.T) {
	for _, x := range []struct{ name, item, container, want string }{
		{"a default request", "{defaultRequest: {cpu: 200m}}", "{}", "requests: {cpu: 200m}"},
		{"a default limit is asked for too", "{default: {cpu: 300m}}", "{}", "{limits: {cpu: 300m}, requests: {cpu: 300m}}"},
		{"the largest is the default limit", "{max: {cpu: 2}}", "{}", `{limits: {cpu: "2"}, requests: {cpu: "2"}}`},
		{"the smallest is the default request", "{min: {cpu: 50m}}", "{}", "requests: {cpu: 50m}"},
		{"what is said stays", "{default: {cpu: 300m}, defaultRequest: {cpu: 200m}}", "{limits: {cpu: 1}, requests: {cpu: 100m}}", `{limits: {cpu: "1"}, requests: {cpu: 100m}}`},
		{"what is limited is asked for before", "{defaultRequest: {cpu: 200m}}", "{limits: {cpu: 1}}", `{limits: {cpu: "1"}, requests: {cpu: "1"}}`},
		{"other resources", "{defaultRequest: {memory: 1Gi}}", "{requests: {cpu: 1}}", `requests: {cpu: "1", memory: 1Gi}`},
	} {
		item := parsed[corev1.LimitRangeItem](t, x.item)
		item.Type = corev1.LimitTypeContainer
		r := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{*item}}}
		r.Namespace = "here"
		resources := *parsed[corev1.ResourceRequirements](t, x.container)
		spec := &corev1.PodSpec{Containers: []corev1.Container{{Resources: resources}}, InitContainers: []corev1.Container{{Resources: *resources.DeepCopy()}}}
		elsewhere := spec.DeepCopy()
		c := &Change{Policies: Policies{Ranges: []*corev1.LimitRange{r}}}
		c.fill("here", spec)
		for _, container := range append(spec.Containers, spec.InitContainers...) {
			if d := cmp.Diff(asYAML(t, parsed[corev1.ResourceRequirements](t, x.want)), asYAML(t, &container.Resources)); d != "" {
				t.Errorf("%s:\n%s", x.name, d)
			}
		}
		before := elsewhere.DeepCopy()
		fillRequests(before)
		if c.fill("elsewhere", elsewhere); asYAML(t, before) != asYAML(t, elsewhere) {
			t.Errorf("%s: a pod of another namespace becomes %s", x.name, asYAML(t, elsewhere))
		}
	}
}

func asYAML(t *testing.T, v any) string {
	t.Helper()
	data, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLimitRangesRefusePods(t *testing.T) {
	for _, x := range []struct{ name, item, container, want string }{
		{"within", "{type: Container, min: {cpu: 100m}, max: {cpu: 2}}", "{limits: {cpu: 1}}", ""},
		{"too small", "{type: Container, min: {cpu: 100m}}", "{requests: {cpu: 50m}}", "a container asks for at least 100m cpu, and one asks for 50m"},
		{"too large", "{type: Container, max: {cpu: 2}}", "{limits: {cpu: 3}}", "a container is limited to at most 2 cpu, and one has a limit of 3"},
		{"the pod together", "{type: Pod, max: {cpu: 1500m}}", "{limits: {cpu: 1}}", "a pod is limited to at most 1500m cpu, and one has a limit of 2"},
		{"the pod without a limit", "{type: Pod, max: {memory: 1Gi}}", "{limits: {cpu: 1}}", "a pod is limited to at most 1Gi memory, and one has no limit"},
		{"volumes", "{type: PersistentVolumeClaim, max: {storage: 1Gi}}", "{}", ""},
	} {
		r := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{*parsed[corev1.LimitRangeItem](t, x.item)}}}
		r.Namespace, r.Name = "here", "r"
		resources := *parsed[corev1.ResourceRequirements](t, x.container)
		spec := &corev1.PodSpec{Containers: []corev1.Container{{Resources: resources}, {Resources: *resources.DeepCopy()}}}
		c := &Change{Policies: Policies{Ranges: []*corev1.LimitRange{r}}}
		c.fill("here", spec)
		if got := strings.TrimPrefix(c.outOfRange("here", spec), "LimitRange here/r: "); got != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}

func TestQuotasCountPods(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	part := func(cpu string) corev1.Container {
		return corev1.Container{Resources: *parsed[corev1.ResourceRequirements](t, "requests: {cpu: "+cpu+"}")}
	}
	sidecar := part("300m")
	sidecar.RestartPolicy = &always
	spec := &corev1.PodSpec{InitContainers: []corev1.Container{sidecar, part("2")}, Containers: []corev1.Container{part("1"), part("1")}}
	if got := charge(spec)["requests.cpu"]; got.String() != "2300m" {
		t.Errorf("the pod counts as %s of cpu, want 2300m", got.String())
	}
	done := &corev1.Pod{Spec: *spec}
	done.Status.Phase = corev1.PodSucceeded
	for _, x := range []struct {
		name, hard string
		pods       int
		want       string
	}{
		{"room", "{requests.cpu: 7}", 2, ""},
		{"no room", "{requests.cpu: 6}", 3, "ResourceQuota here/q allows 6 requests.cpu, and 6900m would be in use"},
		{"a number of pods", "{count/pods: 2}", 3, "ResourceQuota here/q allows 2 count/pods, and 3 would be in use"},
		{"what must be asked for", "{memory: 1Gi}", 1, "ResourceQuota here/q counts memory, and the pods ask for none"},
		{"other things", "{services: 1, limits.cpu: 1}", 3, ""},
	} {
		q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: *parsed[corev1.ResourceList](t, x.hard)}}
		q.Namespace, q.Name = "here", "q"
		c := &Change{Objects: &dump.Objects{Pods: []*corev1.Pod{done}}, Policies: Policies{Quotas: []*corev1.ResourceQuota{q}}}
		got := ""
		for range x.pods {
			got = c.quotasOf("here")[0].take(spec)
			if got == "" {
				c.Objects.Pods = append(c.Objects.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "here"}, Spec: *spec})
			}
		}
		if got != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}
