package provision

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// runner is a provisioner over a fixture, with what it says.
type runner struct {
	*Provisioner
	t       *testing.T
	fixture *fixture
	clock   *testclock.FakeClock
	sink    *record.FakeRecorder
	log     *bytes.Buffer
}

func newRunner(t *testing.T, s *fixture) *runner {
	d := &runner{t: t, fixture: s, clock: s.clock, sink: record.NewFakeRecorder(100_000), log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	d.Provisioner = &Provisioner{
		Mirror: s, Clock: d.clock, Log: log, Events: control.NewRecorder(d.sink, d.clock.Now),
		Batch:   NewBatcher(d.clock, time.Second, 10*time.Second),
		Creator: &Creator{Client: cluster.Client, Mirror: s, Clock: d.clock, Log: log},
	}
	d.prepare()
	for _, p := range s.pods {
		d.podChanged(nil, p)
	}
	return d
}

// pass runs a pass and returns the events and log lines that it made.
func (d *runner) pass() (events, lines []string) {
	d.t.Helper()
	d.log.Reset()
	if err := d.Pass(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	for len(d.sink.Events) > 0 {
		events = append(events, <-d.sink.Events)
	}
	lines = strings.Split(strings.TrimSpace(d.log.String()), "\n")
	return events, slices.DeleteFunc(lines, func(l string) bool { return l == "" })
}

// holds counts the texts that have every one of the words.
func holds(texts []string, words ...string) int {
	n := 0
	for _, t := range texts {
		all := true
		for _, w := range words {
			all = all && strings.Contains(t, w)
		}
		if all {
			n++
		}
	}
	return n
}

func want(t *testing.T, n int, texts []string, words ...string) {
	t.Helper()
	if got := holds(texts, words...); got != n {
		t.Errorf("%d with %q, want %d, in\n%s", got, words, n, strings.Join(texts, "\n"))
	}
}

func TestP89_PassCreatesClaimsAndTells(t *testing.T) {
	s := newFixture(typesOf(twoZones, 8), newPool("tells"))
	s.put(pods(6, "1")...)
	d := newRunner(t, s)
	events, lines := d.pass()
	claims := stored(t, "tells")
	if len(claims) != 1 {
		t.Fatalf("%d claims", len(claims))
	}
	want(t, 6, events, "Normal Nominated", "nodeclaim/"+claims[0].Name, "pool tells", "$", "cheapest of")
	want(t, 1, lines, `msg="found provisionable pod(s)"`, "default/p000, ", "and 1 other(s)", "pod-count=6")
	want(t, 1, lines, `msg="computed new nodeclaim(s) to fit pod(s)"`, "nodeclaims=1", "pods=6")
	want(t, 1, lines, `msg="created nodeclaim"`, "NodePool=tells", "NodeClaim="+claims[0].Name, "cpu:6", "m5.8x", "$0.16", "reason=provisioned", "why=")
	if len(lines) != 3 {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}

	// P71, P28: until the node is there the pods are expected on their claim, and nothing is made again.
	if until := d.NominatedUntil(claims[0].Name); !until.Equal(at(20 * time.Second)) {
		t.Errorf("nominated until %s", until)
	}
	d.clock.Step(10 * time.Second)
	if events, lines = d.pass(); len(events)+len(lines) > 0 || len(stored(t, "tells")) != 1 {
		t.Errorf("nothing has changed, but %v %v", events, lines)
	}
	if until := d.NominatedUntil(claims[0].Name); !until.Equal(at(30 * time.Second)) {
		t.Errorf("nominated until %s", until)
	}

	// The claim is launched as something larger than was asked for, so there is room for one more.
	launched := claims[0].DeepCopy()
	launched.Status.ProviderID = "aws:///us-east-1a/i-1"
	launched.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
	launched.Status.Capacity = launched.Status.Allocatable
	launched.ResourceVersion = "999999999"
	s.Put(launched)
	s.put(newPod("later", "1"))
	events, lines = d.pass()
	want(t, 1, events, "Normal Nominated", "expected on nodeclaim/"+claims[0].Name+", which is starting")
	if len(stored(t, "tells")) != 1 || len(lines) > 0 {
		t.Errorf("%d claims, lines %v", len(stored(t, "tells")), lines)
	}
	d.clock.Step(time.Minute)
	s.clear()
	s.put(newPod("other", "100"))
	d.pass()
	if len(d.reporter.nominated) > 0 || !d.NominatedUntil("other").IsZero() {
		t.Error("nominations", d.reporter.nominated)
	}
}

func TestO49_FailedSchedulingIsToldOnceInAWhile(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("small"))
	s.put(pods(3, "1000")...)
	d := newRunner(t, s)
	events, lines := d.pass()
	want(t, 3, events, "Warning FailedScheduling", "asks for 1000, the largest type leaves 2")
	want(t, 1, lines, `level=ERROR msg="could not schedule pod"`, "default/p000", "pod-count=3")
	passes := d.passes.count

	d.clock.Step(retry)
	if events, lines = d.pass(); len(events)+len(lines) > 0 || d.passes.count != passes {
		t.Errorf("the same question is answered again: %v %v", events, lines)
	}
	s.put(newPod("new", "1000"))
	d.podChanged(nil, s.pods[3])
	events, lines = d.pass()
	want(t, 1, events, "Warning FailedScheduling")
	want(t, 1, lines, "could not schedule pod", "default/new", "pod-count=4")

	passes = d.passes.count
	d.clock.Step(failedEvery + time.Second)
	events, lines = d.pass()
	if d.passes.count != passes {
		t.Error("the same question is asked again")
	}
	want(t, 4, events, "Warning FailedScheduling")
	want(t, 1, lines, "could not schedule pod")
}

func TestP11_PodsThatAreNotPlanned(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("ignores"))
	s.put(
		newPod("restricted", "1", selects("karpenter.sh/unknown", "x")),
		newPod("dra", "1", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }), // P12
		newPod("elsewhere", "1", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: world.LabelPool, Operator: corev1.NodeSelectorOpDoesNotExist}}}},
			}}}
		}),
	)
	events, lines := newRunner(t, s).pass()
	want(t, 2, events, "Warning FailedScheduling")
	want(t, 1, events, "karpenter.sh/unknown")
	want(t, 1, events, "dynamic resource claims")
	want(t, 3, lines, "could not schedule pod")
	if n := len(stored(t, "ignores")); n > 0 {
		t.Errorf("%d claims", n)
	}
}

func TestP13_WithoutPoolsNobodyIsTold(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2))
	s.put(newPod("a", "1"))
	events, lines := newRunner(t, s).pass()
	if len(events) > 0 || len(lines) != 1 {
		t.Errorf("%v %v", events, lines)
	}
	want(t, 1, lines, "level=DEBUG")
}

func TestP15_PoolsThatAreNotReadyAreNamed(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("unready", notReady))
	s.put(newPod("a", "1"))
	events, _ := newRunner(t, s).pass()
	want(t, 1, events, "Warning FailedScheduling", "pool unready is not ready: the class is missing")
}

func TestP14_PreferencesThatHinderConsolidation(t *testing.T) {
	soft := func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "soft"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: world.LabelZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}
	s := newFixture(typesOf(twoZones, 2, 4), newPool("prefers"))
	s.put(pods(4, "100m", soft)...)
	d := newRunner(t, s)
	_, lines := d.pass()
	want(t, 1, lines, "can keep nodes from being consolidated", "default/p000", "pod-count=4", "ScheduleAnyway")
	d.clock.Step(time.Hour)
	s.nudge()
	_, lines = d.pass()
	want(t, 0, lines, "can keep nodes")

	ignoring := newRunner(t, newFixture(typesOf(twoZones, 2, 4), newPool("prefers-not")))
	ignoring.Options.IgnorePreferences = true
	ignoring.prepare()
	ignoring.fixture.put(pods(4, "100m", soft)...)
	_, lines = ignoring.pass()
	want(t, 0, lines, "can keep nodes")
}

func TestP17_PoolsWithoutInstanceTypes(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2, 4),
		newPool("no-arch", needs("kubernetes.io/arch", "In", 0, "arm64")), newPool("min-values", needs(world.LabelInstanceType, "Exists", 3)), newPool("has-types"))
	s.put(newPod("a", "1"))
	d := newRunner(t, s)
	events, _ := d.pass()
	want(t, 1, events, "Warning NoCompatibleInstanceTypes", "none of 2 instance types")
	want(t, 1, events, "Warning NoCompatibleInstanceTypes", "minValues 3", "only 2")
	if n := len(stored(t, "has-types")); n != 1 {
		t.Errorf("%d claims of the pool that has types", n)
	}
	s.nudge()
	events, _ = d.pass()
	want(t, 0, events, "NoCompatibleInstanceTypes")
	d.clock.Step(noTypesEvery)
	s.put(newPod("b", "2"))
	events, _ = d.pass()
	want(t, 2, events, "NoCompatibleInstanceTypes")
}

// heldBack pauses pools.
type heldBack map[string]time.Time

func (h heldBack) Paused(pool string) (time.Time, string) {
	return h[pool], "its last 5 nodes did not join"
}

func TestPoolsAreHeldBack(t *testing.T) {
	heavy := func(p *karpv1.NodePool) { p.Spec.Weight = new(int32(50)) }
	s := newFixture(typesOf(twoZones, 2), newPool("never-joins", heavy), newPool("joins"))
	s.put(newPod("a", "1"), newPod("b", "1", selects(world.LabelPool, "never-joins")))
	d := newRunner(t, s)
	d.Gate = heldBack{"never-joins": at(time.Minute)}
	events, _ := d.pass()
	want(t, 1, events, "Normal Nominated", "pool joins")
	want(t, 1, events, "Warning FailedScheduling", "pool never-joins is held back until 2026-03-01T12:01:00Z: its last 5 nodes did not join")
	if n := len(stored(t, "never-joins")); n > 0 {
		t.Errorf("%d claims of the pool that is held back", n)
	}
	d.clock.Step(time.Minute)
	d.pass()
	if n := len(stored(t, "never-joins")); n != 1 {
		t.Errorf("%d claims of the pool once it is let go", n)
	}
}

func TestW4_TenThousandPodsAreToldInBoundedWords(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("flood"))
	s.nudge()
	for i := range 10_000 {
		s.put(newPod(fmt.Sprintf("q%05d", i), "1000"))
	}
	d := newRunner(t, s)
	events, lines := d.pass()
	if len(events) > eventsAtOnce || len(lines) > 2 {
		t.Errorf("%d events and %d lines", len(events), len(lines))
	}
	for _, l := range lines {
		if len(l) > 2000 {
			t.Errorf("a line of %d characters", len(l))
		}
	}
	d.clock.Step(retry)
	events, lines = d.pass()
	want(t, 0, lines, "could not schedule pod")
	want(t, eventsPerSecond*int(retry/time.Second), events, "FailedScheduling") // those that had to wait
}

func TestW4_ManyReasonsAreAFewLines(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("many-reasons"))
	for i := range 200 {
		s.put(newPod(fmt.Sprintf("r%03d", i), fmt.Sprint(1000+i)))
	}
	_, lines := newRunner(t, s).pass()
	want(t, maxFailureLines, lines, `msg="could not schedule pod"`)
	want(t, 1, lines, `msg="could not schedule more pods, for other reasons" pod-count=180`)
}

func TestP8_AClaimThatFailsIsToldAndPlannedAgain(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("fails-once"))
	s.put(newPod("a", "1"))
	d := newRunner(t, s)
	good := d.Creator.Client
	d.Creator.Client = faulty(func(string, int) error { return errDenied }, fine)
	events, lines := d.pass()
	want(t, 1, events, "Warning FailedScheduling", "could not be asked for: the API server refuses the NodeClaim: Forbidden")
	want(t, 1, lines, "could not create nodeclaim")
	d.clock.Step(retry)
	events, lines = d.pass() // it has been told, if under another name
	want(t, 0, events, "FailedScheduling")
	want(t, 0, lines, "could not schedule pod")
	want(t, 1, lines, "could not create nodeclaim")
	d.Creator.Client = good
	d.clock.Step(retry)
	d.pass()
	if n := len(stored(t, "fails-once")); n != 1 {
		t.Errorf("%d claims", n)
	}
}

// TestP8_AnUnansweredClaimIsLookedFor: a claim whose creation got no answer counts only until the API server has said that it is not
// there, which takes seconds.
func TestP8_AnUnansweredClaimIsLookedFor(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after func(string, int) error
	}{
		{"unanswered-absent", func(string, int) error { return errors.New("connection reset by peer") }, fine},
		{"unanswered-there", fine, func(_ string, n int) error {
			if n == 1 {
				return errors.New("connection reset by peer")
			}
			return apierrors.NewInternalError(errors.New("no quorum"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(typesOf(twoZones, 2), newPool(c.name))
			s.put(newPod("a", "1"))
			d := newRunner(t, s)
			good := d.Creator.Client
			d.Creator.Client, d.Creator.Live = faulty(c.before, c.after), good
			patient(t, d.clock, func() { d.pass() })
			begin := d.clock.Now()
			d.Creator.Client = good
			stays := len(stored(t, c.name))
			for len(stored(t, c.name)) == 0 && d.clock.Since(begin) < time.Minute {
				d.clock.Step(max(syncing, d.Creator.nextLook(d.clock.Now(), retry)))
				d.pass()
			}
			if took := d.clock.Since(begin); stays == 0 && took > 10*time.Second {
				t.Errorf("the pod was planned for again after %s", took)
			}
			for range 10 { // nothing is made twice
				d.clock.Step(doubtEvery)
				d.pass()
			}
			if n := len(stored(t, c.name)); n != 1 || len(s.inFlight()) != 1 || len(d.Creator.doubts) != 0 {
				t.Errorf("%d claims are stored, %d assumed, %d in doubt", n, len(s.inFlight()), len(d.Creator.doubts))
			}
		})
	}
}

func TestPassSurvivesAPanic(t *testing.T) {
	d := newRunner(t, newFixture(typesOf(twoZones, 2), newPool("panics")))
	d.fixture.put(newPod("a", "1"))
	d.ask = func(*world.Snapshot, pack.Options) (*pack.Plan, error) { return ask(nil, pack.Options{}) }
	if err := d.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("%v", err)
	}
	d.ask = ask // the same question again, as nothing has changed
	if err := d.Pass(t.Context()); err != nil || len(stored(t, "panics")) != 1 {
		t.Errorf("%d claims, %v", len(stored(t, "panics")), err)
	}
}

// TestSpeculativePlan_SavesAPlanOnlyIfNothingChanges: what is planned while a batch waits for more pods is what is then made, unless
// there is news; then it is as if it had not been planned.
func TestSpeculativePlan_IsUsedOnlyIfNothingChanges(t *testing.T) {
	for _, c := range []struct {
		name          string
		meanwhile     func(*runner)
		asked, claims int
	}{
		{"nothing", func(*runner) {}, 1, 1},
		{"a pod more", func(d *runner) { d.fixture.put(newPod("b", "3")) }, 2, 2},
		{"the pod is gone", func(d *runner) { d.fixture.clear() }, 1, 0},
		{"the pool waits", func(d *runner) { d.Gate = heldBack{"speculative-the-pool-waits": at(time.Minute)} }, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := "speculative-" + strings.ReplaceAll(c.name, " ", "-")
			d := newRunner(t, newFixture(typesOf(twoZones, 4), newPool(pool)))
			d.fixture.put(newPod("a", "2"))
			asked := 0
			d.ask = func(snap *world.Snapshot, opt pack.Options) (*pack.Plan, error) {
				asked++
				return ask(snap, opt)
			}
			d.speculate(t.Context())
			if n := len(stored(t, pool)); n > 0 {
				t.Errorf("%d claims before the batch was complete", n)
			}
			c.meanwhile(d)
			if err := d.Pass(t.Context()); err != nil {
				t.Error(err)
			}
			if n := len(stored(t, pool)); n != c.claims || asked != c.asked {
				t.Errorf("%d claims after %d plans, want %d and %d", n, asked, c.claims, c.asked)
			}
		})
	}
}

func TestP7_PodsDoNotWaitForTheBestPlan(t *testing.T) {
	d := newRunner(t, newFixture(typesOf(twoZones, 2), newPool("hasty")))
	d.fixture.put(newPod("a", "1"))
	found := make(chan struct{})
	d.ask = func(snap *world.Snapshot, opt pack.Options) (*pack.Plan, error) {
		if !opt.Quick {
			<-found
		}
		return ask(snap, opt)
	}
	patient(t, d.clock, func() {
		if err := d.Pass(t.Context()); err != nil {
			t.Error(err)
		}
	})
	want(t, 1, []string{d.log.String()}, "planning takes too long")
	if took := d.clock.Since(epoch); len(stored(t, "hasty")) != 1 || took < maxSolve {
		t.Errorf("%d claims after %s", len(stored(t, "hasty")), took)
	}
	d.fixture.put(newPod("b", "1"))
	d.pass() // while the engine is busy, plans are quick
	if n := len(stored(t, "hasty")); n != 2 {
		t.Errorf("%d claims", n)
	}
	close(found)
	awaitTrue(t, "the engine has come back", func() bool { return !d.late.Load() })
}

func TestN10_PodsAreToldThatTheirClaimGetsNoInstance(t *testing.T) {
	s := newFixture(typesOf(twoZones, 8), newPool("none"))
	s.put(pods(6, "1")...)
	d := newRunner(t, s)
	d.pass()
	claims := stored(t, "none")
	if len(claims) != 1 {
		t.Fatalf("%d claims", len(claims))
	}
	bound := s.pods[0].DeepCopy() // it has found room elsewhere meanwhile
	bound.Spec.NodeName = "n"
	d.podChanged(s.pods[0], bound)
	told := func(claim, message string) (events []string) {
		d.NoCapacity(claim, message)
		for len(d.sink.Events) > 0 {
			events = append(events, <-d.sink.Events)
		}
		return events
	}
	if events := told("another", "no m5 left"); len(events) > 0 {
		t.Errorf("pods of another claim are told %v", events)
	}
	want(t, 5, told(claims[0].Name, "no m5 left "+strings.Repeat("x", 2*maxMessage)), "Warning InsufficientCapacityError", "no m5 left")
	if events := told(claims[0].Name, "no m5 left at all"); len(events) > 0 {
		t.Errorf("they are told again at once: %v", events)
	}
	d.clock.Step(noCapacityEvery + time.Second)
	for _, e := range told(claims[0].Name, strings.Repeat("x", 2*maxMessage)) {
		if len(e) > maxMessage+len("Warning InsufficientCapacityError ") {
			t.Errorf("an event of %d bytes", len(e))
		}
	}
}
