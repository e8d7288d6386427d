package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"karpenter/internal/cloud/simaws"
)

// awsSim is a run of the aws-sim command.
type awsSim struct {
	listen, region, account, queue, state string
	clusters                              []string
	seed                                  uint64
	anywhere, throttle, quiet             bool
}

// NewAWSSim returns the command that runs the AWS simulator alone.
func NewAWSSim() *cobra.Command {
	a := &awsSim{}
	cmd := &cobra.Command{
		Use:   "aws-sim",
		Short: "Run the AWS simulator on this computer, for the aws command, SDKs and tests",
		Long: `Run the AWS simulator on this computer: a stateful EC2 with the parts of SQS, SSM, IAM, STS, EKS, Pricing, EventBridge,
CloudFormation, FIS and ARC zonal shift that a node autoscaler touches. Unmodified SDKs and the aws command talk to it once
the printed environment is set. Nothing leaves this computer and no credentials are needed.

Faults, stock and events are steered under /_sim/; see docs/reference/aws-sim.md.`,
		Example: `  karpenter aws-sim --cluster my-cluster --queue my-cluster
  curl -X POST localhost:4566/_sim/faults -d '{"kind":"error","action":"ec2:CreateFleet","code":"InternalError","status":500,"percent":20}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&a.listen, "listen", "127.0.0.1:4566", "address to listen on")
	f.BoolVar(&a.anywhere, "listen-anywhere", false, "allow an address that other computers can reach; there is no authentication")
	f.StringVar(&a.region, "region", "us-west-2", "region of requests that name none")
	f.StringVar(&a.account, "account", simaws.DefaultAccount, "account of access keys that are not registered")
	f.StringArrayVar(&a.clusters, "cluster", nil, "EKS cluster that exists from the start, as NAME or NAME=ENDPOINT; may be given several times")
	f.StringVar(&a.queue, "queue", "", "interruption queue that exists from the start, with the event rules that feed it")
	f.Uint64Var(&a.seed, "seed", 1, "seed of ids, prices, delays and percentage faults")
	f.BoolVar(&a.throttle, "throttle", false, "limit request rates as AWS does")
	f.StringVar(&a.state, "state", "", "file to load the state from, if it exists, and to save it to at the end")
	f.BoolVar(&a.quiet, "quiet", false, "do not print calls")
	return cmd
}

// wallClock is the computer's clock.
type wallClock struct{}

// Now is the present time.
func (wallClock) Now() time.Time { return time.Now() }

// After delivers when d has passed.
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (a *awsSim) run(ctx context.Context, out io.Writer) error {
	if err := a.checkAddress(); err != nil {
		return err
	}
	opt := simaws.Options{
		Clock: wallClock{}, Seed: a.seed, Region: a.region, Account: a.account, Queue: a.queue, Throttle: a.throttle,
	}
	for _, c := range a.clusters {
		name, endpoint, _ := strings.Cut(c, "=")
		opt.Clusters = append(opt.Clusters, simaws.Cluster{Name: name, Endpoint: endpoint})
	}
	if !a.quiet {
		log := &callLog{out: out}
		opt.OnCall = log.print
	}
	sim, err := simaws.New(opt)
	if err != nil {
		return err
	}
	if err := a.load(sim); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", a.listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	a.greet(out, listener.Addr().String())
	return a.serve(ctx, sim, listener)
}

// checkAddress refuses to be reachable from other computers by accident.
func (a *awsSim) checkAddress() error {
	host, _, err := net.SplitHostPort(a.listen)
	if err != nil {
		return fmt.Errorf("--listen %q: must be HOST:PORT: %w", a.listen, err)
	}
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && ip.IsLoopback() || a.anywhere {
		return nil
	}
	return fmt.Errorf("--listen %q: other computers could reach this address and there is no authentication; use 127.0.0.1, or add --listen-anywhere if that is meant", a.listen)
}

func (a *awsSim) greet(out io.Writer, address string) {
	fmt.Fprintf(out, `# The AWS simulator listens on %[1]s. To use it from another shell:
export AWS_ENDPOINT_URL=http://%[1]s
export AWS_REGION=%[2]s
export AWS_DEFAULT_REGION=%[2]s
export AWS_ACCESS_KEY_ID=test
export AWS_SECRET_ACCESS_KEY=test
# Older aws commands do not know AWS_ENDPOINT_URL; give them --endpoint-url http://%[1]s
`, address, a.region)
}

func (a *awsSim) serve(ctx context.Context, sim *simaws.Sim, listener net.Listener) error {
	server := &http.Server{Handler: sim.Handler(), ReadHeaderTimeout: 10 * time.Second}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var world sync.WaitGroup
	world.Go(func() { sim.Run(running) })
	world.Go(func() {
		<-running.Done()
		// Long polls may hang for 20 s; nothing is lost by cutting them.
		_ = server.Close()
	})
	err := server.Serve(listener)
	stop()
	world.Wait()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return a.save(sim)
}

func (a *awsSim) load(sim *simaws.Sim) error {
	if a.state == "" {
		return nil
	}
	f, err := os.Open(a.state)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	defer f.Close()
	return sim.Load(f)
}

// save replaces the file at once, so that a crash leaves the old state.
func (a *awsSim) save(sim *simaws.Sim) error {
	if a.state == "" {
		return nil
	}
	f, err := os.CreateTemp(dirOf(a.state), ".aws-sim-*")
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	defer os.Remove(f.Name())
	if err := errors.Join(sim.Save(f), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), a.state); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}

func dirOf(path string) string {
	if i := strings.LastIndexByte(path, os.PathSeparator); i >= 0 {
		return path[:i+1]
	}
	return "."
}

// callLog prints one line per call.
type callLog struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *callLog) print(c simaws.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	result := "ok"
	if c.Code != "" {
		result = fmt.Sprintf("%d %s: %s", c.Status, c.Code, c.Message)
	}
	parts := []string{c.At.Format("15:04:05.000"), c.Service + ":" + c.Action}
	if c.Note != "" {
		parts = append(parts, c.Note)
	}
	if !strings.HasSuffix(c.Who, ":root") {
		parts = append(parts, "("+c.Who+")")
	}
	fmt.Fprintln(l.out, strings.Join(append(parts, "→", result), " "))
}
