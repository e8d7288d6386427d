// Package harness gives a test package a real Kubernetes to talk to: a control plane of its own on free ports,
// with our CRDs installed, a client and a kubeconfig. Several may run side by side. Everything ends with the test
// process, however that ends.
package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"karpenter/api/crds"
	"karpenter/internal/local/plane"

	buffers "karpenter/api/autoscaling/v1beta1"
	awsv1 "karpenter/api/aws/v1"
	capiv1 "karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	overlays "karpenter/api/karpenter/v1alpha1"
)

// binaryEnv names the control plane binary when it is not in bin/ of this repository.
const binaryEnv = "KARPENTER_KUBE_BINARY"

// Options say which parts of a cluster the tests need; etcd and kube-apiserver always run.
type Options struct {
	Controllers bool
	Scheduler   bool
	// NoCRDs leaves our definitions out.
	NoCRDs bool
	// Conversion runs the webhook that converts between v1beta1 and v1.
	Conversion bool
	// NoWatchCache is for tests that list after every write: lists wait for nothing then.
	NoWatchCache bool
	// Audit is a policy by which the API server notes requests in Cluster.AuditLog.
	Audit string
}

// Cluster is a running control plane with our API in it.
type Cluster struct {
	Config     *rest.Config
	Kubeconfig string
	Client     client.WithWatch
	Plane      *plane.Plane
	// AuditLog is where requests are noted that Options.Audit asks for.
	AuditLog string
	binary   string
	webhook  conversion
}

// Scheme knows Kubernetes' own kinds, definitions of kinds, and ours.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, karpv1.AddToScheme, awsv1.AddToScheme, capiv1.AddToScheme, overlays.AddToScheme, buffers.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// Main is the body of a TestMain: it starts a cluster, hands it to set, runs the tests and stops it. Tests that leave goroutines of the
// product behind fail.
func Main(m *testing.M, opts Options, set func(*Cluster)) int {
	log.SetLogger(logr.Discard()) // controller-runtime's own; without one it complains
	dir, err := os.MkdirTemp("", "karpenter-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	cluster, err := start(context.Background(), dir, opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	set(cluster)
	code := m.Run()
	cluster.Stop()
	if stacks := leaked(); code == 0 && len(stacks) > 0 {
		fmt.Fprintf(os.Stderr, "harness: %d goroutines outlive the tests that have started them:\n\n%s\n", len(stacks), strings.Join(stacks, "\n\n"))
		return 1
	}
	return code
}

// Start gives one test a cluster of its own.
func Start(tb testing.TB, opts Options) *Cluster {
	tb.Helper()
	cluster, err := start(tb.Context(), tb.TempDir(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(cluster.Stop)
	return cluster
}

func start(ctx context.Context, dir string, opts Options) (*Cluster, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	policy := ""
	if opts.Audit != "" {
		policy = filepath.Join(dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(opts.Audit), 0o600); err != nil {
			return nil, fmt.Errorf("writing the audit policy: %w", err)
		}
	}
	c := &Cluster{AuditLog: filepath.Join(dir, "logs", "audit.log"), binary: binary}
	c.Plane, err = plane.Start(ctx, plane.Options{
		Binary: binary, Dir: dir, Controllers: opts.Controllers, Scheduler: opts.Scheduler, AuditPolicy: policy, NoWatchCache: opts.NoWatchCache, Dial: c.webhook.dial,
	})
	if err != nil {
		return nil, err
	}
	c.Config, c.Kubeconfig = c.Plane.Config, c.Plane.Kubeconfig
	c.Client, err = client.NewWithWatch(c.Config, client.Options{Scheme: Scheme()})
	switch {
	case err != nil || opts.NoCRDs:
	case opts.Conversion:
		if err = c.StartConversion(ctx, clock.RealClock{}); err == nil {
			err = c.AwaitConversion(ctx)
		}
	default:
		err = c.Plane.Install(ctx, crds.Objects())
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// Stop ends everything; tests need it only to see what happens then.
func (c *Cluster) Stop() {
	c.StopConversion()
	c.Plane.Stop()
}

// Version is the API server's. Tests ask for it where an older Kubernetes does less.
func (c *Cluster) Version(tb testing.TB) *version.Version {
	tb.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		tb.Fatal(err)
	}
	info, err := client.ServerVersion()
	if err != nil {
		tb.Fatal(err)
	}
	return version.MustParseGeneric(info.GitVersion)
}

// Binary is the control plane binary that the tests run.
func Binary() (string, error) {
	if file := os.Getenv(binaryEnv); file != "" {
		return file, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	file := filepath.Join(root, "bin", "kube")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is not there: run \"make kube\" first, or set %s", file, binaryEnv)
	}
	return file, nil
}

// Root is the folder of this repository.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Kubectl runs the kubectl of the control plane binary against the cluster and returns what it printed on standard
// output; the error holds what it printed on standard error.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.binary, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewBufferString(stdin), &out, &errs
	// A home of its own: kubectl caches what it discovers there, by host and port, and ports are used again.
	cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(c.Kubeconfig), "KUBECONFIG="+c.Kubeconfig)
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %q: %w: %s", args, err, errs.String())
	}
	return out.String(), nil
}
