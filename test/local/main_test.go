package local

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/local"
	"karpenter/test/harness"
)

// patience is far above what anything here takes on an idle computer.
const patience = 5 * time.Minute

// cluster is shared by the tests: starting one takes seconds.
var cluster *local.Cluster

// TestMain makes this binary a program that can be the command under test and its controller, as the real one is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "local" || os.Args[1] == "controller") {
		os.Exit(program())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "karpenter-local-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, err := harness.Binary()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	began := time.Now()
	cluster, err = local.Start(context.Background(), local.Options{
		Binary: binary, Dir: filepath.Join(dir, "cluster"), ClusterName: "my-cluster", Region: "us-west-2", BootTime: 200 * time.Millisecond,
		Program: self,
		Tell:    func(line string) { fmt.Printf("%5.1fs %s\n", time.Since(began).Seconds(), line) },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// program is the command under test, with a controller that does nothing but say so: what the real one does is tested
// where it is.
func program() int {
	local.Lifeline()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "karpenter", SilenceUsage: true}
	root.AddCommand(local.NewCommand(), &cobra.Command{Use: "controller", RunE: func(cmd *cobra.Command, _ []string) error { return idle(cmd.Context()) }})
	if err := root.ExecuteContext(ctx); err != nil {
		return 1
	}
	return 0
}

func idle(ctx context.Context) error {
	for _, name := range []string{"KUBECONFIG", "CLUSTER_NAME", "CLUSTER_ENDPOINT", "INTERRUPTION_QUEUE", "AWS_ENDPOINT_URL", "AWS_REGION", "METRICS_PORT", "HEALTH_PROBE_PORT"} {
		fmt.Printf("setting %s=%s\n", name, os.Getenv(name))
	}
	fmt.Printf("controller %d is running\n", os.Getpid())
	if err := acceptDefaults(ctx); err != nil {
		return err
	}
	for _, port := range []string{"METRICS_PORT", "HEALTH_PROBE_PORT"} {
		listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv(port))
		if err != nil {
			return err
		}
		go func() {
			_ = (&http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadTimeout: time.Second}).Serve(listener)
		}()
	}
	<-ctx.Done()
	return nil
}

// acceptDefaults says of the default pool what the real controller would.
func acceptDefaults(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	kube, err := client.New(config, client.Options{Scheme: harness.Scheme()})
	if err != nil {
		return err
	}
	pool := &karpv1.NodePool{}
	if err := kube.Get(ctx, client.ObjectKey{Name: "default"}, pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := pool.DeepCopy()
	for _, condition := range []string{karpv1.ConditionValidationSucceeded, karpv1.ConditionNodeClassReady} {
		pool.StatusConditions().SetTrue(condition, time.Now())
	}
	return kube.Status().Patch(ctx, pool, client.MergeFrom(before))
}

// eventually looks at an object until it is as wanted.
func eventually[T client.Object](t *testing.T, kube client.Client, object T, wanted func(T) bool) {
	t.Helper()
	until(t, fmt.Sprintf("%T %s to be as wanted", object, object.GetName()), func() bool {
		return kube.Get(t.Context(), client.ObjectKeyFromObject(object), object) == nil && wanted(object)
	})
}

// until polls: the objects in question are of several kinds and processes.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal("interrupted")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
