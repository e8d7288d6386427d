package migrate

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/test/harness"
	"karpenter/test/harness/simcloud"
)

// deployment is one that nobody runs: it stands for a controller that is scaled down.
func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: name, Command: []string{"./" + name, "--nodes=1:3:web"}}}},
		}},
	}
}

// scaledDown checks what the reader has done to a deployment.
func scaledDown(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: name}, d); err != nil || *d.Spec.Replicas != 0 {
		t.Errorf("%s: %v, %v replicas", name, err, d.Spec.Replicas)
	}
}

// TestMigration_FourSteps follows the page on the way from Cluster Autoscaler as far as it speaks to the cluster.
func TestMigration_FourSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane; not with -short")
	}
	t.Parallel()
	c := harness.Start(t, harness.Options{})
	labels := map[string]string{"eks.amazonaws.com/nodegroup": "web"}
	objects := []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: labels}}, deployment("cluster-autoscaler"),
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1", Controller: new(true)}}},
			Spec:       corev1.PodSpec{NodeName: "old", TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		},
	}
	for _, object := range objects {
		if err := c.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	out := follow(t, reader{c, simcloud.Start(t, simcloud.Options{}), t.TempDir()}, "migrate-from-cluster-autoscaler.md", "TestMigration_FourSteps")
	for _, want := range []string{"node/old cordoned", "pod/web evicted", "node/old drained", "deployment.apps/cluster-autoscaler scaled"} {
		if !strings.Contains(out, want) {
			t.Errorf("it was not said: %s\n%s", want, out)
		}
	}
	scaledDown(t, c, "cluster-autoscaler")
}
