// Package program lets a test binary be the program too, so that tests can run the controller as a process of its own, which is told to
// end or has only the rights of its account, and shells can run the commands of the documentation.
package program

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"karpenter/internal/local"
	"karpenter/internal/local/plane"
	"karpenter/test/harness/simcloud"
)

const (
	// name is the one by which a test binary that is called is the program.
	name = "karpenter"
	// Patience is how long something may take on a busy computer.
	Patience = 5 * time.Minute
	// grace is what a controller gets to give up its lease.
	grace = 15 * time.Second
)

// Act is the first line of a TestMain: where the test binary is called as the program it runs the commands instead of the tests, and does
// not return.
func Act(commands ...*cobra.Command) {
	if filepath.Base(os.Args[0]) != name {
		return
	}
	local.Lifeline()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root := &cobra.Command{Use: name, SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(commands...)
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Place puts the program into a folder, for shells, and returns its file.
func Place(tb testing.TB, dir string) string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(dir, name)
	if err := os.Link(self, file); err != nil {
		tb.Fatal(err)
	}
	return file
}

// Options say how a controller is run.
type Options struct {
	// Args are the program's arguments; "controller" if there are none.
	Args []string
	// Env is its environment, beside ports of its own and what leads to World.
	Env   map[string]string
	World *simcloud.World
}

// Controller is one that runs.
type Controller struct {
	// Metrics is the port of its metrics.
	Metrics string
	Log     *Log

	tb    testing.TB
	cmd   *exec.Cmd
	err   error
	ended chan struct{}
}

// Start runs the controller until the test ends. Its log is shown if the test fails.
func Start(tb testing.TB, opts Options) *Controller {
	tb.Helper()
	c := &Controller{Metrics: FreePort(tb), Log: &Log{}, tb: tb, ended: make(chan struct{})}
	if len(opts.Args) == 0 {
		opts.Args = []string{"controller"}
	}
	c.cmd = exec.Command(os.Args[0], opts.Args...)
	c.cmd.Args[0] = name
	for name, value := range opts.Env {
		c.cmd.Env = append(c.cmd.Env, name+"="+value)
	}
	c.cmd.Env = append(c.cmd.Env, "HOME="+tb.TempDir(), "METRICS_PORT="+c.Metrics, "HEALTH_PROBE_PORT="+FreePort(tb), "AWS_REGION="+opts.World.Config.Region,
		"AWS_ENDPOINT_URL="+aws.ToString(opts.World.Config.BaseEndpoint), "AWS_ACCESS_KEY_ID=AKIATEST", "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true")
	c.cmd.Stdout, c.cmd.Stderr = c.Log, c.Log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	tb.Cleanup(func() {
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
		kill := time.AfterFunc(grace, func() { _ = c.cmd.Process.Kill() })
		defer kill.Stop()
		<-c.ended
		if tb.Failed() {
			tb.Logf("log of the controller:\n%s", c.Log)
		}
	})
	return c
}

// Stop asks it to end, and waits.
func (c *Controller) Stop() {
	c.tb.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.tb.Fatal(err)
	}
	select {
	case <-c.ended:
		if c.err != nil {
			c.tb.Errorf("the controller ended with %v", c.err)
		}
	case <-time.After(Patience):
		c.tb.Fatal("the controller did not end")
	}
}

// MustRun fails the test if it has ended by itself.
func (c *Controller) MustRun() {
	c.tb.Helper()
	select {
	case <-c.ended:
		c.tb.Fatalf("the controller has ended: %v", c.err)
	default:
	}
}

// Scrape is the text of its metrics, or nothing while it does not answer.
func (c *Controller) Scrape() string {
	request, err := http.NewRequestWithContext(c.tb.Context(), http.MethodGet, "http://127.0.0.1:"+c.Metrics+"/metrics", http.NoBody)
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

// Log is text that is read while it is written.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all that has been written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// FreePort is a port that nobody listens on.
func FreePort(tb testing.TB) string {
	tb.Helper()
	ports, err := plane.Ports(tb.TempDir(), "any")
	if err != nil {
		tb.Fatal(err)
	}
	return strconv.Itoa(ports[0])
}

// Until waits for something to come true.
func Until(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			tb.Fatalf("it did not come to this: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
