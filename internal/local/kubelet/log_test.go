package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	log, err := openLog(filepath.Join(t.TempDir(), "log"))
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
	if got := tail(log.name, 1); got != "two\n" {
		t.Errorf("tail: %q", got)
	}
	again, err := openLog(log.name)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if before, err := os.ReadFile(log.name + previousSuffix); err != nil || string(before) != string(data) {
		t.Errorf("the log before: %q, %v", before, err)
	}
}
