package local

import (
	"bufio"
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness"
)

func kubectl(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, binary, append([]string{"kubectl", "--kubeconfig", cluster.Kubeconfig}, args...)...)
	cmd.Env = append(cmd.Environ(), "HOME="+t.TempDir())
	return cmd
}

func TestTheClusterLooksLikeOneOnAWS(t *testing.T) {
	for _, name := range []string{"coredns", "karpenter"} {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		eventually(t, cluster.Client, deployment, func(d *appsv1.Deployment) bool { return d.Status.ReadyReplicas == *d.Spec.Replicas })
	}
	for _, name := range []string{"aws-node", "kube-proxy"} {
		daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		eventually(t, cluster.Client, daemons, func(d *appsv1.DaemonSet) bool { return d.Status.NumberReady > 0 })
	}
	for _, object := range []client.Object{&karpv1.NodePool{}, &awsv1.EC2NodeClass{}} {
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: "default"}, object); err != nil {
			t.Errorf("the default %T: %v", object, err)
		}
	}
}

func TestKubectlOfTheGuides(t *testing.T) {
	until(t, "the controller's pods to run", func() bool {
		out, err := kubectl(t.Context(), t, "get", "pods", "-A", "-l", "app.kubernetes.io/name=karpenter").CombinedOutput()
		return err == nil && bytes.Count(out, []byte("1/1     Running")) == 2
	})
	for _, args := range [][]string{
		{"get", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=karpenter"},
		{"logs", "-n", "kube-system", "-l", "app.kubernetes.io/name=karpenter"},
		{"logs", "-n", "karpenter", "-l", "app.kubernetes.io/name=karpenter"},
		{"logs", "-n", "karpenter", "deploy/karpenter"},
		{"get", "nodeclaims"},
		{"get", "nodepools"},
		{"get", "nodes", "-L", "karpenter.sh/capacity-type,node.kubernetes.io/instance-type"},
	} {
		out, err := kubectl(t.Context(), t, args...).CombinedOutput()
		if err != nil {
			t.Errorf("kubectl %q: %v\n%s", args, err, out)
		}
		if args[0] == "logs" && !bytes.Contains(out, []byte("setting CLUSTER_NAME=my-cluster")) {
			t.Errorf("kubectl %q said\n%s\nwant the controller's log", args, out)
		}
	}
}

// Where there is a controller a second one is not run, and says so.
func TestAChartBesideTheController(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chart", Labels: map[string]string{"app.kubernetes.io/name": "karpenter"}},
		Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "controller", Image: "i", Env: []corev1.EnvVar{{Name: "KARPENTER_SERVICE", Value: "karpenter"}}}},
		},
	}
	if err := cluster.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, cluster.Client, pod, func(p *corev1.Pod) bool {
		all := p.Status.ContainerStatuses
		return len(all) == 1 && all[0].State.Waiting != nil && strings.Contains(all[0].State.Waiting.Message, "--no-karpenter")
	})
	if err := cluster.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	until(t, "the pod to be gone", func() bool {
		return apierrors.IsNotFound(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	})
}

func TestTheControllerComesBackAndItsLogGoesOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	follow := kubectl(ctx, t, "logs", "-n", "kube-system", "deploy/karpenter", "-f")
	out, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = follow.Wait()
	}()
	started := make(chan string)
	go func() {
		defer close(started)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasSuffix(lines.Text(), "is running") {
				started <- lines.Text()
			}
		}
	}()
	first := <-started
	if err := cluster.KillController(); err != nil {
		t.Fatal(err)
	}
	if second, ok := <-started; !ok || second == first {
		t.Errorf("after %q the log said %q, want another process", first, second)
	}
}
