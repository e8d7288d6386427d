package plane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// lifelineEnv tells the multi-call binary to end when its standard input does. The same name is in kube/main.go.
const lifelineEnv = "KUBE_LIFELINE"

// stopGrace is how long a process may take to end after it was asked to; then it is killed.
const stopGrace = 5 * time.Second

// process is one running child.
type process struct {
	name     string
	logFile  string
	cmd      *exec.Cmd
	lifeline io.Closer
	done     chan struct{} // closed when the child has ended
	err      error         // how it ended; read after done
}

// underLifeline is a shell's script that runs the program that its arguments are, and ends it when standard input does. It is for programs
// that do not know lifelineEnv.
const underLifeline = `exec 3<&0; "$@" </dev/null 3<&- & p=$!; trap 'kill $p' TERM; (cat <&3; kill -9 $p) >/dev/null 2>&1 & wait $p; wait $p`

// spawnOther starts a program that is not of the multi-call binary.
func spawnOther(file, dir, name string, args []string) (*process, error) {
	return run("/bin/sh", dir, name, append([]string{"-c", underLifeline, name, file}, args...))
}

// spawn starts a program of the multi-call binary.
func spawn(binary, dir, name string, args []string) (*process, error) {
	return run(binary, dir, name, append([]string{name}, args...))
}

// run starts a process with its output in a log file of its own.
func run(file, dir, name string, args []string) (*process, error) {
	p := &process{name: name, logFile: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer log.Close() // the child has its own copy
	p.cmd = exec.Command(file, args...)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), lifelineEnv+"=1")
	if os.Getenv("GOGC") == "" {
		// An API server with a thousand pods has some hundred MB; it may have more of it in exchange for processor time.
		p.cmd.Env = append(p.cmd.Env, "GOGC=200")
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent, which stops the children in order
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making the lifeline of %s: %w", name, err)
	}
	p.lifeline = stdin
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop asks the process to end, and kills it if it does not.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended already
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	_ = p.lifeline.Close()
}

// ended says why a process that should be running is not, with the end of its log.
func (p *process) ended() error {
	return fmt.Errorf("%s ended (%v); the last lines of %s:\n%s", p.name, p.err, p.logFile, tail(p.logFile, 12))
}

func tail(file string, lines int) []byte {
	data, err := os.ReadFile(file)
	if err != nil {
		return []byte(err.Error())
	}
	data = bytes.TrimRight(data, "\n")
	for i := len(data) - 1; i >= 0; i-- {
		if data[i] == '\n' {
			if lines--; lines == 0 {
				return data[i+1:]
			}
		}
	}
	return data
}

// stopAll ends processes at once where order does not matter: the last started first, so that nothing logs errors
// about a server that left before its clients.
func stopAll(processes []*process) {
	if len(processes) == 0 {
		return
	}
	clients, servers := processes[min(2, len(processes)):], processes[:min(2, len(processes))]
	var wait sync.WaitGroup
	for _, p := range clients {
		wait.Go(p.stop)
	}
	wait.Wait()
	for i := len(servers) - 1; i >= 0; i-- {
		servers[i].stop()
	}
}

var errPortTaken = errors.New("a port was taken by another program meanwhile")

// portTaken tells from a log that the process ended because its port was in use.
func (p *process) portTaken() bool {
	return bytes.Contains(tail(p.logFile, 40), []byte("address already in use"))
}
