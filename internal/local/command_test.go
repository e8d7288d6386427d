package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClaimFolder(t *testing.T) {
	t.Run("refuses a second cluster", func(t *testing.T) {
		dir := t.TempDir()
		folder, err := claimFolder(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		if _, err := claimFolder(dir, true); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("got %v, want it refused", err)
		}
	})
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

func TestControllerEnvLeadsNowhereElse(t *testing.T) {
	env := controllerEnv([]string{"HOME=/home/me", "AWS_PROFILE=production", "KUBECONFIG=/home/me/.kube/config", "CLUSTER_NAME=production"},
		map[string]string{"KUBECONFIG": "local", "CLUSTER_NAME": "my-cluster"})
	if got, want := strings.Join(env, " "), "CLUSTER_NAME=my-cluster HOME=/home/me KUBECONFIG=local"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestContainerLog(t *testing.T) {
	log, err := openContainerLog(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, text := range []string{"one\ntw", "o\n", "thr"} {
		if _, err := log.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(log.name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], " stdout F one") || !strings.HasSuffix(lines[1], " stdout F two") {
		t.Errorf("the log has %q, want the two complete lines in the kubelet's form", lines)
	}
	if got := log.tail(1); got != "two\n" {
		t.Errorf("tail: %q", got)
	}
}
