package migrate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"karpenter/internal/cli"
	"karpenter/internal/operator"
	"karpenter/test/harness"
	"karpenter/test/harness/pocket"
)

// actAs makes the test binary another program: the controller, so that it is a process that can be told to end, or the program
// itself, for the commands of the documentation.
const (
	actAs      = "MIGRATE_TEST_ACT_AS"
	controls   = "controller"
	everything = "karpenter"
)

// patience is how long something may take on a busy machine.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	cmd := &cobra.Command{Use: "karpenter", SilenceUsage: true, SilenceErrors: true}
	switch os.Getenv(actAs) {
	case controls:
		cmd.AddCommand(operator.NewCommand("test"))
	case everything:
		cmd.AddCommand(cli.NewImport("test"))
	default:
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cmd.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// controller is a running one.
type controller struct {
	t       *testing.T
	cmd     *exec.Cmd
	metrics string
	err     error
	ended   chan struct{}
}

// startController runs our controller on a cluster and a pocket AWS.
func startController(t *testing.T, c *harness.Cluster, w *pocket.World) *controller {
	t.Helper()
	run := &controller{t: t, metrics: freePort(t), ended: make(chan struct{})}
	run.cmd = exec.Command(os.Args[0], "controller")
	run.cmd.Env = []string{
		actAs + "=" + controls, "HOME=" + t.TempDir(), "KUBECONFIG=" + c.Kubeconfig, "SYSTEM_NAMESPACE=kube-system", "CLUSTER_NAME=" + w.Cluster,
		"CLUSTER_CA_BUNDLE=" + caBundle(c), "METRICS_PORT=" + run.metrics, "HEALTH_PROBE_PORT=" + freePort(t), "AWS_REGION=" + w.Config.Region, "AWS_ENDPOINT_URL=" + aws.ToString(w.Config.BaseEndpoint),
		"AWS_ACCESS_KEY_ID=AKIATEST", "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true",
	}
	log := &lines{}
	run.cmd.Stdout, run.cmd.Stderr = log, log
	run.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := run.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		run.err = run.cmd.Wait()
		close(run.ended)
	}()
	t.Cleanup(func() {
		_ = run.cmd.Process.Kill()
		<-run.ended
		if t.Failed() {
			t.Logf("log of the controller:\n%s", log)
		}
	})
	return run
}

// stop asks it to end, and waits.
func (c *controller) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	select {
	case <-c.ended:
		if c.err != nil {
			c.t.Errorf("the controller ended with %v", c.err)
		}
	case <-time.After(patience):
		c.t.Fatal("the controller did not end")
	}
}

// must fails the test if it has ended by itself.
func (c *controller) must() {
	c.t.Helper()
	select {
	case <-c.ended:
		c.t.Fatalf("the controller has ended: %v", c.err)
	default:
	}
}

// scrape is the text of its metrics, or nothing while it does not answer.
func (c *controller) scrape() string {
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://127.0.0.1:"+c.metrics+"/metrics", http.NoBody)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// until waits for something to come true.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("it did not come to this: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
