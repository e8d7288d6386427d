package sim

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	from       = flag.Uint64("from", 0, "the first seed of TestT29")
	crashes    = flag.Int("crashes", 1020, "how often TestT2 crashes the controller")
	launches   = flag.Int("launches", 200, "how many instances TestT3 launches")
	worstSeeds = flag.Int("worst", 30, "how many seeds TestWorst plays")
	atRest     = flag.Bool("rest", false, "whether TestT29 also looks for empty nodes in the end")
	twice      = flag.Uint64("twice", 20, "how many of its seeds TestT29 plays twice")
	seeds      = flag.Uint64("seeds", 200, "how many seeds TestT29 plays")
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

// each does something so many times, two at a time: a play takes one core. Once a minute it says how far it is.
func each(t *testing.T, n int, do func(i int)) {
	began := time.Now()
	var next, played, minutes atomic.Int64
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
				done, now := played.Add(1), int64(time.Since(began).Minutes())
				if minutes.Swap(now) < now {
					t.Logf("%d of %d played", done, n)
				}
			}
		})
	}
	group.Wait()
}

// TestT2_CrashPoints records quiet days and then crashes the controller at each write and each call, before and after it takes effect, and at
// some once more a few effects later.
func TestT2_CrashPoints(t *testing.T) {
	var crashing []*Plan
	asked := 0
	for seed := *from + 1; asked < *crashes; seed++ {
		whole, err := Play(Crashing(seed), nil, nil)
		if err != nil {
			t.Fatalf("seed %d without a crash: %v\n%s", seed, err, Crashing(seed))
		}
		r := rand.New(rand.NewPCG(seed, 6))
		for at := 1; at <= whole.eventful && asked < *crashes; at++ {
			for _, when := range []string{"before", "after"} {
				asked++
				list := []string{fmt.Sprintf("%d %s", at, when)}
				if r.IntN(5) == 0 { // two deep
					asked++
					list = append(list, fmt.Sprintf("%d %s", at+1+r.IntN(40), []string{"before", "after"}[r.IntN(2)]))
				}
				crashing = append(crashing, Crashing(seed, list...))
			}
		}
	}
	var points, broken atomic.Int64
	each(t, len(crashing), func(i int) {
		w, err := Play(crashing[i], history(), nil)
		if err != nil {
			broken.Add(1)
			t.Errorf("%v\n%s", err, crashing[i])
		}
		if w != nil {
			points.Add(int64(w.crashed))
		}
	})
	if 10*points.Load() < int64(9*asked) { // a second crash may not be come to, a first one always is
		t.Errorf("%d of %d crash points crashed: the others lie where the controller does not come to", points.Load(), asked)
	}
	t.Logf("| T2 crash points, in %d plays | %d | %d |", len(crashing), points.Load(), broken.Load())
}

// TestT3_Launches has calls that launch and end instances be carried out and not answered.
func TestT3_Launches(t *testing.T) {
	const nodes, times = 40, 5
	var made, claimed, broken atomic.Int64
	const usual = nodes * times * 94 / 100 // some pods find a node that has not gone yet
	each(t, (*launches+usual-1)/usual, func(i int) {
		plan := Launches(*from+uint64(i), nodes, times)
		w, err := Play(plan, history(), nil)
		if w != nil {
			made.Add(int64(w.made))
			claimed.Add(int64(w.claimed))
		}
		switch {
		case err != nil:
			broken.Add(1)
			t.Errorf("%v\n%s", err, plan)
		case w.made > w.claimed:
			broken.Add(1)
			t.Errorf("%d instances for %d NodeClaims\n%s", w.made, w.claimed, plan)
		}
	})
	t.Logf("| T3 launches, 5 %% of calls without an answer; instances by NodeClaims %.4f | %d | %d |", float64(made.Load())/float64(max(1, claimed.Load())), made.Load(), broken.Load())
}

// TestWorst plays seeds in which things go wrong at the worst moments.
func TestWorst(t *testing.T) {
	var broken atomic.Int64
	each(t, *worstSeeds, func(i int) {
		plan := Worst(*from + uint64(i))
		if _, err := Play(plan, history(), nil); err != nil {
			broken.Add(1)
			t.Errorf("%v\n%s", err, plan)
		}
	})
	t.Logf("| whole-system seeds at the worst moments | %d | %d |", *worstSeeds, broken.Load())
}

// TestT29_Seeds plays seeds in which AWS, watches and the controller itself fail, and then do not; some of them twice, with one worker of
// the engine and with eight, which is to change nothing.
func TestT29_Seeds(t *testing.T) {
	var broken, differ atomic.Int64
	defer func() {
		t.Logf("| whole-system seeds | %d | %d |", *seeds, broken.Load())
		t.Logf("| T29 of them also with 8 instead of 1 workers of the engine | %d | %d differ |", min(*twice, *seeds), differ.Load())
	}()
	each(t, int(*seeds), func(i int) {
		seed, began := *from+uint64(i), time.Now()
		play := func(workers int, history io.Writer) *World {
			plan := Draw(seed)
			plan.Workers = workers
			if *atRest {
				plan.add(plan.End(), "end rest")
			}
			w, err := Play(plan, history, nil)
			if err != nil {
				broken.Add(1)
				t.Errorf("seed %d: %v\n%s", seed, err, plan)
				return nil
			}
			return w
		}
		w := play(1, history())
		if w == nil {
			return
		}
		t.Logf("seed %d: %d effects, %d crashes, %d faults, history %s, %v", seed, w.effects, w.crashed, w.Faults, w.Hash(), time.Since(began).Round(time.Millisecond))
		if i >= int(*twice) {
			return
		}
		if again := play(8, nil); again != nil && again.Hash() != w.Hash() {
			differ.Add(1)
			var one, eight bytes.Buffer
			play(1, &one)
			play(8, &eight)
			t.Errorf("seed %d: %s", seed, firstDifference(one.String(), eight.String()))
		}
	})
}

// firstDifference is where two histories part.
func firstDifference(one, other string) string {
	was, is := strings.Split(one, "\n"), strings.Split(other, "\n")
	for i := range was {
		if i >= len(is) || was[i] != is[i] {
			return fmt.Sprintf("line %d was\n%s\nand then\n%s", i, strings.Join(was[max(0, i-3):i+1], "\n"), strings.Join(is[max(0, i-3):min(i+1, len(is))], "\n"))
		}
	}
	return "it was different the first time, and the same when played again"
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

// TestTakeOver has a process crash in the middle of what it writes, and one lead after it whose watch of NodeClaims stands still: no more of
// them are made than without all that.
func TestTakeOver(t *testing.T) {
	for name, text := range map[string]string{
		"provisioning": `
			seed 7
			0s pool default cpu=400 after=10m
			0s app small 0 500m 1Gi
			0s replicas 2
			1m watch hold NodeClaim 3m standby
			2m scale small 30
			2m when after create/NodeClaim crash
			10m calm
			12m end`,
		"disruption": `
			seed 7
			0s pool default nodes=20 budget=1 after=10m
			0s app large 6 12 24Gi
			0s replicas 2
			3m watch hold NodeClaim 3m standby
			4m drift
			4m when after patch/Node crash
			14m calm
			40m end`,
	} {
		t.Run(name, func(t *testing.T) {
			var claims [2]int
			for i := range claims {
				lines := strings.Split(strings.TrimSpace(text), "\n")
				if i == 1 {
					lines = slices.DeleteFunc(lines, func(s string) bool { return strings.Contains(s, "crash") || strings.Contains(s, "hold") })
				}
				plan, err := ParsePlan(strings.NewReader(strings.Join(lines, "\n")), name)
				if err != nil {
					t.Fatal(err)
				}
				w, err := Play(plan, history(), nil)
				if err != nil {
					t.Fatal(err)
				}
				claims[i] = w.claimed
			}
			if claims[0] != claims[1] {
				t.Errorf("%d NodeClaims were made, and %d where nothing goes wrong", claims[0], claims[1])
			}
		})
	}
}
