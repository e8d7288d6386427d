package v1

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

var birth = at("2025-06-18 08:00:00")

func newClaim() *NodeClaim {
	return &NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 1, CreationTimestamp: metav1.NewTime(birth)}}
}

// line prints what matters of a condition.
func line(c *Condition) string {
	if c == nil {
		return "none"
	}
	return c.Type + "=" + string(c.Status) + " " + c.Reason + " [" + c.Message + "] since " + c.LastTransitionTime.UTC().Format("15:04:05")
}

func lines(conditions []Condition) []string {
	var out []string
	for i := range conditions {
		out = append(out, line(&conditions[i]))
	}
	return out
}

func TestA52_MissingConditionsAreUnknownSinceBirth(t *testing.T) {
	claim := newClaim()
	want := []string{
		"Launched=Unknown AwaitingReconciliation [not judged yet] since 08:00:00",
		"Registered=Unknown AwaitingReconciliation [not judged yet] since 08:00:00",
		"Initialized=Unknown AwaitingReconciliation [not judged yet] since 08:00:00",
		"Ready=Unknown AwaitingReconciliation [not judged yet] since 08:00:00",
	}
	if diff := cmp.Diff(want, lines(claim.StatusConditions().All())); diff != "" {
		t.Error(diff)
	}
	if claim.Status.Conditions != nil {
		t.Error("reading wrote to the object")
	}
}

func TestA53_Root(t *testing.T) {
	now := birth.Add(time.Minute)
	claim := newClaim()
	set := claim.StatusConditions()
	check := func(want string) {
		t.Helper()
		if got := line(set.Root()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	set.SetTrue(ConditionLaunched, now)
	check("Ready=Unknown ReconcilingDependents [Registered=Unknown, Initialized=Unknown] since 08:00:00")
	set.SetFalse(ConditionRegistered, ReasonMultipleNodesFound, "two nodes", now)
	check("Ready=False UnhealthyDependents [Registered=False, Initialized=Unknown] since 08:01:00")
	set.SetTrue(ConditionRegistered, now.Add(time.Minute))
	check("Ready=Unknown ReconcilingDependents [Initialized=Unknown] since 08:02:00")
	set.SetTrue(ConditionInitialized, now.Add(2*time.Minute))
	check("Ready=True Ready [] since 08:03:00")
	if got := set.Get(ConditionLaunched); got.Reason != ConditionLaunched {
		t.Errorf("reason of a True condition = %s, want its type", got.Reason)
	}
	if !set.IsTrue(ConditionReady, ConditionLaunched) || set.IsTrue(ConditionReady, ConditionDrifted) {
		t.Error("IsTrue")
	}

	t.Run("a new generation makes it Unknown until all are judged again", func(t *testing.T) {
		claim.Generation = 2
		set.SetTrue(ConditionLaunched, now.Add(3*time.Minute))
		check("Ready=Unknown ReconcilingDependents [Registered=Unknown, Initialized=Unknown] since 08:04:00")
		set.SetTrue(ConditionRegistered, now.Add(3*time.Minute))
		set.SetTrue(ConditionInitialized, now.Add(3*time.Minute))
		if !set.IsTrue(ConditionReady) || set.Root().ObservedGeneration != 2 {
			t.Errorf("%+v", set.Root())
		}
	})
	t.Run("it cannot be set", func(t *testing.T) {
		if set.SetFalse(ConditionReady, "Because", "I say so", now) || !set.IsTrue(ConditionReady) {
			t.Error("set")
		}
	})
	t.Run("others do not matter to it", func(t *testing.T) {
		set.SetFalse(ConditionConsistentStateFound, "X", "y", now)
		if !set.IsTrue(ConditionReady) {
			t.Error(line(set.Root()))
		}
	})
}

func TestA54_TransitionTimeMovesOnlyWithStatus(t *testing.T) {
	claim := newClaim()
	set := claim.StatusConditions()
	set.SetUnknown(ConditionLaunched, ReasonLaunchFailed, "no capacity", birth.Add(time.Minute))
	if got := line(set.Get(ConditionLaunched)); got != "Launched=Unknown LaunchFailed [no capacity] since 08:00:00" {
		t.Error(got)
	}
	set.SetTrue(ConditionLaunched, birth.Add(2*time.Minute))
	set.Set(Condition{Type: ConditionLaunched, Status: metav1.ConditionTrue, Reason: "Other", Message: "m"}, birth.Add(3*time.Minute))
	if got := line(set.Get(ConditionLaunched)); got != "Launched=True Other [m] since 08:02:00" {
		t.Error(got)
	}
}

func TestA54_NothingChangesTwice(t *testing.T) {
	claim := newClaim()
	set := claim.StatusConditions()
	if !set.SetTrue(ConditionLaunched, birth.Add(time.Minute)) {
		t.Error("the first time changes something")
	}
	if set.SetTrue(ConditionLaunched, birth.Add(time.Hour)) {
		t.Error("the second time changes nothing")
	}
}

func TestA54_DeletingBumpsGenerations(t *testing.T) {
	claim := newClaim()
	set := claim.StatusConditions()
	for _, conditionType := range []string{ConditionLaunched, ConditionRegistered, ConditionInitialized} {
		set.SetTrue(conditionType, birth)
	}
	claim.Generation, claim.DeletionTimestamp = 2, ptr(metav1.NewTime(birth))
	for _, c := range set.All() {
		if c.ObservedGeneration != 2 {
			t.Errorf("%s was judged for generation %d", c.Type, c.ObservedGeneration)
		}
	}
	set.SetUnknown(ConditionDrained, ReasonDraining, "", birth.Add(time.Minute))
	if !set.IsTrue(ConditionReady) {
		t.Error(line(set.Root()))
	}
}

func TestA54_Order(t *testing.T) {
	claim := newClaim()
	set := claim.StatusConditions()
	set.SetTrue(ConditionDrifted, birth.Add(3*time.Minute))
	set.SetTrue(ConditionInitialized, birth.Add(time.Minute))
	set.SetTrue(ConditionLaunched, birth.Add(2*time.Minute))
	set.SetTrue(ConditionConsolidatable, birth.Add(3*time.Minute))
	var got []string
	for _, c := range claim.Status.Conditions {
		got = append(got, c.Type)
	}
	want := []string{ConditionRegistered, ConditionInitialized, ConditionLaunched, ConditionConsolidatable, ConditionDrifted, ConditionReady}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestA54_Clear(t *testing.T) {
	claim := newClaim()
	set := claim.StatusConditions()
	set.SetTrue(ConditionDrifted, birth)
	if changed, err := set.Clear(ConditionDrifted, birth); err != nil || !changed || set.Get(ConditionDrifted) != nil {
		t.Errorf("%v %v", changed, err)
	}
	if changed, err := set.Clear(ConditionDrifted, birth); err != nil || changed {
		t.Errorf("a second time: %v %v", changed, err)
	}
	for _, conditionType := range []string{ConditionReady, ConditionLaunched} {
		if _, err := set.Clear(conditionType, birth); err == nil {
			t.Errorf("%s was removed", conditionType)
		}
	}
}

func TestA30_PoolConditions(t *testing.T) {
	pool := &NodePool{}
	set := pool.StatusConditions()
	set.SetTrue(ConditionValidationSucceeded, birth)
	set.SetFalse(ConditionNodeRegistrationHealthy, ReasonRegistrationFailed, "", birth)
	set.SetTrue(ConditionNodeClassReady, birth)
	if !set.IsTrue(ConditionReady) {
		t.Error(line(set.Root()))
	}
	set.SetFalse(ConditionNodeClassReady, ReasonNodeClassNotFound, "", birth)
	if got := set.Root(); got.Status != metav1.ConditionFalse || got.Message != "NodeClassReady=False" {
		t.Error(line(got))
	}
}

func TestA38_ConditionsOfOldObjectsAreRead(t *testing.T) {
	var claim NodeClaim
	text := `{"status":{"conditions":[{"type":"Launched","status":"True","lastTransitionTime":"2025-06-18T08:00:00Z"}]}}`
	if err := json.Unmarshal([]byte(text), &claim); err != nil || !claim.StatusConditions().IsTrue(ConditionLaunched) {
		t.Errorf("%v %v", err, claim.Status.Conditions)
	}
}

// TestConditionSet_RootFollows holds, after any series of changes, that Ready is True exactly when all that it depends on
// is True and current, False if any of it is False, that Ready comes last, and that no type appears twice.
func TestConditionSet_RootFollows(t *testing.T) {
	types := []string{ConditionLaunched, ConditionRegistered, ConditionInitialized, ConditionDrifted}
	statuses := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}
	rapid.Check(t, func(t *rapid.T) {
		claim := newClaim()
		set := claim.StatusConditions()
		for i := range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.IntRange(0, 5).Draw(t, "bump") == 0 {
				claim.Generation++
			}
			condition := Condition{Type: rapid.SampledFrom(types).Draw(t, "type"), Status: rapid.SampledFrom(statuses).Draw(t, "status"), Reason: "R"}
			set.Set(condition, birth.Add(time.Duration(i)*time.Minute))
			want := metav1.ConditionTrue
			for _, conditionType := range types[:3] {
				c := set.Get(conditionType)
				switch {
				case c.ObservedGeneration == claim.Generation && c.Status == metav1.ConditionFalse:
					want = metav1.ConditionFalse
				case (c.ObservedGeneration != claim.Generation || c.Status != metav1.ConditionTrue) && want == metav1.ConditionTrue:
					want = metav1.ConditionUnknown
				}
			}
			if got := set.Root().Status; got != want {
				t.Fatalf("Ready = %s, want %s\n%v", got, want, lines(set.All()))
			}
			seen := map[string]bool{}
			for _, c := range claim.Status.Conditions {
				if seen[c.Type] {
					t.Fatalf("%s twice", c.Type)
				}
				seen[c.Type] = true
			}
			if last := claim.Status.Conditions[len(claim.Status.Conditions)-1].Type; last != ConditionReady {
				t.Fatalf("%s is last", last)
			}
		}
	})
}

// A38: clients that read conditions as metav1.Condition want a message, if an empty one.
func TestA38_AnEmptyMessageIsWritten(t *testing.T) {
	text, err := json.Marshal(Condition{Type: "Ready", Status: "True"})
	if err != nil || !strings.Contains(string(text), `"message":""`) {
		t.Errorf("%s %v", text, err)
	}
}
