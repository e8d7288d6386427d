package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"karpenter/internal/local/kubelet"
)

const (
	// LifelineEnv asks a process to end when its standard input does: whoever started it holds the other end, and has
	// died if it closes. Lifeline obeys it.
	LifelineEnv = "KARPENTER_LIFELINE"
	// controllerGrace is how long the controller may take to end after it was asked to.
	controllerGrace = 15 * time.Second
	// restartFirst and restartMost bound the wait before a controller that ended is started again; one that ran for
	// restartCalm has earned a short one.
	restartFirst = 200 * time.Millisecond
	restartMost  = 30 * time.Second
	restartCalm  = time.Minute
	// startAttempts is how often the controller may end before it was ready once.
	startAttempts = 3
)

// Lifeline makes this process end with the one that started it, if that asked for it.
func Lifeline() {
	if os.Getenv(LifelineEnv) == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// controller keeps a `karpenter controller` running as a child process.
type controller struct {
	command []string
	env     []string
	log     *kubelet.Log
	tell    func(format string, args ...any)

	stop    context.CancelFunc
	stopped chan struct{}

	mu     sync.Mutex
	cmd    *exec.Cmd // nil between two runs
	ended  int       // how often it has ended by itself
	killed bool      // by Kill, and not by itself: that is no reason to wait
}

// startController starts the child and, until Stop, starts it again whenever it ends.
func startController(ctx context.Context, c *controller) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop, c.stopped = stop, make(chan struct{})
	go func() {
		defer close(c.stopped)
		for wait := restartFirst; ; {
			began := time.Now()
			err := c.run(running)
			if running.Err() != nil {
				return
			}
			c.mu.Lock()
			if c.killed || time.Since(began) > restartCalm {
				wait = restartFirst
			}
			c.killed = false
			c.ended++
			c.mu.Unlock()
			c.tell("the controller ended (%v); starting it again in %v", err, wait)
			select {
			case <-running.Done():
				return
			case <-time.After(wait):
			}
			wait = min(2*wait, restartMost)
		}
	}()
}

// run starts the child once and returns when it has ended.
func (c *controller) run(ctx context.Context) error {
	cmd, err := kubelet.Process{Program: c.command[0], Args: c.command[1:], Env: c.env, Log: c.log, Grace: controllerGrace}.Start(ctx)
	if err != nil {
		return err
	}
	c.set(cmd)
	defer c.set(nil)
	return cmd.Wait()
}

func (c *controller) set(cmd *exec.Cmd) {
	c.mu.Lock()
	c.cmd = cmd
	c.mu.Unlock()
}

// Kill ends the child without a chance to tidy up, as a crash would; it is started again.
func (c *controller) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return errors.New("the controller is not running")
	}
	c.killed = true
	return c.cmd.Process.Kill()
}

// Pid is the child's process id, or 0 between two runs.
func (c *controller) Pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return 0
	}
	return c.cmd.Process.Pid
}

// Stop ends the child for good.
func (c *controller) Stop() {
	c.stop()
	<-c.stopped
}

// awaitReady returns when the controller says that it is ready. One that keeps ending instead will not become so.
func (c *controller) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return fmt.Errorf("asking whether the controller is ready: %w", err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		c.mu.Lock()
		hopeless := c.ended >= startAttempts
		c.mu.Unlock()
		if hopeless {
			return fmt.Errorf("the controller ended %d times instead of becoming ready; the end of its log:\n%s", startAttempts, c.log.Tail(5))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the controller did not become ready (%w); its log is %s", err, c.log.Name())
		case <-ticker.C:
		}
	}
}

// controllerEnv is the environment of the controller: this process's own without what would lead to a real AWS or
// another cluster, and the settings under the names that its chart uses.
func controllerEnv(inherited []string, settings map[string]string) []string {
	var env []string
	for _, pair := range inherited {
		name, _, _ := strings.Cut(pair, "=")
		if _, ours := settings[name]; !ours && !strings.HasPrefix(name, "AWS_") && !strings.HasPrefix(name, "KUBERNETES_") {
			env = append(env, pair)
		}
	}
	for name, value := range settings {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// controllerSettings are the environment variables that make a controller work on this cluster.
// ports are those of metrics, health probes and dashboard.
func controllerSettings(c *Cluster, ports []int) map[string]string {
	settings := map[string]string{
		"KUBECONFIG":       c.Kubeconfig,
		"SYSTEM_NAMESPACE": "kube-system",
		"CLUSTER_NAME":     c.opts.ClusterName, "CLUSTER_ENDPOINT": c.plane.Endpoint(), "INTERRUPTION_QUEUE": c.opts.ClusterName,
		"METRICS_PORT": strconv.Itoa(ports[0]), "HEALTH_PROBE_PORT": strconv.Itoa(ports[1]), "DASHBOARD_ADDRESS": "127.0.0.1:" + strconv.Itoa(ports[2]),
		// One process with nobody to compete with: after a crash it need not wait for its own lease to run out.
		"DISABLE_LEADER_ELECTION": "true",
		// This process serves the conversion webhook, so that objects can be read also while the controller is down.
		"DISABLE_WEBHOOK": "true",
	}
	maps.Copy(settings, awsSettings(c))
	return settings
}

// awsSettings lead to the AWS simulator, and nowhere else.
func awsSettings(c *Cluster) map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL": c.AWSURL, "AWS_REGION": c.opts.Region, "AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": "simulated",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	}
}
