package sim

import (
	"flag"
	"io"
	"os"
	"testing"
	"time"
)

var (
	from  = flag.Uint64("from", 0, "the first seed of TestSeeds")
	seeds = flag.Uint64("seeds", 12, "how many seeds TestSeeds plays")
)

func TestMain(m *testing.M) {
	flag.Parse()
	LessGarbageCollection()
	os.Exit(m.Run())
}

func history() io.Writer {
	if os.Getenv("KARPENTER_SIM_HISTORY") != "" {
		return os.Stdout
	}
	return nil
}

// TestT29_SameSeedSameHistory plays seeds twice.
func TestT29_SameSeedSameHistory(t *testing.T) {
	for seed := range uint64(3) {
		first, err := Play(Draw(seed), history(), nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := Play(Draw(seed), nil, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if first.Hash() != again.Hash() {
			t.Errorf("seed %d: history %s, then %s", seed, first.Hash(), again.Hash())
		}
		t.Logf("seed %d: %d effects, %d steps, history %s", seed, first.effects, first.loop.steps, first.Hash())
	}
}

// TestSeeds plays seeds in which AWS, watches and the controller itself fail, and then do not.
func TestSeeds(t *testing.T) {
	for seed := *from; seed < *from+*seeds; seed++ {
		began := time.Now()
		w, err := Play(Draw(seed), history(), nil)
		if err != nil {
			t.Errorf("seed %d: %v (history %s)\n%s", seed, err, w.Hash(), Draw(seed))
			continue
		}
		t.Logf("seed %d: %d effects, %d crashes, %d faults, history %s, %v", seed, w.effects, w.crashed, w.Faults, w.Hash(), time.Since(began).Round(time.Millisecond))
	}
}

func BenchmarkHour(b *testing.B) {
	for b.Loop() {
		w, err := Play(Churn(1, 200, time.Hour), history(), nil)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		w.nodes(func(bool) { n++ })
		b.ReportMetric(float64(n), "nodes")
		b.ReportMetric(float64(w.Events()), "events")
	}
}
