package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness"
)

// second is a manifest that nobody applies.
const second = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: second, namespace: default}
spec:
  replicas: 4
  selector: {matchLabels: {app: second}}
  template:
    metadata: {labels: {app: second}}
    spec:
      containers: [{name: main, image: "registry.k8s.io/pause:3.10", resources: {requests: {cpu: "1", memory: 1Gi}}}]
`

// TestCommandsOnATerminal asks a cluster what people ask, as they do.
func TestCommandsOnATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, karpv1.NeverDuration(), "")
	w.scale(3)
	w.awaitSettled(3)
	manifest := filepath.Join(t.TempDir(), "second.yaml")
	w.must(os.WriteFile(manifest, []byte(second), 0o600))
	t.Run("top", func(t *testing.T) { topOnATerminal(t, w.Kubeconfig) })
	t.Run("explain", func(t *testing.T) { explainOnATerminal(t, w.Kubeconfig) })
	t.Run("plan", func(t *testing.T) { planOnATerminal(t, w.Kubeconfig, manifest) })
}

// terminal is a program on a terminal of its own.
type terminal struct {
	t            *testing.T
	master, self *os.File
	cmd          *exec.Cmd

	mu   sync.Mutex
	said bytes.Buffer
	done chan struct{} // closed when nothing more can come
	// before is how the terminal was when the program began.
	before syscall.Termios
}

// onTerminal starts the program on a terminal of 80 by 24 characters.
func onTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var number, locked int32
	control(t, master, syscall.TIOCGPTN, unsafe.Pointer(&number))
	control(t, master, syscall.TIOCSPTLCK, unsafe.Pointer(&locked))
	self, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	control(t, self, syscall.TIOCSWINSZ, unsafe.Pointer(&struct{ rows, columns, x, y uint16 }{24, 80, 0, 0}))
	x := &terminal{t: t, master: master, self: self, done: make(chan struct{})}
	x.before = x.attributes()
	x.cmd = exec.CommandContext(t.Context(), filepath.Join(root, "bin", "karpenter"), args...)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = self, self, self
	x.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=")
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go x.listen()
	t.Cleanup(func() {
		_ = self.Close()
		_ = master.Close()
		<-x.done
	})
	return x
}

func (x *terminal) listen() {
	defer close(x.done)
	buffer := make([]byte, 4096)
	for {
		n, err := x.master.Read(buffer)
		x.mu.Lock()
		x.said.Write(buffer[:n])
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.said.String()
}

// await waits for words on the terminal, counted from a place in what was said before.
func (x *terminal) await(from int, words ...string) {
	x.t.Helper()
	deadline := time.Now().Add(calm)
	for {
		text := x.text()[from:]
		missing := ""
		for _, word := range words {
			if !strings.Contains(text, word) {
				missing = word
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("waited %v for %q; the terminal said\n%q", calm, missing, text)
		}
		select {
		case <-x.t.Context().Done():
			x.t.Fatal("interrupted")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// press types keys and returns where their effect begins.
func (x *terminal) press(keys string) (from int) {
	x.t.Helper()
	from = len(x.text())
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
	return from
}

// attributes are how the terminal treats what is typed.
func (x *terminal) attributes() (found syscall.Termios) {
	x.t.Helper()
	control(x.t, x.self, syscall.TCGETS, unsafe.Pointer(&found))
	return found
}

// control asks a terminal something, or tells it.
func control(t *testing.T, file *os.File, what uintptr, argument unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), what, uintptr(argument)); errno != 0 {
		t.Fatalf("ioctl %#x: %v", what, errno)
	}
}

var escapes = regexp.MustCompile("\x1b\\[[?0-9;]*[a-zA-Z]")

func topOnATerminal(t *testing.T, kubeconfig string) {
	for _, x := range []struct{ name, end string }{{"q", "q"}, {"Ctrl-C", "\x03"}} {
		t.Run("ends with "+x.name, func(t *testing.T) {
			term := onTerminal(t, "top", "--kubeconfig", kubeconfig)
			term.await(0, " spot), ", "REMOVE", "/month", "ready")
			term.await(term.press("/nothing-has-this"), "filter: nothing-has-this", "0 of ")
			term.await(term.press("\x1b"), " spot), ")
			term.await(term.press("n"), "q quit")
			drawn := strings.ReplaceAll(term.text(), "\x1b[H", "\r\n") // each frame begins at the top
			for _, line := range strings.Split(escapes.ReplaceAllString(drawn, ""), "\r\n") {
				if n := utf8.RuneCountInString(line); n > 80 {
					t.Errorf("a line has %d characters: %q", n, line)
				}
			}
			term.press(x.end)
			if err := term.cmd.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			term.await(0, "\x1b[?25h\x1b[?1049l")
			if after := term.attributes(); after != term.before {
				t.Errorf("the terminal was left as %+v, it was %+v", after, term.before)
			}
		})
	}
}

func planOnATerminal(t *testing.T, kubeconfig, manifest string) {
	term := onTerminal(t, "plan", "--kubeconfig", kubeconfig, "-f", manifest)
	term.await(0, "from controller karpenter-", "Deployment default/second is new: 4 pods", "difference", "It takes about", "\x1b[32m+  (new)", "to add, 0 to remove, +$")
	for _, line := range strings.Split(escapes.ReplaceAllString(term.text(), ""), "\r\n") {
		if n := utf8.RuneCountInString(line); n > 80 && strings.HasPrefix(line, "+") {
			t.Errorf("a row has %d characters: %q", n, line)
		}
	}
	if err := term.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func explainOnATerminal(t *testing.T, kubeconfig string) {
	work := onTerminal(t, "explain", "deployment/swing", "--kubeconfig", kubeconfig)
	work.await(0, "from controller karpenter-", "Deployment default/swing has 3 pods, all of them running. Its share of ", "3 pods running; one of them:")
	if err := work.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	term := onTerminal(t, "explain", "nodepool", "default", "--kubeconfig", kubeconfig)
	// The history is the controller's own: nothing but its ledger knows of launches.
	term.await(0, "from controller karpenter-", "NodePool default can make nodes of", "limit cpu", "History", "Launch Done")
	if err := term.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
