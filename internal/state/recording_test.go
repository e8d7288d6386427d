package state_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// facts draws what objects do not say.
func facts(t *rapid.T, view *state.View, now time.Time) ledger.Facts {
	f := ledger.Facts{Expected: map[string]string{}, Held: map[string]string{}, Nominated: map[string]time.Time{}, Busy: map[string]string{}, Fixed: map[string]string{}}
	some := func(label string) bool { return rapid.IntRange(0, 4).Draw(t, label) == 0 }
	var claims []string
	for _, n := range view.Nodes {
		if n.Claim != nil {
			claims = append(claims, n.Claim.Name)
			if some("busy") {
				f.Busy[n.Claim.Name] = "it is being taken away already"
			}
			if some("fixed") {
				f.Fixed[n.Claim.Name] = "a move of it was called off a moment ago"
			}
		}
		if some("nominated") {
			f.Nominated[n.World.Name] = now.Add(time.Second)
		}
	}
	for _, p := range view.World.Pending {
		if len(claims) > 0 && some("expected") {
			f.Expected[p.UID] = rapid.SampledFrom(claims).Draw(t, "claim")
		}
	}
	for _, p := range view.World.Pools {
		if some("held") {
			f.Held[p.Name] = "is held back: its nodes never join"
		}
	}
	if some("past") {
		f.Past = ledger.NewPast([]disrupt.Past{{Pool: "pool-0", Type: "large", Zone: "a", CapacityType: "spot", At: now.Add(-time.Minute)}})
	}
	return f
}

// TestRecordingsGiveTheSameAnswers writes random clusters down, reads them back and decides again: every byte must be the same.
func TestRecordingsGiveTheSameAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mirror, clock := state.RandomMirror(t)
		view, now := mirror.View(), clock()
		known := facts(t, view, now)
		opt := disrupt.Options{
			Pack: pack.Options{IgnorePreferences: rapid.Bool().Draw(t, "ignore")}, SpotToSpot: rapid.Bool().Draw(t, "spot"), Turn: rapid.IntRange(0, 3).Draw(t, "turn"),
		}
		snap, in := known.World(view), known.Input(view, now)
		want := &ledger.Answer{Plan: ledger.NewPlanAnswer(snap, pack.Solve(snap, opt.Pack)), Decision: ledger.NewDecisionAnswer(in, disrupt.Decide(in, opt, now))}

		made, err := ledger.Record(view, known, ledger.NewOptions(state.Options{}, opt), now)
		if err != nil {
			t.Fatal(err)
		}
		made.Answer = want
		var file bytes.Buffer
		if err := made.Write(&file); err != nil {
			t.Fatal(err)
		}
		read, err := ledger.Read(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		again, problems, err := read.View()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(state.Tell(view), state.Tell(again)); diff != "" {
			t.Fatalf("the view is another (-want +got):\n%s\n%v", diff, problems)
		}
		for _, workers := range []int{1, 3} {
			if diff := cmp.Diff(text(t, want), text(t, read.Replay(again, workers))); diff != "" {
				t.Fatalf("the answer is another (-want +got):\n%s", diff)
			}
		}
		var second bytes.Buffer
		if err := read.Write(&second); err != nil || !bytes.Equal(file.Bytes(), second.Bytes()) {
			t.Fatalf("written again it is another file: %v", err)
		}
	})
}

func text(t *rapid.T, a *ledger.Answer) string {
	data, err := json.MarshalIndent(a, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// BenchmarkRecordings is what twenty recordings of a thousand nodes and twenty thousand pods hold in memory when a share of the
// pods is written again between one and the next, and what it takes to write one down.
func BenchmarkRecordings(b *testing.B) {
	for _, percent := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("churn=%d%%", percent), func(b *testing.B) {
			for range b.N {
				mirror, churn := state.Fleet()
				mirror.View()
				before := state.Heap()
				l := ledger.New(ledger.DefaultSize, "p", func() time.Time { return time.Time{} })
				l.KeepRecordings(ledger.DefaultRecordings, "")
				var last string
				for range 40 {
					churn(percent)
					last = l.Record(ledger.Moment{View: mirror.View()})
				}
				b.ReportMetric(float64(state.Heap()-before)/(1<<20), "MiB")
				begin := time.Now()
				r, err := l.Recording(last)
				if err != nil {
					b.Fatal(err)
				}
				var file bytes.Buffer
				if err := r.Write(&file); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms/file")
				b.ReportMetric(float64(file.Len())/(1<<20), "MiB/file")
				begin = time.Now()
				read, err := ledger.Read(file.Bytes())
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := read.View(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms/reading")
				runtime.KeepAlive(mirror)
			}
		})
	}
}
