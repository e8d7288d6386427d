package local

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClaimFolder(t *testing.T) {
	t.Run("refuses a second cluster", func(t *testing.T) {
		dir := t.TempDir()
		folder, err := claimFolder(dir, false, "")
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		if _, err := claimFolder(dir, true, ""); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("got %v, want it refused", err)
		}
	})
	t.Run("leaves foreign folders alone", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "thesis.txt")
		if err := os.WriteFile(file, []byte("years of work"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := claimFolder(dir, true, ""); err == nil || !strings.Contains(err.Error(), "--dir") {
			t.Errorf("got %v, want an error that says what to do", err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	})
	t.Run("fresh drops the earlier cluster", func(t *testing.T) {
		dir := t.TempDir()
		for _, fresh := range []bool{false, true} {
			folder, err := claimFolder(dir, fresh, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o600); err != nil && !fresh {
				t.Fatal(err)
			}
			folder.Close()
		}
		folder, err := claimFolder(dir, true, "")
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
			t.Errorf("the earlier cluster's data: %v, want it gone", err)
		}
	})
	t.Run("one kind of cluster does not become the other", func(t *testing.T) {
		dir := t.TempDir()
		for _, c := range []struct {
			kind  string
			fresh bool
			ok    bool
		}{{"", false, true}, {"", false, true}, {"no-karpenter", false, false}, {"no-karpenter", true, true}, {"no-karpenter", false, true}, {"", false, false}} {
			folder, err := claimFolder(dir, c.fresh, c.kind)
			if err == nil {
				folder.Close()
			}
			if c.ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "--fresh") {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}

func TestSettingsLeadNowhereElse(t *testing.T) {
	got := settingsIn([]string{"HOME=/home/me", "AWS_PROFILE=production", "KUBECONFIG=/home/me/.kube/config", "CLUSTER_NAME=production", "FEATURE_GATES=NodeRepair=true", "GOGC=50"})
	if want := map[string]string{"FEATURE_GATES": "NodeRepair=true", "GOGC": "50"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
