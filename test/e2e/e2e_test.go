// Package e2e plays scenarios on the whole product: the real control plane and scheduler, the AWS simulator, kwok as kubelet,
// and the karpenter binary as a process of its own.
package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"karpenter/test/harness"
)

// slots has room for as many clusters as run at once, in whatever test: each takes about a core while it starts.
var slots = make(chan struct{}, 2)

// slot waits until a cluster may run, and lets the next one run when the test ends.
func slot(t *testing.T) {
	t.Helper()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
}

// TestScenarios plays every scenario that ships, and those of testdata. A scenario ends with an error if something that it expects
// does not come true, or if something else comes of a change than plan has foreseen; what it printed then says why.
func TestScenarios(t *testing.T) {
	t.Parallel()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	kube, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	karpenter := filepath.Join(root, "bin", "karpenter")
	if _, err := os.Stat(karpenter); err != nil {
		t.Fatalf("%v; run make build", err)
	}
	var files []string
	for _, pattern := range []string{filepath.Join(root, "examples", "scenarios", "*.txt"), filepath.Join("testdata", "*.txt")} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d scenarios, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			slot(t)
			play(t, karpenter, kube, file)
		})
	}
}

func play(t *testing.T, karpenter, kube, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, karpenter, "local", "--kube", kube, "--boot-time", "3s", "--scenario", file, "--predict")
	// Where the computer has no time, the pods of one change come seconds apart; plan counts on their being planned together.
	cmd.Env = append(os.Environ(), "BATCH_IDLE_DURATION=3s", "BATCH_MAX_DURATION=1m")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	if asked := foresaw.FindString(out.String()); asked == "" || strings.HasSuffix(asked, " 0") {
		t.Errorf("plan was asked about no change\n%s", out.String())
	}
}

// foresaw finds the number of changes that came to what plan had said.
var foresaw = regexp.MustCompile("plan was right about [0-9]+")
