package kubelet

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Process is a program that is to be started.
type Process struct {
	Program string
	Args    []string
	Env     []string
	// Log gets everything that it prints.
	Log io.Writer
	// Grace is how long it may take to end after it was asked to.
	Grace time.Duration
}

// Start starts the program. It is asked to end when ctx ends, and killed if it takes longer than its grace. Its standard input is a
// pipe that ends with this process, so that it can notice if this one dies; Ctrl-C does not reach it.
func (p Process) Start(ctx context.Context) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, p.Program, p.Args...)
	cmd.Env = p.Env
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = p.Grace
	if _, err := cmd.StdinPipe(); err != nil { // Wait closes it
		return nil, fmt.Errorf("making the lifeline of %s: %w", p.Program, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Program, err)
	}
	return cmd, nil
}

// listener is a setting of the controller that names a port it listens on.
type listener struct {
	setting string
	port    int32
}

// listeners are those settings, with their defaults.
var listeners = []listener{{"METRICS_PORT", 8080}, {"HEALTH_PROBE_PORT", 8081}, {"WEBHOOK_PORT", 8443}}

// spread gives every port that the controller listens on a free one of this computer: its own would be those of the next
// replica too. It changes the environment, and returns which port of the container is which of the computer.
func spread(env map[string]string) (map[int32]int, error) {
	ports := map[int32]int{}
	for _, l := range listeners {
		inside := l.port
		if text := env[l.setting]; text != "" {
			port, err := strconv.ParseInt(text, 10, 32)
			if err != nil { // the controller will say so
				continue
			}
			inside = int32(port)
		}
		outside, err := freePort()
		if err != nil {
			return nil, err
		}
		if l.setting == "WEBHOOK_PORT" { // the API server comes by the Service, whose port stays
			env["WEBHOOK_SERVICE_PORT"] = strconv.Itoa(int(inside))
		}
		env[l.setting], ports[inside] = strconv.Itoa(outside), outside
	}
	host, text, err := net.SplitHostPort(env["DASHBOARD_ADDRESS"])
	port, notNumber := strconv.ParseInt(text, 10, 32)
	if err != nil || notNumber != nil { // there is none, or the controller will say what is wrong with it
		return ports, nil
	}
	outside, err := freePort()
	if err != nil {
		return nil, err
	}
	env["DASHBOARD_ADDRESS"], ports[int32(port)] = net.JoinHostPort(host, strconv.Itoa(outside)), outside
	return ports, nil
}

// freePort is one that nobody listens on. Somebody may before the process does; then it ends, and is started again with another.
func freePort() (int, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
