// Package clusterapi gives a test Cluster API: its core controllers on a control plane of the harness, the simulated infrastructure, and
// a Cluster whose Machines become nodes without delay.
package clusterapi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/local/infra"
	"karpenter/internal/local/plane"
	"karpenter/test/harness"
)

// Cluster and Namespace name the Cluster that Start makes.
const (
	Cluster   = "workload"
	Namespace = "default"
)

// Files are those that make capi builds.
func Files() (plane.ClusterAPI, error) {
	root, err := harness.Root()
	if err != nil {
		return plane.ClusterAPI{}, err
	}
	files := plane.ClusterAPIIn(filepath.Join(root, "bin"))
	if _, err := os.Stat(files.Manager); err != nil {
		return files, fmt.Errorf("%w: run \"make capi\" first", err)
	}
	return files, nil
}

// Start runs Cluster API and the simulated infrastructure on a cluster of the harness, which is management and workload cluster in one and
// needs Options.Controllers, until the test ends. Its nodes are ready as soon as they register, and have no kubelet.
func Start(tb testing.TB, cluster *harness.Cluster, boot time.Duration) {
	tb.Helper()
	if err := start(tb, cluster, boot); err != nil {
		tb.Fatal(err)
	}
}

func start(tb testing.TB, cluster *harness.Cluster, boot time.Duration) error {
	ctx := tb.Context()
	files, err := Files()
	if err != nil {
		return err
	}
	kinds, err := infra.Kinds()
	if err != nil {
		return err
	}
	if err := cluster.Plane.Install(ctx, kinds); err != nil {
		return err
	}
	if err := cluster.Plane.StartClusterAPI(ctx, files); err != nil {
		return err
	}
	running, err := infra.Start(ctx, infra.Options{Management: cluster.Config, Nodes: readyNodes{cluster.Client}, BootTime: boot})
	if err != nil {
		return err
	}
	tb.Cleanup(running.Stop)
	kubeconfig, err := os.ReadFile(cluster.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return infra.CreateCluster(ctx, cluster.Client, infra.Cluster{Namespace: Namespace, Name: Cluster, FailureDomains: []string{"zone-a", "zone-b", "zone-c"}, Kubeconfig: kubeconfig})
}

// readyNodes are nodes that are ready at once.
type readyNodes struct{ kube client.Client }

// Join implements infra.Nodes.
func (n readyNodes) Join(ctx context.Context, node *corev1.Node) error {
	node = node.DeepCopy()
	status := node.Status
	if err := n.kube.Create(ctx, node); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("registering node %s: %w", node.Name, err)
	}
	status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	node.Status = status
	if err := n.kube.Status().Update(ctx, node); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("registering node %s: %w", node.Name, err)
	}
	return nil
}

// Leave implements infra.Nodes. The Node is deleted by Cluster API.
func (readyNodes) Leave(context.Context, string, string) error { return nil }
