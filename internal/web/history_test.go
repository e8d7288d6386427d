package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"karpenter/internal/ledger"
	"karpenter/internal/model"
)

// begin is when the histories of these tests begin.
var begin = time.Unix(1_000_000_000, 0)

func totals(nodes int) *model.Totals { return &model.Totals{Nodes: nodes, PerHour: float64(nodes) / 3} }

func TestHistoryIsBoundedAndReachesBackAMonth(t *testing.T) {
	var h History
	now := begin
	step := 5 * time.Minute // at first, since a month of samples takes a while
	for ; now.Before(begin.Add(40 * 24 * time.Hour)); now = now.Add(step) {
		if now.Equal(begin.Add(38 * 24 * time.Hour)) {
			step = SampleEvery
		}
		if !h.due(now) {
			t.Fatalf("no sample is due at %v", now)
		}
		if h.add(now, totals(3)); len(h.list) > maxSamples {
			t.Fatalf("%d samples at %v, want at most %d", len(h.list), now, maxSamples)
		}
	}
	if age := now.Sub(time.Unix(int64(h.list[0][0]), 0)); age < 30*24*time.Hour || age > 31*24*time.Hour {
		t.Errorf("the oldest sample is %v old", age)
	}
	if got := now.Sub(h.Newest()); got != SampleEvery {
		t.Errorf("the newest sample is %v old", got)
	}
	for i := 1; i < len(h.list); i++ {
		step, ok := stepOf(now.Add(-SampleEvery), h.list[i-1])
		if gap := h.list[i][0] - h.list[i-1][0]; !ok || gap <= 0 || gap > step {
			t.Fatalf("samples %d and %d are %v s apart, the step is %v", i-1, i, gap, step)
		}
	}
}

// Whatever is taken and whenever: a history is bounded, in order, and the same whether it is thinned out after every sample, all at
// once, or in another process half way.
func TestHistoryProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []sample
		var h History
		now := begin
		for range rapid.IntRange(1, 400).Draw(t, "samples") {
			now = now.Add(time.Duration(rapid.OneOf(rapid.IntRange(10, 15), rapid.IntRange(10, 4000), rapid.IntRange(3600, 200_000)).Draw(t, "seconds")) * time.Second)
			figures := totals(rapid.IntRange(1, 5000).Draw(t, "nodes"))
			all = append(all, sampleOf(now, figures))
			h.add(now, figures)
			if rapid.IntRange(0, 30).Draw(t, "restart") == 0 {
				data, err := h.Encode()
				if err != nil {
					t.Fatal(err)
				}
				h = History{}
				if err := h.Merge(data, now); err != nil {
					t.Fatal(err)
				}
			}
		}
		if once := compact(slices.Clone(all), now); !slices.Equal(once, h.list) {
			t.Fatalf("thinned out bit by bit there are %d samples, all at once %d", len(h.list), len(once))
		}
		if len(h.list) > maxSamples || h.list[len(h.list)-1][0] > float64(now.Unix()) {
			t.Fatalf("%d samples until %v, now it is %v", len(h.list), h.list[len(h.list)-1][0], now.Unix())
		}
		again := compact(slices.Clone(h.list), now)
		if !slices.Equal(again, h.list) || !slices.IsSortedFunc(again, func(a, b sample) int { return cmp.Compare(a[0], b[0]) }) {
			t.Fatal("thinning out again changes it, or it is not in order")
		}
	})
}

// A full history of figures that do not compress is far below what a ConfigMap may hold, and can be read.
func TestTheLargestHistoryCanBeWrittenDown(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h History
	now := begin
	for ; now.Before(begin.Add(32 * 24 * time.Hour)); now = now.Add(SampleEvery) {
		h.list = append(h.list, sampleOf(now, &model.Totals{
			Nodes: random.IntN(1e5), PerHour: 1e5 * random.Float64(), Pending: random.IntN(1e6), PodSlots: model.Amount{Requested: random.Int64N(1e6)},
			CPU: model.Amount{Requested: random.Int64N(1e6), Allocatable: 1e6}, Memory: model.Amount{Requested: random.Int64N(1e6), Allocatable: 1e6},
		}))
	}
	h.list = compact(h.list, now)
	data, err := h.Encode()
	if err != nil || len(data) > 100<<10 {
		t.Fatalf("%d bytes for %d samples: %v", len(data), len(h.list), err)
	}
	var read History
	if err := read.Merge(data, now); err != nil || !slices.Equal(read.list, h.list) {
		t.Errorf("%d samples were read, of %d: %v", len(read.list), len(h.list), err)
	}
}

// What cannot be read changes nothing; of two processes every sample counts once; what a wrong clock has written is dropped.
func TestHistoryMerge(t *testing.T) {
	var h History
	h.add(begin, totals(1))
	zip := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return b.Bytes()
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("hello"), "not JSON": zip("hello"), "another version": zip(`{"version":2,"samples":[]}`), "another shape": zip(`{"version":1,"samples":[["a"]]}`),
		"cut": zip(`{"version":1}`)[:20], "too long": zip(strings.Repeat(" ", maxEncoded) + `{"version":1}`),
	} {
		if err := h.Merge(data, begin); err == nil || len(h.list) != 1 {
			t.Errorf("%s: %v, %d samples", name, err, len(h.list))
		}
	}
	var other History
	other.add(begin.Add(-time.Minute), totals(2))
	other.add(begin, totals(1))
	other.add(begin.Add(time.Hour), totals(4))
	data, err := other.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Merge(data, begin); err != nil || len(h.list) != 2 || h.list[0][2] != 2 || h.list[1][2] != 1 {
		t.Errorf("%v: %v", err, h.list)
	}
	h.add(begin.Add(-30*time.Second), totals(5)) // the clock was put back
	if len(h.list) != 2 || h.list[1][2] != 5 || !h.due(begin) {
		t.Errorf("%v", h.list)
	}
}

func TestNothingIsSampledBeforeTheClusterIsSeen(t *testing.T) {
	var h History
	h.Take(nil, begin)
	h.add(begin, totals(0))
	if len(h.list) != 0 || !h.Newest().IsZero() || h.due(begin.Add(5*time.Second)) || !h.due(begin.Add(10*time.Second)) {
		t.Errorf("%d samples, due after 5 s: %v", len(h.list), h.due(begin.Add(5*time.Second)))
	}
}

func TestSavingsCountEachMoveOnce(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	l := ledger.New(2, "test", func() time.Time { return now })
	var p savingsCounter
	move := func(saves float64) {
		l.Settle(l.Add(ledger.Entry{Kind: ledger.Move, Saves: saves, Outcome: ledger.Open}), ledger.Done, "done")
		p.count(l, now)
		p.count(l, now)
	}
	move(1)
	now = now.Add(2 * time.Hour)
	move(0.5)
	for range 5 { // the ledger forgets the first ones
		l.Add(ledger.Entry{Kind: ledger.Move, Saves: 100, Outcome: ledger.Failed})
		p.count(l, now)
	}
	now = now.Add(time.Hour)
	move(-0.25)
	if p.Moves != 3 || p.PerHour != 1.25 || math.Abs(p.Sum-3.5) > 1e-9 {
		t.Errorf("%d moves, $%v/h, $%v; want 3, 1.25 and 2 + 1.5", p.Moves, p.PerHour, p.Sum)
	}
}
