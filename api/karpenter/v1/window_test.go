package v1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func budgetOf(schedule, duration string) *Budget {
	d, err := ParseDuration(duration)
	if err != nil {
		panic(err)
	}
	return &Budget{Nodes: "0", Schedule: &schedule, Duration: &d}
}

func TestD15_BudgetWindows(t *testing.T) {
	from := time.Date(2026, 3, 4, 10, 30, 0, 0, time.UTC) // a Wednesday
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 3, day, hour, minute, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		budget *Budget
		hours  int
		want   []Window
	}{
		"without a schedule it always holds":   {&Budget{Nodes: "5"}, 24, []Window{{from, at(5, 10, 30)}}},
		"one that has begun starts now":        {budgetOf("0 9 * * mon-fri", "8h"), 24, []Window{{from, at(4, 17, 0)}, {at(5, 9, 0), at(5, 10, 30)}}},
		"times that overlap are one":           {budgetOf("@hourly", "2h"), 24, []Window{{from, at(5, 10, 30)}}},
		"times that meet are one":              {budgetOf("0 */6 * * *", "6h"), 24, []Window{{from, at(5, 10, 30)}}},
		"none within the days that are shown":  {budgetOf("0 0 1 1 *", "1h"), 24, nil},
		"a schedule that never comes has none": {budgetOf("0 0 30 2 *", "1h"), 24, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.budget.Windows(from, from.Add(time.Duration(c.hours)*time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := budgetOf("every day", "1h").Windows(from, from.Add(time.Hour)); err == nil {
		t.Error("a schedule that cannot be read has no error")
	}
}

// Whatever the schedule, a budget holds exactly within its windows.
func TestD15_BudgetWindowsAgreeWithActive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := rapid.SampledFrom([]string{"0 9 * * mon-fri", "*/15 * * * *", "30 22 * * *", "0 0 * * 0", "5,50 3 1-15 * *", "@hourly"}).Draw(t, "schedule")
		b := budgetOf(schedule, rapid.SampledFrom([]string{"1m", "10m", "15m", "1h", "8h", "30h"}).Draw(t, "duration"))
		from := time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, "from"), 0).UTC()
		to := from.Add(7 * 24 * time.Hour)
		windows, err := b.Windows(from, to)
		if err != nil {
			t.Fatal(err)
		}
		at := from.Add(time.Duration(rapid.Int64Range(0, 7*24*3600-1).Draw(t, "at")) * time.Second)
		want, err := b.Active(at)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		for _, w := range windows {
			got = got || (!at.Before(w.From) && at.Before(w.To))
		}
		if got != want {
			t.Fatalf("at %v the budget holds: %v, by its windows: %v\n%v", at, want, got, windows)
		}
	})
}
