package operator_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"karpenter/internal/cloud/simaws"
	"karpenter/internal/clouds"
	"karpenter/internal/local/plane"
	"karpenter/internal/operator"
	"karpenter/test/harness"
)

// asController makes the test binary the controller, so that tests have a process of their own to start and kill.
const asController = "OPERATOR_TEST_AS_CONTROLLER"

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(asController) != "" {
		os.Exit(controllerMain())
	}
	os.Exit(harness.Main(m, harness.Options{}, func(c *harness.Cluster) { cluster = c }))
}

// controllerMain is what the program's main does for the subcommand.
func controllerMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := operator.NewCommand("1.2.3", clouds.Plugins()...)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(os.Args[1:])
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		return 1
	}
	return 0
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// newAWS serves an AWS simulator that knows the cluster.
func newAWS(t *testing.T) string {
	t.Helper()
	url, _ := newObservedAWS(t)
	return url
}

// newObservedAWS is the same; tried returns the instance types whose launch has been tried without launching.
func newObservedAWS(t *testing.T) (url string, tried func() []string) {
	t.Helper()
	sim, err := simaws.New(simaws.Options{
		Clock: realClock{}, Seed: 1, Region: "us-west-2", Queue: "test", KubernetesVersions: []string{"1.37"},
		Clusters: []simaws.Cluster{{Name: "test", Version: "1.37", Endpoint: cluster.Config.Host, ServiceCIDR: "10.100.0.0/16"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var types []string
	handler := sim.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if form, err := neturl.ParseQuery(string(body)); err == nil && form.Get("Action") == "RunInstances" && form.Get("DryRun") == "true" {
			mu.Lock()
			types = append(types, form.Get("InstanceType"))
			mu.Unlock()
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(types)
	}
}

// child is a controller in a process of its own.
type child struct {
	t               *testing.T
	cmd             *exec.Cmd
	metrics, health int
	exited          chan struct{}
	err             error

	mu    sync.Mutex
	lines []string
}

// startChild starts a controller. env is added to what it needs to find the cluster and AWS.
func startChild(t *testing.T, env []string, args ...string) *child {
	t.Helper()
	c := &child{t: t, metrics: freePort(t), health: freePort(t), exited: make(chan struct{})}
	c.cmd = exec.Command(os.Args[0], args...)
	c.cmd.Env = append([]string{
		asController + "=1", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + cluster.Kubeconfig, "SYSTEM_NAMESPACE=kube-system",
		"CLUSTER_NAME=test", "METRICS_PORT=" + strconv.Itoa(c.metrics), "HEALTH_PROBE_PORT=" + strconv.Itoa(c.health),
		"AWS_REGION=us-west-2", "AWS_ACCESS_KEY_ID=AKIATEST", "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
	}, env...)
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stderr = c.cmd.Stdout
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.read(out)
		c.err = c.cmd.Wait()
		close(c.exited)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.exited
		if t.Failed() {
			t.Logf("log of the controller:\n%s", strings.Join(c.log(), "\n"))
		}
	})
	return c
}

func (c *child) read(out io.Reader) {
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		c.mu.Lock()
		c.lines = append(c.lines, scanner.Text())
		c.mu.Unlock()
	}
}

func (c *child) log() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lines...)
}

// get asks the controller until the answer is as wanted, and returns it.
func (c *child) get(port int, path string, wanted func(status int, body string) bool) string {
	c.t.Helper()
	return c.await(c.t, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), wanted)
}

// await is get for a part of a test.
func (c *child) await(t *testing.T, url string, wanted func(status int, body string) bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var last string
	for {
		status, body, err := ask(ctx, url)
		if err == nil && wanted(status, body) {
			return body
		}
		last = fmt.Sprintf("%d %s %v", status, body, err)
		select {
		case <-ctx.Done():
			if len(last) > 5000 {
				last = "a long one"
			}
			t.Fatalf("%s: last answer was %s", url, last)
		case <-c.exited:
			t.Fatalf("%s: the controller ended: %v", url, c.err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ask(ctx context.Context, url string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func ok(status int, _ string) bool { return status == http.StatusOK }

// stop asks the controller to end, and fails the test if it does not do so in time and in order.
func (c *child) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	select {
	case <-c.exited:
		if c.err != nil {
			c.t.Errorf("the controller ended with %v", c.err)
		}
	case <-time.After(time.Minute):
		c.t.Error("the controller did not end within a minute of SIGTERM")
	}
}

// wait returns the exit code of a controller that ends by itself.
func (c *child) wait() int {
	c.t.Helper()
	select {
	case <-c.exited:
		var exit *exec.ExitError
		if errors.As(c.err, &exit) {
			return exit.ExitCode()
		}
		return 0
	case <-time.After(5 * time.Minute):
		c.t.Fatal("the controller is still running")
		return 0
	}
}

// message waits for a log line with that message, and returns its keys.
func (c *child) message(wanted string) map[string]any {
	c.t.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		for _, line := range c.log() {
			keys := map[string]any{}
			if json.Unmarshal([]byte(line), &keys) == nil && keys["message"] == wanted {
				return keys
			}
		}
		select {
		case <-deadline:
			c.t.Fatalf("no log line says %q", wanted)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	ports, err := plane.Ports(t.TempDir(), "any")
	if err != nil {
		t.Fatal(err)
	}
	return ports[0]
}
