package web

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/clouds"
	"karpenter/internal/local"
	"karpenter/internal/operator"
	"karpenter/test/browser"
	"karpenter/test/harness"
)

// TestMain makes this binary a controller too, so that what is tested is this tree and not what was built before.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "controller" {
		os.Exit(controller())
	}
	os.Exit(browser.Main(m))
}

func controller() int {
	local.Lifeline()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "karpenter", SilenceUsage: true}
	root.AddCommand(operator.NewCommand("test", clouds.Plugins()...))
	if err := root.ExecuteContext(ctx); err != nil {
		return 1
	}
	return 0
}

// start is a whole cluster.
func start(t *testing.T) *local.Cluster {
	t.Helper()
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cluster")
	cluster, err := local.Start(t.Context(), local.Options{
		Binary: binary, Dir: dir, ClusterName: "my-cluster", Region: "us-west-2", BootTime: time.Second, Program: self,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the controller's log:\n%s", cluster.LogTail(50))
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// deployment runs so many pods of two cores.
func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(0)),
				Containers: []corev1.Container{{
					Name: "main", Image: "registry.k8s.io/pause:3.10",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("3Gi")}},
				}},
			}},
		},
	}
}

func TestTheDashboardFollowsTheCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole cluster takes a while; not with -short")
	}
	cluster := start(t)
	x := browser.New(t, cluster.DashboardURL, "Failed to load resource", "ERR_CONNECTION")
	x.Open("/")
	x.See("my-cluster")
	x.Wait(`document.querySelector('#line').dataset.state === 'live'`)
	if err := cluster.Client.Create(t.Context(), deployment("shop", 9)); err != nil {
		t.Fatal(err)
	}
	// Pods that wait lead to a decision, a node, and pods that run there: all of it without a touch of the page.
	x.Wait(`document.querySelector('.feed .badge[data-kind="Plan"], .feed .badge[data-kind="Launch"]')`)
	x.Hash("#/fleet?as=table")
	x.See("default")
	x.Wait(`[...document.querySelectorAll('tbody tr')].some((row) => row.innerText.includes('default') && row.querySelector('.badge[data-kind="ready"]'))`)
	x.Hash("#/fleet")
	x.Wait(`[...document.querySelectorAll('.figure-value, .fleet-summary')].some((e) => /\d+ nodes/.test(e.innerText))`)
	node := newest(t, cluster)
	x.Hash("#/node/" + node)
	x.Wait(`document.querySelector('.verdict') && document.querySelectorAll('tbody .pod-name').length > 0`)
	x.See("shop-")

	x.Hash("#/")
	pods := `Number([...document.querySelectorAll('.figure')].find((f) => f.innerText.startsWith('Pods')).querySelector('strong').innerText)`
	x.Wait(pods + " > 9 && document.querySelector('.figures').innerText.includes('none pending')")
	before := browser.Eval[int](x, pods)
	scaled := deployment("shop", 2)
	if err := cluster.Client.Patch(t.Context(), scaled, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`))); err != nil {
		t.Fatal(err)
	}
	x.Wait(fmt.Sprintf("%s <= %d", pods, before-7))
	x.Shot("local-overview")
}

// newest is the name of the claim of a node that a pool made.
func newest(t *testing.T, cluster *local.Cluster) string {
	t.Helper()
	list := &corev1.NodeList{}
	if err := cluster.Client.List(t.Context(), list, client.HasLabels{"karpenter.sh/nodepool"}); err != nil || len(list.Items) == 0 {
		t.Fatalf("%d nodes of pools: %v", len(list.Items), err)
	}
	return fmt.Sprintf("node/%s", list.Items[0].Name)
}
