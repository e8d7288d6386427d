package state_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// facts draws what objects do not say.
func facts(t *rapid.T, view *state.View, now time.Time) ledger.Facts {
	f := ledger.Facts{Expected: map[string]string{}, Held: map[string]string{}, Nominated: map[string]time.Time{}, Busy: map[string]string{}, Fixed: map[string]string{}}
	f.Hold, f.Turn, f.Horizon, f.Moved, f.Coming = map[string]string{}, map[string]bool{}, map[string]float64{}, map[string]state.Moved{}, map[string]int{}
	some := func(label string) bool { return rapid.IntRange(0, 4).Draw(t, label) == 0 }
	var claims []string
	for _, n := range view.Nodes {
		if n.Claim != nil {
			claims = append(claims, n.Claim.Name)
			if some("busy") {
				f.Busy[n.Claim.Name] = "it is being deleted already"
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
	for _, p := range view.World.Pools {
		if some("hold") {
			f.Hold[p.Name] = "it was in motion 2s ago"
		}
		if some("turn") {
			f.Turn[p.Name] = true
		}
		if some("horizon") {
			f.Horizon[p.Name] = 0.5
		}
	}
	for _, uid := range state.PodUIDs(view) {
		if some("coming") {
			f.Coming[uid] = rapid.IntRange(1, 3).Draw(t, "more")
		}
		if some("moved") {
			f.Moved[uid] = state.Moved{Times: 1, At: now.Add(-time.Minute), Paid: now.Add(time.Minute)}
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
		snap, plan, _ := known.Plan(view, func(s *world.Snapshot) (*pack.Plan, error) { return pack.Solve(s, opt.Pack), nil })
		in := known.Input(view, now) // without pods that are known to come, if they were too many
		want := &ledger.Answer{Plan: ledger.NewPlanAnswer(snap, plan), Decision: ledger.NewDecisionAnswer(in, disrupt.Decide(in, opt, now))}

		made, err := ledger.Record(view, known, ledger.NewOptions(state.Options{NodeOverlays: true}, opt), now)
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

// An example of the pods that a ReplicaSet will create wants no place itself and is no pod of the cluster, but pods like it can be
// planned for, and come back from a recording.
func TestExamplePodsAreRecorded(t *testing.T) {
	m := state.NewMirror(state.MirrorOptions{Now: func() time.Time { return time.Unix(0, 0) }})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web-example", UID: "web-example", Annotations: map[string]string{v1.ExamplePodAnnotationKey: "web"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}}}
	m.Put(pod)
	check := func(name string, view *state.View) {
		t.Helper()
		if len(view.World.Pending) != 0 || len(view.Idle()) != 0 || view.Pod("web-example") == nil {
			t.Errorf("%s: %d pending, %d idle, known: %v", name, len(view.World.Pending), len(view.Idle()), view.Pod("web-example") != nil)
		}
		more := view.More(map[string]int{"web-example": 2, "unknown": 3})
		if len(more) != 2 || !state.Unborn(more[0]) || more[0].UID == more[1].UID || view.World.Classes[more[0].Class].Requests[0] != 2000 {
			t.Errorf("%s: more of them are %+v", name, more)
		}
	}
	view := m.View()
	check("seen", view)
	made, err := ledger.Record(view, ledger.Facts{}, ledger.Options{}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	again, problems, err := made.View()
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	check("read back", again)
	m.Drop(pod)
	if view := m.View(); view.Pod("web-example") != nil || len(view.More(map[string]int{"web-example": 2})) != 0 {
		t.Error("it is gone, but known still")
	}
}

// A pod's class may change though the pod does not, when a selector begins to read a label: what is planned for is what pods like it
// are now.
func TestMorePodsAreAsThePodIsNow(t *testing.T) {
	m := state.NewMirror(state.MirrorOptions{Now: func() time.Time { return time.Unix(0, 0) }})
	put := func(name, app string, selects map[string]string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}}}
		pod.Spec.Containers = []corev1.Container{{Name: "c"}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: corev1.PodReasonUnschedulable}}
		if selects != nil {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: selects},
			}}
		}
		m.Put(pod)
	}
	put("one", "x", nil)
	put("two", "y", nil)
	m.View()
	put("three", "x", map[string]string{"app": "x"})
	view := m.View()
	for _, p := range view.World.Pending {
		if more := view.More(map[string]int{p.UID: 1}); more[0].Class != p.Class {
			t.Errorf("pod %s is of class %d, more of it are of class %d", p.Name, p.Class, more[0].Class)
		}
	}
}
