package disruption

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"karpenter/internal/ledger"
)

// entries are those of a kind, the oldest first.
func (b *bench) entries(kind ledger.Kind) (out []*ledger.Entry) {
	for _, e := range b.ledger.List(ledger.Query{Kinds: []ledger.Kind{kind}}) {
		out = append([]*ledger.Entry{e}, out...)
	}
	return out
}

// replay makes the newest decision that is recorded again, from its file, and compares.
func (b *bench) replay() {
	for _, e := range b.ledger.List(ledger.Query{}) {
		if !e.Recorded {
			continue
		}
		made, err := b.ledger.Recording(e.Input)
		if err != nil {
			b.Fatal(err)
		}
		var file bytes.Buffer
		b.must(made.Write(&file))
		r, err := ledger.Read(file.Bytes())
		b.must(err)
		view, _, err := r.View()
		b.must(err)
		want, _ := json.MarshalIndent(made.Answer, "", " ")
		got, _ := json.MarshalIndent(r.Replay(view, 2), "", " ")
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			b.Errorf("the decision of entry %d made again (-want +got):\n%s", e.ID, diff)
		}
		return
	}
}

func TestMovesAreKept(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.pass()
	list := b.entries(ledger.Move)
	if len(list) != 1 {
		t.Fatalf("%d moves are kept", len(list))
	}
	e, name := list[0], b.made()[0].Name
	if e.Outcome != ledger.Open || e.Reason != "Underutilized" || e.Key == "" || e.Saves <= 0 || e.Evicts != 1 || !e.Recorded || len(e.Why) != 1 {
		t.Errorf("entry %+v", e)
	}
	if m := e.Remove[0]; m.Claim != "big" || m.Type != "m5.4xlarge" || m.Price <= 0 || len(m.Pods) != 1 {
		t.Errorf("it takes %+v away", m)
	}
	if m := e.Add[0]; m.Claim != name || m.Type == "" || m.Price <= 0 || m.Price >= e.Remove[0].Price {
		t.Errorf("it adds %+v", m)
	}
	if !strings.HasPrefix(e.Summary, "underused node ") || !strings.Contains(e.Summary, "is replaced by a new ") || !strings.Contains(e.Summary, ", 1 pod restarts, saving $") {
		t.Errorf("summary %q", e.Summary)
	}
	b.restart() // and another process brings it to its end
	b.launch(name)
	b.join(name)
	b.pass()
	if e := b.ledger.Get(e.ID); e.Outcome != ledger.Done || e.OutcomeAt == nil || !strings.Contains(e.Result, "deleted") {
		t.Errorf("in the end: %+v", e)
	}
	if n := len(b.entries(ledger.Move)); n != 1 {
		t.Errorf("%d moves are kept", n)
	}
}

func TestMovesThatFailAreKept(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.pass()
	b.lose(b.made()[0].Name)
	b.pass()
	list := b.entries(ledger.Move)
	if len(list) == 0 || list[0].Outcome != ledger.Failed || !strings.HasPrefix(list[0].Result, "the nodes stay: ") {
		t.Fatalf("moves %+v", list)
	}
}

func TestNodesThatStayAreSummedUp(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.instance("full", "general", "m5.large")
	b.pod("full", "1500m")
	b.clock.Step(time.Minute)
	for range 4 {
		b.pass()
		b.clock.Step(time.Hour)
	}
	list := b.entries(ledger.Refusal)
	if len(list) != 1 || !strings.HasPrefix(list[0].Summary, "1 node that could be removed stays; 1 such as ") || list[0].Outcome != ledger.Noted || len(list[0].Why) != 1 {
		t.Fatalf("refusals %+v", list)
	}
}
