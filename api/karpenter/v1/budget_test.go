package v1

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ptr[T any](value T) *T { return &value }

func scheduled(nodes, schedule string, duration time.Duration) Budget {
	return Budget{Nodes: nodes, Schedule: &schedule, Duration: ptr(NewDuration(duration))}
}

func TestA22_Nodes(t *testing.T) {
	tests := []struct {
		text        string
		total, want int
	}{
		{"0", 10, 0},
		{"5", 3, 5},
		{"10%", 10, 1},
		{"10%", 11, 2}, // rounded up
		{"10%", 1, 1},
		{"10%", 0, 0},
		{"0%", 100, 0},
		{"100%", 7, 7},
		{"1%", 1, 1},
		{"33%", 3, 1},
		{"34%", 3, 2},
		{"50%", -5, 0},
		{"99999999999999999999999999", 3, Unlimited},
		{"4294967296", 3, Unlimited},
	}
	for _, test := range tests {
		if got, err := ParseBudgetNodes(test.text, test.total); err != nil || got != test.want {
			t.Errorf("%s of %d = %d (%v), want %d", test.text, test.total, got, err, test.want)
		}
	}
	for _, text := range []string{"", "%", "-1", "-5%", "101%", "10.5%", "all", "5 %", "1e3", "99999999999999999999%"} {
		if got, err := ParseBudgetNodes(text, 10); err == nil || got != 0 {
			t.Errorf("%q = %d, %v; want 0 and an error", text, got, err)
		}
	}
}

func TestD15_ActiveWindow(t *testing.T) {
	tests := []struct {
		name   string
		budget Budget
		now    string
		want   bool
	}{
		{"no schedule", Budget{Nodes: "1"}, "2025-06-18 12:00:00", true},
		{"before the first instant", scheduled("1", "0 9 * * *", 8*time.Hour), "2025-06-18 08:59:59", false},
		{"the first instant", scheduled("1", "0 9 * * *", 8*time.Hour), "2025-06-18 09:00:00", true},
		{"the last second", scheduled("1", "0 9 * * *", 8*time.Hour), "2025-06-18 16:59:59", true},
		{"the end is outside", scheduled("1", "0 9 * * *", 8*time.Hour), "2025-06-18 17:00:00", false},
		{"over midnight", scheduled("1", "0 22 * * *", 8*time.Hour), "2025-06-18 03:00:00", true},
		{"overlapping windows", scheduled("1", "0 9-17 * * *", 2*time.Hour), "2025-06-18 18:59:59", true},
		{"longer than the recurrence", scheduled("1", "@daily", 48*time.Hour), "2025-06-18 23:59:59", true},
		{"over a weekend", scheduled("1", "0 9 * * mon-fri", 8*time.Hour), "2025-06-15 12:00:00", false},
		{"a day that never comes", scheduled("1", "0 0 30 2 *", 8*time.Hour), "2025-06-15 12:00:00", false},
		{"a duration of zero", scheduled("1", "0 9 * * *", 0), "2025-06-18 09:00:00", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got, err := test.budget.Active(at(test.now)); err != nil || got != test.want {
				t.Errorf("Active() = %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func TestD14_AllowedDisruptions(t *testing.T) {
	noon := at("2025-06-18 12:00:00")
	tests := []struct {
		name    string
		budgets []Budget
		reason  DisruptionReason
		want    int
		problem string
	}{
		{"omitted means the default", nil, DisruptionReasonEmpty, 1, ""},
		{"an empty list means no cap", []Budget{}, DisruptionReasonEmpty, Unlimited, ""},
		{"the least counts", []Budget{{Nodes: "50%"}, {Nodes: "3"}, {Nodes: "4"}}, DisruptionReasonEmpty, 3, ""},
		{"other reasons do not count", []Budget{{Nodes: "0", Reasons: []DisruptionReason{DisruptionReasonDrifted}}, {Nodes: "3"}}, DisruptionReasonEmpty, 3, ""},
		{"A25 a reason that counts", []Budget{{Nodes: "0", Reasons: []DisruptionReason{DisruptionReasonDrifted}}, {Nodes: "3"}}, DisruptionReasonDrifted, 0, ""},
		{"A25 an empty list of reasons means all", []Budget{{Nodes: "2", Reasons: []DisruptionReason{}}}, DisruptionReasonDrifted, 2, ""},
		{"none that matches means no cap", []Budget{{Nodes: "0", Reasons: []DisruptionReason{DisruptionReasonDrifted}}}, DisruptionReasonEmpty, Unlimited, ""},
		{"one that does not hold now", []Budget{scheduled("0", "0 13 * * *", time.Hour), {Nodes: "5"}}, DisruptionReasonEmpty, 5, ""},
		{"one that holds now", []Budget{scheduled("0", "0 9 * * *", 8*time.Hour), {Nodes: "5"}}, DisruptionReasonEmpty, 0, ""},
		{"A23 bad cron allows none", []Budget{scheduled("5", "99 * * * *", time.Hour)}, DisruptionReasonEmpty, 0, "spec.disruption.budgets[0]"},
		{"bad nodes allow none", []Budget{{Nodes: "5"}, {Nodes: "some"}}, DisruptionReasonEmpty, 0, "spec.disruption.budgets[1]"},
		{"a schedule alone allows none", []Budget{{Nodes: "5", Schedule: ptr("@daily")}}, DisruptionReasonEmpty, 0, "together"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pool := &NodePool{Spec: NodePoolSpec{Disruption: Disruption{Budgets: test.budgets}}}
			got, err := pool.AllowedDisruptions(test.reason, 10, noon)
			if got != test.want {
				t.Errorf("%d allowed, want %d", got, test.want)
			}
			if (err != nil) != (test.problem != "") || (err != nil && !strings.Contains(err.Error(), test.problem)) {
				t.Errorf("error %v, want %q", err, test.problem)
			}
		})
	}
}

func TestA21_AnEmptyListOfBudgetsSurvivesWriting(t *testing.T) {
	data, err := json.Marshal(Disruption{Budgets: []Budget{}})
	if err != nil || !strings.Contains(string(data), `"budgets":[]`) {
		t.Errorf("%s %v: the API server would put the default in its place", data, err)
	}
	if data, _ = json.Marshal(Disruption{}); strings.Contains(string(data), "budgets") {
		t.Errorf("%s: nothing was said about budgets", data)
	}
}

func TestBudget_PercentagesRoundUpAndNeverExceed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent, total := rapid.IntRange(0, 100).Draw(t, "percent"), rapid.IntRange(0, 100000).Draw(t, "total")
		text, _ := json.Marshal(percent)
		got, err := ParseBudgetNodes(string(text)+"%", total)
		if want := int(math.Ceil(float64(percent*total) / 100)); err != nil || got != want || got > total {
			t.Fatalf("%d%% of %d = %d, %v", percent, total, got, err)
		}
	})
}

func FuzzBudget(f *testing.F) {
	f.Add("10%", "@daily", "1h", 10)
	f.Add("5", "0 9 * * *", "8h", 0)
	f.Add("", "", "", -1)
	f.Fuzz(func(t *testing.T, nodes, schedule, duration string, total int) {
		budget := Budget{Nodes: nodes, Schedule: &schedule}
		if d, err := ParseDuration(duration); err == nil {
			budget.Duration = &d
		}
		allowed, err := budget.Allowed(at("2025-06-18 12:00:00"), total)
		if err != nil && allowed != 0 {
			t.Fatalf("%+v is not understood and allows %d", budget, allowed)
		}
		if allowed < 0 {
			t.Fatalf("%+v allows %d of %d", budget, allowed, total)
		}
	})
}
