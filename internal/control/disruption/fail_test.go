package disruption

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
	"karpenter/test/harness/rig"
)

// asBefore says what is still there of a move on the claim and its node.
func (b *bench) asBefore(name string) string {
	b.Helper()
	c := b.claim(name)
	switch {
	case c == nil || !c.DeletionTimestamp.IsZero():
		return "it is gone"
	case tainted(b.nodeOf(name)):
		return "its node is tainted"
	case c.Annotations[karpv1.MoveAnnotationKey] != "":
		return "the move is written on it"
	case c.StatusConditions().Get(karpv1.ConditionDisruptionReason) != nil:
		return "it has the condition"
	}
	return ""
}

// lose ends a replacement as one that cannot be launched.
func (b *bench) lose(name string) {
	b.Helper()
	c := b.claim(name)
	c.StatusConditions().SetFalse(karpv1.ConditionLaunched, "Unauthorized", "not allowed to launch", b.clock.Now())
	b.must(b.client.WithWatch.Status().Update(b.Context(), c))
	b.must(b.client.WithWatch.Delete(b.Context(), c))
	b.sync()
}

// loseAll loses every replacement that is made in so many passes, and counts them.
func (b *bench) loseAll(passes int, then func()) (tries int) {
	b.Helper()
	for range passes {
		b.pass()
		for _, c := range b.made() {
			tries++
			b.lose(c.Name)
			b.look()
			b.drain()
		}
		then()
	}
	return tries
}

func TestD54_AFailedReplacementPutsEverythingBack(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.pass()
	b.lose(b.made()[0].Name)
	b.look()
	if left := b.asBefore("big"); left != "" || len(b.made()) != 0 {
		t.Errorf("%s; %d replacements", left, len(b.made()))
	}
	if got := b.counted(meter.DisruptionQueueFailures, "reason", "underutilized", "decision", "replace"); got != 1 {
		t.Errorf("O39: %v", got)
	}
	b.drain()
	b.clock.Step(firstHold / 2)
	if b.pass(); len(b.made()) != 0 {
		t.Error("the next is tried at once")
	}
	b.clock.Step(firstHold)
	if b.pass(); len(b.made()) != 1 {
		t.Error("the next is never tried")
	}
}

// What was usable and has been removed says nothing about its pool.
func TestT24_AUsableReplacementThatIsRemovedIsNoFailure(t *testing.T) {
	b := newBench(t)
	b.twoForOne()
	b.look()
	first := b.made()[0].Name
	b.launch(first)
	b.join(first)
	b.look()
	b.must(b.client.WithWatch.Delete(t.Context(), b.claim(first)))
	b.look()
	if left := b.asBefore("big"); left != "" {
		t.Error(left)
	}
	if n := b.loop.breaker.count("general", b.loop.version(b.mirror.View(), "general")); n != 0 {
		t.Errorf("%d failures", n)
	}
	b.expectEvent("nodeclaim/"+first, "which was ready, has been removed")
}

func TestT24_AfterThreeFailuresNoMoreAreTried(t *testing.T) {
	b := newBench(t)
	pool := b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	tries := b.loseAll(60, func() { b.clock.Step(20 * time.Second) })
	if left := b.asBefore("big"); tries != maxFailures || left != "" {
		t.Errorf("%d tries; %s", tries, left)
	}
	b.expectEvent("Warning DisruptionBlocked", "3 replacements in a row have failed", "not allowed to launch")

	b.must(b.client.Get(t.Context(), clientKey("general"), pool))
	pool.Spec.Template.Labels = map[string]string{"team": "a"}
	b.must(b.client.Update(t.Context(), pool))
	if b.pass(); len(b.made()) != 1 {
		t.Errorf("the pool has changed, but %d replacements are tried", len(b.made()))
	}
	b.launch(b.made()[0].Name)
	b.join(b.made()[0].Name)
	if b.pass(); !b.going("big") {
		t.Error("the node is still there")
	}
	if n := b.loop.breaker.count("general", b.loop.version(b.mirror.View(), "general")); n != 0 {
		t.Errorf("%d failures after a success", n)
	}
}

func TestT24_AfterALongWhileOneMoreIsTried(t *testing.T) {
	var s breaker
	now := time.Unix(0, 0)
	for range maxFailures {
		s.failed("p", "v", "x", now)
	}
	if until, _ := s.held("p", "v", now); !until.Equal(now.Add(longHold)) {
		t.Errorf("held until %s", until)
	}
	if until, _ := s.held("p", "v", now.Add(longHold)); !until.IsZero() || s.count("p", "v") != maxFailures {
		t.Errorf("held until %s, %d failures", until, s.count("p", "v"))
	}
	if until, _ := s.held("p", "other", now); !until.IsZero() || s.count("p", "other") != 0 {
		t.Error("another version is held")
	}
	if n := s.failed("p", "other", "x", now); n != 1 {
		t.Errorf("%d failures of another version", n)
	}
	here := func(string) bool { return true }
	if old := s.forget(here, now.Add(failuresFor)); len(old) != 0 || s.count("p", "other") != 1 {
		t.Errorf("forgotten too early: %v", old)
	}
	if old := s.forget(here, now.Add(failuresFor+firstHold)); len(old) != 1 || s.count("p", "other") != 0 {
		t.Errorf("what failed a day ago still counts: %v", old)
	}
	s.failed("p", "other", "x", now)
	if old := s.forget(func(string) bool { return false }, now); len(old) != 0 || s.count("p", "other") != 0 {
		t.Error("a pool that is gone is remembered")
	}
}

func TestT24_FailuresOutliveTheProcess(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	tries := b.loseAll(15, func() {
		b.restart()
		b.clock.Step(2 * time.Minute)
	})
	pool := &karpv1.NodePool{}
	b.must(b.client.Get(t.Context(), clientKey("general"), pool))
	text := pool.Annotations[karpv1.FailedReplacementsAnnotationKey]
	if left := b.asBefore("big"); tries != maxFailures || left != "" || !strings.Contains(text, "count=3") || !strings.Contains(text, "not allowed to launch") {
		t.Errorf("%d tries; %s; the pool says %q", tries, left, text)
	}

	b.clock.Step(longHold)
	if b.pass(); len(b.made()) != 1 {
		t.Fatalf("an hour later %d replacements are tried", len(b.made()))
	}
	b.restart()
	name := b.made()[0].Name
	b.launch(name)
	b.join(name)
	if b.pass(); !b.going("big") {
		t.Error("the node is still there")
	}
	b.must(b.client.Get(t.Context(), clientKey("general"), pool))
	if text, there := pool.Annotations[karpv1.FailedReplacementsAnnotationKey]; there {
		t.Errorf("after a success the pool says %q", text)
	}
}

func TestT24_FailuresAreReadAsTheyWereWritten(t *testing.T) {
	s := &failures{count: 2, until: time.Unix(1_700_000_000, 0).UTC(), version: "u/1/c/2/ami-1", why: "it was not Launched: x=y\nwhy=z"}
	if got := parseFailures(s.String()); got == nil || *got != *s {
		t.Errorf("%+v, want %+v", got, s)
	}
	for _, text := range []string{"", "count=x until=2026-01-01T00:00:00Z", "count=1", "count=-1 until=2026-01-01T00:00:00Z", "count=1 until=soon", "count=1 why=until=2026-01-01T00:00:00Z"} {
		if got := parseFailures(text); got != nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestT24_OneBrokenPoolHoldsUpNoOther(t *testing.T) {
	b := newBench(t)
	b.pool("broken")
	b.pool("sound")
	own := func(pool string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: pool} }
	}
	for _, pool := range []string{"broken", "sound"} {
		b.instance(pool+"-big", pool, "m5.4xlarge")
		b.pod(pool+"-big", "1", own(pool))
	}
	b.clock.Step(time.Minute)
	done := false
	for range 30 {
		b.pass()
		for _, c := range b.made() {
			if strings.HasPrefix(c.Name, "broken") {
				b.lose(c.Name)
			} else if c.Status.ProviderID == "" {
				b.launch(c.Name)
				b.join(c.Name)
			}
		}
		b.look()
		if b.going("sound-big") {
			done = true
			break
		}
		b.clock.Step(10 * time.Second)
	}
	if left := b.asBefore("broken-big"); !done || left != "" {
		t.Errorf("sound done %v; broken: %s", done, left)
	}
}

func TestD54_AReplacementThatTakesTooLong(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.pass()
	name := b.made()[0].Name
	b.launch(name)
	b.clock.Step(leastPatience - time.Minute)
	if b.pass(); b.asBefore("big") == "" {
		t.Error("given up too early")
	}
	b.clock.Step(2 * time.Minute)
	if b.pass(); b.asBefore("big") != "" || b.going(name) {
		t.Errorf("%s; replacement going %v: it has an instance and deadlines of its own", b.asBefore("big"), b.going(name))
	}
}

// tight is a pool with a limit of vCPUs and two instance types, of 2 and of 16.
func (b *bench) tight(cpus string) {
	b.Helper()
	b.pool("tight", func(p *karpv1.NodePool) {
		p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: *b.cpus(cpus)}
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5.large", "m5.4xlarge"},
		})
	})
}

func TestS3_AMoveThatIsCalledOffLeavesItsPoolWithinItsLimits(t *testing.T) {
	for limit, goes := range map[string]bool{"17": true, "18": false} { // 16 vCPUs, and 2 in place of them
		t.Run(limit, func(t *testing.T) {
			b := newBench(t)
			b.tight(limit)
			b.big("big", "tight")
			b.clock.Step(time.Minute)
			b.pass()
			name := b.made()[0].Name
			b.launch(name)
			b.clock.Step(leastPatience + time.Minute)
			if b.pass(); (b.asBefore("big") != "") != goes || b.going(name) {
				t.Errorf("replacement going %v; %s; what its pool would have to end may take its time", b.going(name), b.asBefore("big"))
			}
			b.clock.Step(mostPatience - leastPatience)
			if b.pass(); b.going(name) != goes {
				t.Errorf("replacement going %v, want %v", b.going(name), goes)
			}
			if goes && b.asBefore("big") != "" {
				t.Error(b.asBefore("big"))
			}
		})
	}
}

func TestS3_AMoveThatIsForbiddenAtLastLeavesItsPoolWithinItsLimits(t *testing.T) {
	for limit, goes := range map[string]bool{"17": true, "18": false} { // 16 vCPUs, and 2 in place of them
		t.Run(limit, func(t *testing.T) {
			b := newBench(t)
			b.tight(limit)
			b.big("big", "tight")
			b.clock.Step(time.Minute)
			b.pass()
			name := b.made()[0].Name
			pool := &karpv1.NodePool{}
			b.must(b.client.Get(t.Context(), clientKey("tight"), pool))
			pool.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration() // or the replacement would be removed for being empty
			b.must(b.client.Update(t.Context(), pool))
			n := b.nodeOf("big")
			n.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			b.must(b.client.Update(t.Context(), n))
			b.launch(name)
			b.join(name)
			if b.pass(); b.asBefore("big") != "" || b.going(name) != goes {
				t.Errorf("%s; replacement going %v, want %v", b.asBefore("big"), b.going(name), goes)
			}
		})
	}
}

// TestS3_MovesThatAreCalledOffTogetherLeaveTheirPoolWithinItsLimits gives up three moves at once; one more small node has room.
func TestS3_MovesThatAreCalledOffTogetherLeaveTheirPoolWithinItsLimits(t *testing.T) {
	b := newBench(t)
	b.tight("50")
	for _, name := range []string{"first", "second", "third"} {
		b.big(name, "tight")
	}
	b.drifted()
	b.clock.Step(time.Minute)
	b.pass()
	made := b.made()
	for _, c := range made {
		b.launch(c.Name)
	}
	b.clock.Step(mostPatience + time.Minute)
	b.pass()
	stay := 0
	for _, c := range made {
		if !b.going(c.Name) {
			stay++
		}
	}
	if len(made) < 2 || stay != 1 {
		t.Errorf("%d replacements were made, and %d stay; want one", len(made), stay)
	}
}

func TestD52_LimitsDoNotCountWhatGoes(t *testing.T) {
	b := newBench(t)
	b.tight("16")
	b.big("big", "tight")
	b.clock.Step(time.Minute)
	if b.pass(); len(b.made()) != 1 {
		t.Errorf("%d replacements within the limit of a pool that is full", len(b.made()))
	}
}

func TestD56_AClaimThatLeavesForAnotherReasonLeavesItsMove(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.pass()
	name := b.made()[0].Name
	b.must(b.client.WithWatch.Delete(t.Context(), b.claim("big"))) // as an interruption would
	b.pass()
	b.launch(name)
	b.join(name)
	b.drain()
	b.pass()
	if left := b.claims(); len(left) != 1 || left[0].Name != name || !left[0].DeletionTimestamp.IsZero() {
		t.Errorf("left are %d claims", len(left))
	}
}

func TestD52_ANodeThatCannotBeTaintedStays(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.judge()
	b.client.Step = func(w rig.Write, after bool) error {
		if node, ok := w.Object.(*corev1.Node); ok && w.Verb == "patch" && !after && tainted(node) {
			return fmt.Errorf("not today")
		}
		return nil
	}
	b.look()
	b.client.Step = nil
	if left := b.asBefore("big"); left != "" || len(b.made()) != 0 {
		t.Errorf("%s; %d replacements", left, len(b.made()))
	}
}

// The creation of replacements may get no answer, or one too late. None of them may stay that no move knows any more.
func TestS3_ReplacementsWhoseCreationGotNoAnswer(t *testing.T) {
	unanswered, refused := apierrors.NewInternalError(errors.New("etcd is away")), apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("not today"))
	for name, c := range map[string]struct {
		// second is the answer when the first one is sent again, and other the one to the second replacement.
		second, other error
		goes          bool
	}{
		"no answer to both":            {unanswered, unanswered, true},
		"one refused, no answer":       {unanswered, refused, false},
		"one refused, a second answer": {nil, refused, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.twoForOne()
			first, sent := "", map[string]int{}
			var mu sync.Mutex
			b.client.Step = func(w rig.Write, after bool) error {
				if w.Verb != "create" {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				if first == "" {
					first = w.Object.GetName()
				}
				again := sent[w.Object.GetName()] > 0
				switch {
				case after && !again: // it is there, and nobody is told
					sent[w.Object.GetName()]++
					w.Object.SetUID("")
					w.Object.SetResourceVersion("")
					return unanswered
				case w.Object.GetName() != first && c.other == refused:
					return refused
				case !after && again:
					return c.second
				}
				return nil
			}
			ended := make(chan struct{})
			go func() { // what is sent again waits in between
				for tick := time.NewTicker(50 * time.Millisecond); ; {
					select {
					case <-tick.C:
						b.clock.Step(100 * time.Millisecond)
					case <-ended:
						return
					}
				}
			}()
			b.look()
			close(ended)
			b.client.Step = nil
			b.look()
			if !c.goes {
				if left := b.asBefore("big"); left != "" || len(b.made()) != 0 {
					t.Errorf("%s; %d replacements", left, len(b.made()))
				}
				return
			}
			if len(b.made()) != replacements {
				t.Fatalf("%d replacements", len(b.made()))
			}
			for _, made := range b.made() {
				b.launch(made.Name)
				b.join(made.Name)
			}
			if b.look(); !b.going("big") {
				t.Error("the node stays although its replacements are up")
			}
		})
	}
}

// A write may be refused every second for hours. What has come of it is read once.
func TestAClaimThatCannotBeWrittenIsReadOnce(t *testing.T) {
	u := &unsure{}
	for _, uid := range []types.UID{"a", "b", "a", "b", "a"} {
		u.add(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	}
	if len(u.claims) != 2 {
		t.Errorf("%d claims are to be read", len(u.claims))
	}
}

func TestS4_AMoveWhoseAnswerGotLostCountsAgainstTheBudget(t *testing.T) {
	b := newBench(t)
	b.pool("general", func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}} })
	b.big("first", "general")
	b.big("second", "general")
	b.clock.Step(time.Minute)
	b.judge()
	b.sync()
	lost := false
	b.client.Step = func(w rig.Write, after bool) error {
		if c, ok := w.Object.(*karpv1.NodeClaim); ok && w.Verb == "patch" && after && !lost && c.Annotations[karpv1.MoveAnnotationKey] != "" {
			lost = true
			return fmt.Errorf("the connection is gone")
		}
		return nil
	}
	for range 3 { // the watch shows nothing meanwhile
		b.loop.decideAt = time.Time{}
		_, err := b.loop.Pass(t.Context())
		b.must(err)
		b.clock.Step(10 * time.Second)
		moving := 0
		for _, c := range b.claims() {
			if c.Annotations[karpv1.MoveAnnotationKey] != "" {
				moving++
			}
		}
		if !lost || moving > 1 {
			t.Fatalf("%d nodes are being disrupted with a budget of 1; an answer got lost: %v", moving, lost)
		}
	}
}

func TestT24_TheFirstReplacementsOfAChangedPoolAreTriedFew(t *testing.T) {
	b := newBench(t)
	b.pool("general", func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration() })
	const n = 6
	for i := range n {
		name := fmt.Sprint("old-", i)
		b.instance(name, "general", "m5.large")
		b.pod(name, "1500m")
	}
	b.clock.Step(time.Minute)
	b.drifted()
	b.pass()
	first := b.made()
	if len(first) != maxFailures {
		t.Fatalf("%d are tried at once although nothing is known of what they become", len(first))
	}
	b.launch(first[0].Name)
	b.join(first[0].Name)
	b.pass()
	if b.pass(); len(b.made()) != n || b.goingCount() != 1 {
		t.Errorf("one is up: %d replacements, %d going", len(b.made()), b.goingCount())
	}
}

// drifted marks every claim as drifted.
func (b *bench) drifted() {
	b.Helper()
	for _, c := range b.claims() {
		c.StatusConditions().Set(karpv1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: karpv1.ReasonNodePoolDrifted}, b.clock.Now())
		b.must(b.client.WithWatch.Status().Update(b.Context(), c))
	}
}

func TestW48_RecordsAreReadAsTheyWereWritten(t *testing.T) {
	r := record{id: "x-1", reason: "Drifted", began: time.Unix(1_700_000_000, 0).UTC(), to: []string{"a", "b"}}
	got, err := parseRecord(r.String())
	if err != nil || got.id != r.id || got.reason != r.reason || !got.began.Equal(r.began) || !slices.Equal(got.to, r.to) {
		t.Errorf("%+v %v", got, err)
	}
	r.to = nil
	if got, err = parseRecord(r.String()); err != nil || len(got.to) != 0 {
		t.Errorf("%+v %v", got, err)
	}
	for _, text := range []string{"", "id=1", "id=1 reason=Empty began=yesterday", "reason=Empty began=2026-01-01T00:00:00Z"} {
		if _, err := parseRecord(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
