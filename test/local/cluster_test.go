package local

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/local"
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
	out, err := kubectl(t.Context(), t, "get", "pods", "-A", "-l", "app.kubernetes.io/name=karpenter").CombinedOutput()
	if err != nil || bytes.Count(out, []byte("1/1     Running")) != 1 {
		t.Errorf("the controller's pods: %v\n%s", err, out)
	}
	for _, args := range [][]string{
		{"get", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=karpenter"},
		{"logs", "-n", "kube-system", "-l", "app.kubernetes.io/name=karpenter"},
		{"logs", "-n", "kube-system", "deploy/karpenter", "-c", "controller"},
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

func TestTheControllerComesBack(t *testing.T) {
	says := func(args ...string) string {
		out, _ := kubectl(t.Context(), t, append([]string{"logs", "-n", "kube-system", "deploy/karpenter"}, args...)...).CombinedOutput()
		return regexp.MustCompile(`controller \d+ is running`).FindString(string(out))
	}
	first := says()
	if want := fmt.Sprintf("controller %d is running", cluster.Pids()["controller"]); first != want {
		t.Errorf("the log says %q, want %q", first, want)
	}
	if err := cluster.KillController(); err != nil {
		t.Fatal(err)
	}
	until(t, "another process to run", func() bool { now := says(); return now != "" && now != first })
	if before := says("--previous"); before != first {
		t.Errorf("the log of the process before says %q, want %q", before, first)
	}
	// Its addresses stay.
	until(t, "the forwarded port to lead to it", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cluster.MetricsURL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// A controller that cannot start is the end of the cluster's, with the reason.
func TestAControllerThatEnds(t *testing.T) {
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	failed, err := local.Start(t.Context(), local.Options{
		Binary: binary, Dir: filepath.Join(t.TempDir(), "cluster"), ClusterName: "my-cluster", Region: "us-west-2", Program: "/bin/false",
	})
	if err == nil {
		t.Error("it is ready", failed.Stop())
	} else if !strings.Contains(err.Error(), "the controller ended 3 times") {
		t.Error(err)
	}
}
