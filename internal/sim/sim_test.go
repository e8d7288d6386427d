package sim

import (
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

// play plays a seed: pods come, the controller crashes now and then, workloads shrink.
func play(t testing.TB, seed uint64, history io.Writer) *World {
	t.Helper()
	w, err := NewWorld(seed, history)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.AddPool("default", nil))
	for i := range 4 {
		must(w.AddApp(fmt.Sprint("web", i), 5+w.draw.IntN(20), []string{"250m", "500m", "1", "2"}[w.draw.IntN(4)], "1Gi"))
	}
	must(w.StartController())
	w.Start()
	for range 5 {
		must(w.Run(time.Duration(1+w.draw.IntN(120)) * time.Second))
		must(w.StartController())
	}
	must(w.Run(5 * time.Minute))
	for _, a := range w.apps {
		w.Scale(a.name, a.replicas/2)
	}
	must(w.Run(15 * time.Minute))
	return w
}

func TestSmoke(t *testing.T) {
	var out io.Writer
	if os.Getenv("SIM_V") != "" {
		out = os.Stdout
	}
	for seed := range uint64(3) {
		begin := time.Now()
		first := play(t, seed, out).Hash()
		took := time.Since(begin)
		if again := play(t, seed, nil).Hash(); again != first {
			t.Errorf("seed %d: %s, then %s", seed, first, again)
		}
		t.Log(seed, first, took)
	}
}
