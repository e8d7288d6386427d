package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// defaultGrace is what a pod has that does not say how long its end may take.
	defaultGrace = 30 * time.Second
	// restartFirst and restartMost bound the wait before a process that ended is started again; one that was ready, was
	// killed by Kill, or ran for restartCalm, has earned a short one.
	restartFirst = 200 * time.Millisecond
	restartMost  = 30 * time.Second
	restartCalm  = time.Minute
	// lastWords is how long the end of a pod may take to be written.
	lastWords = 10 * time.Second
	// tailLines is how much of a log is shown where a process has ended.
	tailLines = 5
	// maxMessage is how long the message of a process that has ended may be, as it is in kubelets.
	maxMessage = 2048
	// killedCode is the exit code of a container that was killed.
	killedCode = 137
)

// worker runs one pod.
type worker struct {
	k *Kubelet
	// pod is as it was bound, with its address; container is the controller's in it.
	pod       *corev1.Pod
	container *corev1.Container
	dir       string
	stop      context.CancelFunc

	mu sync.Mutex
	// ports are those of the computer, by those of the container.
	ports map[int32]int
	cmd   *exec.Cmd // nil while no process runs
	// killed says that the process was ended by Kill, and not by itself: that is no reason to wait.
	killed bool
	// ending says that the pod is to go, and not only the process.
	ending bool
	state  state

	// reporting is held by who writes the status, so that what was seen last is written last.
	reporting sync.Mutex
}

// end asks the process to end for good, and kills it when its time is up.
func (w *worker) end(grace time.Duration) {
	w.mu.Lock()
	w.ending = true
	w.mu.Unlock()
	w.stop()
	time.AfterFunc(grace, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cmd != nil {
			_ = w.cmd.Process.Kill() // an error means that it has ended
		}
	})
}

// run keeps a process running until ctx ends.
func (w *worker) run(ctx context.Context) {
	for wait := restartFirst; ctx.Err() == nil; wait = min(2*wait, restartMost) {
		began := time.Now()
		reason, err := w.once(ctx)
		if ctx.Err() != nil {
			break
		}
		w.change(ctx, func(s *state) {
			if s.ready || w.killed || time.Since(began) > restartCalm {
				wait = restartFirst
			}
			w.killed = false
			s.running, s.ready, s.started = nil, false, false
			s.waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: err.Error()}
		})
		w.k.opts.Tell("pod %s/%s: %v; trying again in %v", w.pod.Namespace, w.pod.Name, err, wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	w.leave(context.WithoutCancel(ctx))
}

// once runs the process once, and returns why the container does not run any more.
func (w *worker) once(ctx context.Context) (reason string, err error) {
	process, tokens, err := w.prepare(ctx)
	if err != nil {
		return "CreateContainerConfigError", err
	}
	log, err := openLog(w.log())
	if err != nil {
		return "CreateContainerError", err
	}
	defer log.Close()
	process.Log = log
	if err := w.describe(ctx, log.name); err != nil {
		return "CreateContainerError", err
	}
	cmd, err := process.Start(ctx)
	if err != nil {
		return "CreateContainerError", err
	}
	began := metav1.Now()
	w.set(cmd)
	w.k.opts.Tell("pod %s/%s runs as process %d", w.pod.Namespace, w.pod.Name, cmd.Process.Pid)
	w.change(ctx, func(s *state) { s.waiting, s.running, s.pid = nil, &began, cmd.Process.Pid })
	err = w.attend(ctx, cmd, tokens)
	w.set(nil)
	over := terminated(cmd.ProcessState, log)
	over.StartedAt = began
	w.mu.Lock()
	w.state.last = over
	w.state.restarts++
	w.mu.Unlock()
	if err == nil {
		err = errors.New("by itself")
	}
	return "CrashLoopBackOff", fmt.Errorf("the controller ended (%w); the end of its log:\n%s", err, strings.TrimRight(over.Message, "\n"))
}

// attend keeps tokens fresh and asks probes until the process has ended.
func (w *worker) attend(ctx context.Context, cmd *exec.Cmd, tokens []*token) error {
	attending, stop := context.WithCancel(ctx)
	var attendants sync.WaitGroup
	for _, t := range tokens {
		attendants.Go(func() { t.keep(attending) })
	}
	attendants.Go(func() { w.probe(attending) })
	err := cmd.Wait()
	stop()
	attendants.Wait()
	return err
}

// terminated is how a process has ended.
func terminated(how *os.ProcessState, log *logFile) *corev1.ContainerStateTerminated {
	over := &corev1.ContainerStateTerminated{ExitCode: int32(how.ExitCode()), Reason: "Error", Message: tail(log.name, tailLines), FinishedAt: metav1.Now()}
	if over.ExitCode < 0 { // by a signal
		over.ExitCode = killedCode
	}
	if over.ExitCode == 0 {
		over.Reason = "Completed"
	}
	over.Message = over.Message[max(0, len(over.Message)-maxMessage):]
	return over
}

// log is the file of the process's log.
func (w *worker) log() string { return filepath.Join(w.dir, "log") }

func (w *worker) set(cmd *exec.Cmd) {
	w.mu.Lock()
	w.cmd = cmd
	w.mu.Unlock()
}

// pid is the id of the process, or 0 while none runs.
func (w *worker) pid() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cmd == nil {
		return 0
	}
	return w.cmd.Process.Pid
}

// prepare makes everything that the process needs.
func (w *worker) prepare(ctx context.Context) (process Process, tokens []*token, err error) {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return process, nil, fmt.Errorf("making the pod's folder: %w", err)
	}
	node := &corev1.Node{}
	if err := w.k.opts.Kube.Get(ctx, client.ObjectKey{Name: w.pod.Spec.NodeName}, node); err != nil {
		return process, nil, fmt.Errorf("reading the pod's node: %w", err)
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP && w.pod.Status.HostIP == "" {
			w.pod.Status.HostIP = address.Address
		}
	}
	env, err := Environment(ctx, w.k.opts.Kube, w.pod, w.container)
	if err != nil {
		return process, nil, err
	}
	shown, tokens, err := w.identity(ctx)
	if err != nil {
		return process, nil, err
	}
	args := make([]string, len(w.container.Args))
	for i, arg := range w.container.Args {
		args[i] = expand(arg, env)
	}
	maps.Copy(env, w.k.opts.Env)
	maps.Copy(env, shown)
	if shown["AWS_ROLE_ARN"] != "" { // keys would be preferred to the role
		delete(env, "AWS_ACCESS_KEY_ID")
		delete(env, "AWS_SECRET_ACCESS_KEY")
	}
	env["HOSTNAME"], env["HOME"] = w.pod.Name, w.dir
	if folder := env["LEDGER_DIR"]; folder != "" { // volumes are folders of the pod's own
		env["LEDGER_DIR"] = filepath.Join(w.dir, "volumes", folder)
	}
	ports, err := spread(env)
	if err != nil {
		return process, nil, err
	}
	w.mu.Lock()
	w.ports = ports
	w.mu.Unlock()
	process = Process{Program: w.k.opts.Program, Args: args, Grace: w.grace()}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		process.Env = append(process.Env, name+"="+env[name])
	}
	return process, tokens, nil
}

// grace is how long the end of the process may take.
func (w *worker) grace() time.Duration {
	if seconds := w.pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return defaultGrace
}

// outside is the port of this computer for one of the container, which may have a name.
func (w *worker) outside(port intstr.IntOrString) (int, bool) {
	inside := port.IntVal
	for _, named := range w.container.Ports {
		if port.Type == intstr.String && named.Name == port.StrVal {
			inside = named.ContainerPort
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	found, ok := w.ports[inside]
	return found, ok
}

// leave writes the end of a pod that is to go, and lets it go. The process has ended.
func (w *worker) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	w.mu.Lock()
	ending := w.ending
	w.mu.Unlock()
	if !ending {
		return
	}
	w.change(ctx, func(s *state) { s.running, s.waiting, s.ready, s.started, s.over = nil, nil, false, false, true })
	defer os.RemoveAll(w.dir) // what is left is in the cluster's folder, and harms nobody
	for {
		err := w.k.opts.Kube.Delete(ctx, w.pod.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &w.pod.UID})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict is another pod of this name
			return
		}
		select {
		case <-ctx.Done():
			w.k.opts.Tell("pod %s/%s has ended, but cannot be deleted: %v", w.pod.Namespace, w.pod.Name, err)
			return
		case <-time.After(reportAgain):
		}
	}
}
