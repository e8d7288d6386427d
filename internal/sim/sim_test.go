package sim

import (
	"os"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	w, err := NewWorld(1, os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddPool("default", nil); err != nil {
		t.Fatal(err)
	}
	if err := w.AddApp("web", 20, "1", "2Gi"); err != nil {
		t.Fatal(err)
	}
	if err := w.StartController(); err != nil {
		t.Fatal(err)
	}
	w.Start()
	if err := w.Run(5 * time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Log(w.Hash(), w.loop.steps)
}
