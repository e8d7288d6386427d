package local

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// output collects what a command prints and tells when a text has been printed.
type output struct {
	sync.Mutex
	text  bytes.Buffer
	await string
	seen  chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	had := strings.Contains(o.text.String(), o.await)
	o.text.Write(p)
	if !had && strings.Contains(o.text.String(), o.await) {
		close(o.seen)
	}
	return len(p), nil
}

// run starts the command in a folder and returns how to stop it once the cluster is ready.
func run(t *testing.T, dir string) (stop func()) {
	t.Helper()
	binary, err := filepath.Abs("../../bin/kube")
	if err != nil {
		t.Fatal(err)
	}
	if file := os.Getenv("KARPENTER_KUBE_BINARY"); file != "" {
		binary = file
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := &output{await: "The cluster is ready", seen: make(chan struct{})}
	ended := make(chan error, 1)
	cmd := NewCommand()
	cmd.SetArgs([]string{"--dir", dir, "--kube", binary})
	cmd.SetOut(out)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	select {
	case <-out.seen:
	case err := <-ended:
		t.Fatalf("the command ended before the cluster was ready: %v", err)
	case <-time.After(2 * time.Minute):
		t.Fatalf("the cluster did not become ready; the command said:\n%s", out.text.String())
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("stopping: %v", err)
		}
	}
}

func connect(t *testing.T, dir string) client.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	kube, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

func TestLocalKeepsItsClusterAndItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	stop := run(t, dir)
	pool := probes()[0]
	pool.SetName("kept")
	if err := connect(t, dir).Create(t.Context(), pool); err != nil {
		t.Errorf("a v1beta1 pool: %v", err)
	}
	if _, err := claimFolder(dir, true); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second cluster in the same folder: %v, want it refused", err)
	}
	stop()

	stop = run(t, dir)
	defer stop()
	again := probes()[0]
	if err := connect(t, dir).Get(t.Context(), client.ObjectKey{Name: "kept"}, again); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestClaimFolder(t *testing.T) {
	t.Run("leaves foreign folders alone", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "thesis.txt")
		if err := os.WriteFile(file, []byte("years of work"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := claimFolder(dir, true); err == nil || !strings.Contains(err.Error(), "--dir") {
			t.Errorf("got %v, want an error that says what to do", err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	})
	t.Run("fresh drops the earlier cluster", func(t *testing.T) {
		dir := t.TempDir()
		for _, fresh := range []bool{false, true} {
			folder, err := claimFolder(dir, fresh)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o600); err != nil && !fresh {
				t.Fatal(err)
			}
			folder.Close()
		}
		folder, err := claimFolder(dir, true)
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
			t.Errorf("the earlier cluster's data: %v, want it gone", err)
		}
	})
}
