package sim

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	from    = flag.Uint64("from", 0, "the first seed of TestSeeds")
	crashes = flag.Int("crashes", 40, "how often TestT2 crashes the controller")
	atRest  = flag.Bool("rest", false, "whether TestSeeds also looks for empty nodes in the end")
	twice   = flag.Uint64("twice", 20, "how many seeds TestT29 plays twice")
	seeds   = flag.Uint64("seeds", 12, "how many seeds TestSeeds plays")
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

// TestT29_SameSeedSameHistory plays seeds twice, with one worker of the engine and with eight.
func TestT29_SameSeedSameHistory(t *testing.T) {
	differ := 0
	defer func() {
		t.Logf("| T29 seeds played with 1 and with 8 workers of the engine | %d | %d differ |", *twice, differ)
	}()
	for seed := *from; seed < *from+*twice; seed++ {
		var histories [2]bytes.Buffer
		for i := range histories {
			plan := Draw(seed)
			plan.Workers = []int{1, 8}[i]
			if _, err := Play(plan, &histories[i], nil); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		first, again := strings.Split(histories[0].String(), "\n"), strings.Split(histories[1].String(), "\n")
		for i := range first {
			if i >= len(again) || first[i] != again[i] {
				differ++
				t.Errorf("seed %d: line %d was\n%s\nand then\n%s", seed, i, strings.Join(first[max(0, i-3):i+1], "\n"), strings.Join(again[max(0, i-3):min(i+1, len(again))], "\n"))
				break
			}
		}
	}
}

// TestT2_CrashPoints crashes the controller at effects of a quiet day, before and after they happen, and once more a few effects later.
func TestT2_CrashPoints(t *testing.T) {
	plan := Crashing(1)
	whole, err := Play(plan, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	points, broken := 0, 0
	for i := range *crashes {
		// Spread over the day, another seed each time round.
		seed, at := uint64(1+i/whole.effects), 1+i*whole.effects/min(*crashes, whole.effects)%whole.effects
		when := []string{"before", "after"}[i%2]
		plan := Crashing(seed, fmt.Sprintf("%d %s", at, when))
		if i%5 == 4 { // two deep
			plan = Crashing(seed, fmt.Sprintf("%d %s", at, when), fmt.Sprintf("%d before", at+30))
		}
		w, err := Play(plan, history(), nil)
		if points += w.crashed; err != nil {
			broken++
			t.Errorf("crash %s effect %d of seed %d: %v\n%s", when, at, seed, err, plan)
		}
	}
	t.Logf("| T2 crash points | %d | %d |", points, broken)
}

// TestSeeds plays seeds in which AWS, watches and the controller itself fail, and then do not.
func TestSeeds(t *testing.T) {
	broken := 0
	defer func() { t.Logf("| whole-system seeds | %d | %d |", *seeds, broken) }()
	for seed := *from; seed < *from+*seeds; seed++ {
		began := time.Now()
		plan := Draw(seed)
		if *atRest {
			plan.add(plan.End(), "end rest")
		}
		w, err := Play(plan, history(), nil)
		if err != nil {
			broken++
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
