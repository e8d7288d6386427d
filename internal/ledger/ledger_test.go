package ledger

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"karpenter/internal/model"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// ticking is a clock on which a second passes with each look.
func ticking() func() time.Time {
	var looks atomic.Int64
	return func() time.Time { return epoch.Add(time.Duration(looks.Add(1)) * time.Second) }
}

func newLedger(size int) *Ledger { return New(size, "p", ticking()) }

func TestEntriesAreKeptInOrder(t *testing.T) {
	l := newLedger(3)
	for i := range 10 {
		id := l.Add(Entry{Kind: Plan, Summary: fmt.Sprint(i)})
		if id != uint64(i+1) || l.Get(id).Process != "p" || l.Get(id).At.IsZero() || l.Get(id).Outcome != Noted {
			t.Fatalf("entry %d is %+v", i, l.Get(id))
		}
	}
	var got []string
	for _, e := range l.List(Query{Limit: 3}) {
		got = append(got, e.Summary)
	}
	if diff := cmp.Diff([]string{"9", "8", "7"}, got); diff != "" {
		t.Errorf("the newest (-want +got):\n%s", diff)
	}
	if l.Get(1) != nil || len(l.List(Query{})) > 4 {
		t.Errorf("%d entries are kept", len(l.List(Query{})))
	}
}

func TestWeightIsBounded(t *testing.T) {
	l := newLedger(DefaultSize)
	big := make([]string, 60_000)
	for range 10 {
		l.Add(Entry{Kind: Plan, Add: []model.Node{{Pods: big}}})
	}
	if n := len(l.List(Query{})); n != 4 {
		t.Errorf("%d entries of 60,000 pods are kept, want 4", n)
	}
	huge := l.Add(Entry{Kind: Plan, Add: []model.Node{{Pods: make([]string, 2*maxWeight)}}})
	if l.Get(huge) == nil || len(l.List(Query{})) != 1 {
		t.Errorf("the newest entry is not kept whatever its size: %d entries", len(l.List(Query{})))
	}
	l.Add(Entry{Kind: Plan})
	if n, w := len(l.List(Query{})), l.weight; n != 1 || w != 1 {
		t.Errorf("%d entries of weight %d afterwards", n, w)
	}
}

func TestQueriesAndChanges(t *testing.T) {
	l := newLedger(10)
	changes, stop := l.Watch()
	plan := l.Add(Entry{Kind: Plan, Outcome: Open, Key: "k", Add: []model.Node{{Claim: "c", Pool: "general", Pods: []string{"a/p"}}}})
	l.Add(Entry{Kind: Launch, Add: []model.Node{{Claim: "c", Node: "n"}}})
	l.Settle(plan, Done, "1 claim created")
	if e := l.Get(plan); e.Outcome != Done || e.OutcomeAt == nil || e.Result != "1 claim created" {
		t.Errorf("settled: %+v", e)
	}
	if l.FindOpen(Plan, "k") != nil {
		t.Error("what is settled is not open")
	}
	for _, c := range []struct {
		q    Query
		want int
	}{
		{Query{About: &Ref{Kind: "NodeClaim", Name: "c"}}, 2},
		{Query{About: &Ref{Kind: "Node", Name: "n"}}, 1},
		{Query{About: &Ref{Kind: "Pod", Namespace: "a", Name: "p"}}, 1},
		{Query{About: &Ref{Kind: "Pod", Namespace: "b", Name: "p"}}, 0},
		{Query{Kinds: []Kind{Launch}}, 1},
		{Query{Since: plan}, 1},
	} {
		if got := len(l.List(c.q)); got != c.want {
			t.Errorf("%+v: %d entries, want %d", c.q, got, c.want)
		}
	}
	for _, want := range []Outcome{Open, Noted, Done} {
		if e := <-changes; e.Outcome != want {
			t.Errorf("watched %s, want %s", e.Outcome, want)
		}
	}
	stop()
	l.Add(Entry{Kind: Plan})
	if len(changes) > 0 {
		t.Error("a watch goes on after it was stopped")
	}
}

func TestANilLedgerKeepsNothing(t *testing.T) {
	var l *Ledger
	l.Settle(l.Add(Entry{}), Done, "")
	l.KeepRecordings(1, "")
	l.SetPrices(nil)
	if l.Get(1) != nil || l.List(Query{}) != nil || l.Record(Moment{}) != "" || l.FindOpen(Plan, "") != nil {
		t.Error("it keeps something")
	}
	if _, err := l.Recording("x"); err == nil {
		t.Error("it has a recording")
	}
	_, stop := l.Watch()
	stop()
}

func TestSummaries(t *testing.T) {
	large := model.Node{Type: "m6i.large", Zone: "us-west-2a", CapacityType: "spot", Price: 0.0412, Node: "n1"}
	small := model.Node{Type: "c6i.medium", Zone: "us-west-2b", CapacityType: "on-demand", Price: 0.02, Node: "n2"}
	for _, c := range []struct{ got, want string }{
		{PlanSummary(3, "", []model.Node{large}), "3 pods get a new m6i.large in us-west-2a, spot, $0.0412/h"},
		{PlanSummary(1, "", []model.Node{small}), "1 pod gets a new c6i.medium in us-west-2b, on-demand, $0.0200/h"},
		{PlanSummary(12, "", []model.Node{small, large, large}), "12 pods get 3 new nodes (2 m6i.large, 1 c6i.medium), $0.1024/h"},
		{LaunchSummary([]model.Node{{Claim: "c", Type: "m6i.large", Zone: "z", CapacityType: "spot", Price: 1}}), "claim c has an instance: m6i.large in z, spot, $1.0000/h"},
		{MoveSummary("empty", &Entry{Remove: []model.Node{large}, Saves: 0.0412}), "empty node n1 (m6i.large in us-west-2a, spot, $0.0412/h) is removed, saving $0.0412/h"},
		{
			MoveSummary("underused", &Entry{Remove: []model.Node{large, large}, Evicts: 4, Saves: 0.0824}),
			"2 underused nodes (2 m6i.large, $0.0824/h) are removed, 4 pods move to nodes that have room, saving $0.0824/h",
		},
		{
			MoveSummary("drifted", &Entry{Remove: []model.Node{small}, Add: []model.Node{large}, Evicts: 1, Saves: -0.0212}),
			"drifted node n2 (c6i.medium in us-west-2b, on-demand, $0.0200/h) is replaced by a new m6i.large in us-west-2a, spot, $0.0412/h, 1 pod restarts, for $0.0212/h more",
		},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}

// emptyView is a view of nothing.
func emptyView(told uint64) *state.View {
	v, _ := state.Rebuild(&dump.Objects{}, state.Record{Now: epoch})
	v.Told = told
	return v
}

func TestRecordingsAreBounded(t *testing.T) {
	l := newLedger(100)
	if name := l.Record(Moment{View: emptyView(0)}); name != "" {
		t.Errorf("recording %q is kept without being asked to", name)
	}
	l.KeepRecordings(3, "v1")
	var entries []uint64
	var names []string
	for i := range 5 {
		name := l.Record(Moment{View: emptyView(uint64(i)), At: epoch})
		names = append(names, name)
		entries = append(entries, l.Add(Entry{Kind: Plan, Input: name, Recorded: true}))
	}
	for i, id := range entries {
		kept := i >= 2
		if l.Get(id).Recorded != kept {
			t.Errorf("entry %d says that its recording is there: %t, want %t", i, l.Get(id).Recorded, kept)
		}
		r, err := l.Recording(names[i])
		if (err == nil) != kept {
			t.Errorf("recording %s: %v", names[i], err)
		}
		if err == nil && (r.Name != names[i] || r.Made != "v1" || !r.At.Equal(epoch)) {
			t.Errorf("recording: %+v", r)
		}
	}
}

func TestRecordingsHoldOnToFewOldObjects(t *testing.T) {
	r := records{keep: 20}
	for i := range 20 {
		r.list = append(r.list, &record{Moment: Moment{View: emptyView(uint64(i) * 1_000_000)}, objects: maxOutdated})
	}
	if got := r.outdated(); got != 19*maxOutdated {
		t.Errorf("%d outdated objects", got)
	}
	l := newLedger(10)
	l.KeepRecordings(20, "")
	l.records.list = r.list[:19]
	l.Record(Moment{View: emptyView(20_000_000)})
	if n, old := len(l.records.list), l.records.outdated(); n != 2 || old > maxOutdated {
		t.Errorf("%d recordings hold on to %d old objects, want at most %d", n, old, maxOutdated)
	}
}
