package sim

import (
	"runtime"
	"testing"
)

// TestS13_NothingOutlivesItsWorld plays worlds with crashes and counts what is left of them.
func TestS13_NothingOutlivesItsWorld(t *testing.T) {
	before := 0
	for seed := range uint64(4) {
		w, err := Play(Draw(seed), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		left := len(w.loop.tasks)
		if left > 0 {
			t.Errorf("seed %d: %d tasks are left", seed, left)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Logf("%d goroutines, %d MB", runtime.NumGoroutine(), m.HeapAlloc>>20)
		if seed == 0 {
			before = runtime.NumGoroutine()
		}
	}
	if now := runtime.NumGoroutine(); now > before+5 {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines, %d after the first world:\n%s", now, before, buf[:runtime.Stack(buf, true)])
	}
}
