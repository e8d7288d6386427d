package provision

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
)

// kept is a runner with a ledger.
func kept(t *testing.T, s *fixture) (*runner, *ledger.Ledger) {
	d := newRunner(t, s)
	d.Ledger = ledger.New(100, "p", s.clock.Now)
	d.Ledger.KeepRecordings(5, "v")
	d.prepare()
	return d, d.Ledger
}

func all(l *ledger.Ledger, kinds ...ledger.Kind) []*ledger.Entry {
	return l.List(ledger.Query{Kinds: kinds})
}

func TestPlansAreKept(t *testing.T) {
	s := newFixture(typesOf(twoZones, 8), newPool("kept"))
	s.put(pods(6, "1")...)
	d, l := kept(t, s)
	d.pass()
	claims, list := stored(t, "kept"), all(l)
	if len(claims) != 1 || len(list) != 1 {
		t.Fatalf("%d claims, entries %v", len(claims), list)
	}
	e := list[0]
	if e.Kind != ledger.Plan || e.Outcome != ledger.Done || e.Result != "1 claim created" || len(e.Why) != 1 || len(e.Why[0].Because) == 0 || !e.Recorded {
		t.Errorf("entry %+v", e)
	}
	if !strings.HasPrefix(e.Summary, "6 pods get a new m5.8x in ") || !strings.Contains(e.Summary, ", $0.16") {
		t.Errorf("summary %q", e.Summary)
	}
	if m := e.Add[0]; m.Claim != claims[0].Name || m.Pool != "kept" || m.Type != "m5.8x" || len(m.Pods) != 6 || m.Pods[0] != "default/p000" || e.Saves != -m.Price {
		t.Errorf("instance %+v, saves %v", m, e.Saves)
	}
	replay(t, l, e.Input)
	for range 3 {
		d.clock.Step(retry)
		d.pass()
	}
	if list := all(l); len(list) != 1 {
		t.Errorf("nothing has changed, but there are %d entries", len(list))
	}
}

// replay makes a recorded decision again and compares.
func replay(t *testing.T, l *ledger.Ledger, input string) {
	t.Helper()
	r, err := l.Recording(input)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := r.Write(&file); err != nil {
		t.Fatal(err)
	}
	if r, err = ledger.Read(file.Bytes()); err != nil {
		t.Fatal(err)
	}
	view, _, err := r.View()
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.MarshalIndent(r.Answer, "", " ")
	got, _ := json.MarshalIndent(r.Replay(view, 2), "", " ")
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("made again (-want +got):\n%s", diff)
	}
}

func TestRefusalsAreKeptOnce(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("refuses"))
	s.put(newPod("wide", "900"))
	d, l := kept(t, s)
	for range 3 {
		s.nudge()
		d.pass()
		d.clock.Step(retry)
	}
	list := all(l)
	if len(list) != 1 || list[0].Kind != ledger.Refusal || list[0].Outcome != ledger.Open || !strings.HasPrefix(list[0].Summary, "pod default/wide is unschedulable: ") {
		for _, e := range list {
			t.Logf("%+v", e)
		}
		t.Fatal("one refusal is expected")
	}
	if got := l.List(ledger.Query{About: &ledger.Ref{Kind: "Pod", Namespace: "default", Name: "wide"}}); len(got) != 1 {
		t.Error("it is not found by its pod")
	}
	replay(t, l, list[0].Input)
	s.clear()
	d.pass()
	if list := all(l); len(list) != 1 || list[0].Outcome != ledger.Done {
		t.Errorf("the pod is gone: %+v", list)
	}
}

func TestRefusalsAreTakenOver(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("taken"))
	s.put(newPod("wide", "900"))
	d, l := kept(t, s)
	d.pass()
	next := newRunner(t, s)
	next.Ledger = l
	next.prepare()
	next.pass()
	if list := all(l); len(list) != 1 {
		t.Errorf("a process that takes over repeats what is known: %d entries", len(list))
	}
	s.clear()
	s.put(newPod("other", "901", selects(world.LabelZone, "nowhere")))
	third := newRunner(t, s)
	third.Ledger = l
	third.prepare()
	third.pass()
	if list := all(l); len(list) != 2 || list[0].Outcome != ledger.Open || list[1].Outcome != ledger.Done {
		t.Errorf("entries %+v", list)
	}
}

func TestPodsWithoutPoolsAreKept(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2))
	s.put(pods(3, "1")...)
	d, l := kept(t, s)
	d.pass()
	if list := all(l); len(list) != 1 || list[0].Summary != "3 pods such as default/p000 are unschedulable: no NodePool makes nodes" || len(list[0].About) != 3 {
		t.Errorf("entries %+v", list)
	}
}

func TestClaimsThatCannotBeCreatedAreKept(t *testing.T) {
	b := &ledgerRecorder{ledger: ledger.New(10, "p", time.Now)}
	list := []*Draft{{Claim: &karpv1.NodeClaim{}}, {Claim: &karpv1.NodeClaim{}}}
	bad := &RefusedError{"p", "has no room for it"}
	for _, c := range []struct {
		errs    []error
		outcome ledger.Outcome
		result  string
	}{
		{[]error{nil, nil}, ledger.Done, "2 claims created"},
		{[]error{bad, nil}, ledger.Failed, "1 of 2 claims could not be created: pool p has no room for it"},
		{[]error{bad, errors.New("x")}, ledger.Failed, "no claim could be created: pool p has no room for it"},
	} {
		id := b.ledger.Add(ledger.Entry{Kind: ledger.Plan, Outcome: ledger.Open})
		b.settle(id, list, c.errs)
		if e := b.ledger.Get(id); e.Outcome != c.outcome || e.Result != c.result {
			t.Errorf("%v: %s, %s", c.errs, e.Outcome, e.Result)
		}
	}
}
