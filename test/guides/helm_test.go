package guides

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"karpenter/test/blocks"
	"karpenter/test/harness"
)

const (
	// helmGuide is a page that is followed from its first command to its last, on the cluster that it starts itself.
	helmGuide = "docs/start/helm.md"
	// requireHelm, when set in the environment, turns the lack of the helm command from a skipped test into a failed one.
	requireHelm = "KARPENTER_TEST_HELM"
	// stopTime is more than the end of a cluster takes.
	stopTime = time.Minute
)

var (
	// exported is what a reader's shell keeps from one block to the next.
	exported = regexp.MustCompile(`(?m)^export \w+=\S+$`)
	// printed is what the cluster says that another terminal needs.
	printed = regexp.MustCompile(`^\s*export (KUBECONFIG=\S+) (PATH=\S+):\$PATH$`)
)

// TestHelmGuide goes from nothing to nodes by the page alone.
func TestHelmGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster; not with -short")
	}
	t.Parallel()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "bin", "helm")); err != nil {
		if os.Getenv(requireHelm) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	found, err := blocks.Read(filepath.Join(root, filepath.FromSlash(helmGuide)))
	if err != nil {
		t.Fatal(err)
	}
	r, count, keeps := newReader(t), 0, ""
	for _, b := range found {
		if b.Test != t.Name() {
			continue
		}
		count++
		if command := strings.Fields(b.Text); command[0] == "bin/karpenter" {
			r.terminal(command)
			continue
		}
		text := b.Text
		b.Text = keeps + text
		if r.run(b); t.Failed() {
			return // what comes next needs it
		}
		keeps += strings.Join(exported.FindAllString(text, -1), "\n") + "\n"
	}
	if count < 8 {
		t.Errorf("%d blocks were run", count)
	}
}

// terminal runs a command that stays until the test ends, and gives the reader what it prints for other terminals.
func (r *reader) terminal(command []string) {
	r.t.Helper()
	cmd := exec.Command(filepath.Join(r.dir, filepath.FromSlash(command[0])), command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = r.dir, r.env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	told, done := make(chan []string, 1), make(chan string, 1)
	go func() {
		var said strings.Builder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if m := printed.FindStringSubmatch(lines.Text()); m != nil {
				told <- m[1:]
			}
		}
		done <- said.String()
	}()
	r.t.Cleanup(func() {
		kill := time.AfterFunc(stopTime, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Process.Signal(syscall.SIGINT)
		said := <-done
		if err := cmd.Wait(); err != nil {
			r.t.Errorf("%s: %v", strings.Join(command, " "), err)
		}
		r.t.Logf("%s\n%s", strings.Join(command, " "), said)
	})
	select {
	case env := <-told:
		for _, pair := range env {
			name, value, _ := strings.Cut(pair, "=")
			if name == "PATH" {
				value += ":" + os.Getenv("PATH")
			}
			r.env = append(r.env, name+"="+value)
		}
	case said := <-done:
		done <- said
		r.t.Fatalf("%s ended:\n%s", strings.Join(command, " "), said)
	case <-time.After(5 * time.Minute):
		r.t.Fatalf("%s did not become ready", strings.Join(command, " "))
	}
}
