package kubelet

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectStore holds the objects that environments refer to, by kind and name.
type objectStore struct {
	client.Reader
}

func (objectStore) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch object := into.(type) {
	case *corev1.ConfigMap:
		if key.Name == "settings" {
			object.Data = map[string]string{"LOG_LEVEL": "debug", "odd": "$(NAME)"}
			return nil
		}
	case *corev1.Secret:
		if key.Name == "keys" {
			object.Data = map[string][]byte{"token": []byte("s3cret")}
			return nil
		}
	case *corev1.Node:
		object.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")}
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, key.Name)
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func share(name, divisor string) *corev1.EnvVarSource {
	ref := &corev1.ResourceFieldSelector{Resource: name}
	if divisor != "" {
		ref.Divisor = resource.MustParse(divisor)
	}
	return &corev1.EnvVarSource{ResourceFieldRef: ref}
}

func ofMap(name, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}
}

func ofSecret(name, key string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}
}

func TestEnvironmentIsAKubelets(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-1", UID: "u", Labels: map[string]string{"a/b": "c"}, Annotations: map[string]string{"d": "e"}},
		Spec:       corev1.PodSpec{NodeName: "n", ServiceAccountName: "karpenter"},
	}
	pod.Status.PodIP, pod.Status.HostIP = "10.2.0.1", "10.0.0.1"
	container := &corev1.Container{
		Name: "controller",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")},
		},
		EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
			{Prefix: "K_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: new(true)}},
		},
		Env: []corev1.EnvVar{
			{Name: "NAMESPACE", ValueFrom: field("metadata.namespace")},
			{Name: "NAME", ValueFrom: field("metadata.name")},
			{Name: "LABEL", ValueFrom: field("metadata.labels['a/b']")},
			{Name: "ANNOTATION", ValueFrom: field("metadata.annotations['d']")},
			{Name: "ACCOUNT", ValueFrom: field("spec.serviceAccountName")},
			{Name: "NODE", ValueFrom: field("spec.nodeName")},
			{Name: "IP", ValueFrom: field("status.podIP")},
			{Name: "HOST", ValueFrom: field("status.hostIP")},
			{Name: "CPU_REQUESTS", ValueFrom: share("requests.cpu", "1m")},
			{Name: "CPUS", ValueFrom: share("limits.cpu", "")},
			{Name: "MEMORY", ValueFrom: share("requests.memory", "")},
			{Name: "MEMORY_LIMIT", ValueFrom: share("limits.memory", "1Mi")},
			{Name: "LEVEL", ValueFrom: ofMap("settings", "LOG_LEVEL", false)},
			{Name: "ABSENT", ValueFrom: ofMap("none", "x", true)},
			{Name: "KEY", ValueFrom: ofSecret("keys", "token")},
			{Name: "LOG_LEVEL", Value: "info"},
			{Name: "WHO", Value: "$(NAMESPACE)/$(NAME) $(LATER) $$(NAME) $5 $("},
			{Name: "LATER", Value: "x"},
		},
	}
	got, err := Environment(t.Context(), objectStore{}, pod, container)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"NAMESPACE": "kube-system", "NAME": "karpenter-1", "LABEL": "c", "ANNOTATION": "e", "ACCOUNT": "karpenter", "NODE": "n", "IP": "10.2.0.1", "HOST": "10.0.0.1",
		"CPU_REQUESTS": "1000", "CPUS": "2", "MEMORY": "1073741824", "MEMORY_LIMIT": "8192", "LEVEL": "debug", "KEY": "s3cret", "K_token": "s3cret", "odd": "$(NAME)",
		"LOG_LEVEL": "info", "WHO": "kube-system/karpenter-1 $(LATER) $(NAME) $5 $(", "LATER": "x",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestEnvironmentSaysWhatIsMissing(t *testing.T) {
	for want, source := range map[string]*corev1.EnvVarSource{
		`no key "x" in ConfigMap kube-system/settings`: ofMap("settings", "x", false),
		`"none" not found`:                      ofMap("none", "x", false),
		`no key "x" in Secret kube-system/keys`: ofSecret("keys", "x"),
		`no field "status.phase"`:               field("status.phase"),
	} {
		container := &corev1.Container{Env: []corev1.EnvVar{{Name: "V", ValueFrom: source}}}
		_, err := Environment(t.Context(), objectStore{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system"}}, container)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "variable V") {
			t.Errorf("got %v, want an error that says %s", err, want)
		}
	}
}

func TestEveryReplicaHasPortsOfItsOwn(t *testing.T) {
	first, second := map[string]string{"METRICS_PORT": "9000", "DASHBOARD_ADDRESS": ":8082"}, map[string]string{"METRICS_PORT": "many"}
	ports, err := spread(first)
	if err != nil {
		t.Fatal(err)
	}
	if len(ports) != 4 || ports[9000] == 0 || ports[8081] == 0 || ports[8443] == 0 || ports[8082] == 0 || first["WEBHOOK_SERVICE_PORT"] != "8443" || first["DASHBOARD_ADDRESS"] == ":8082" {
		t.Errorf("ports %v, environment %v", ports, first)
	}
	others, err := spread(second)
	if err != nil {
		t.Fatal(err)
	}
	if len(others) != 2 || others[8081] == ports[8081] || second["METRICS_PORT"] != "many" || second["DASHBOARD_ADDRESS"] != "" {
		t.Errorf("ports %v, environment %v", others, second)
	}
}
