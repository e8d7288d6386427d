package v1

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestA23_CronLast(t *testing.T) {
	// 2025-06-18 was a Wednesday.
	tests := []struct{ schedule, now, want string }{
		{"* * * * *", "2025-06-18 10:20:30", "2025-06-18 10:20:00"},
		{"0 9 * * *", "2025-06-18 10:20:30", "2025-06-18 09:00:00"},
		{"0 9 * * *", "2025-06-18 09:00:00", "2025-06-18 09:00:00"},
		{"0 9 * * *", "2025-06-18 08:59:59", "2025-06-17 09:00:00"},
		{"0 9 * * mon-fri", "2025-06-15 12:00:00", "2025-06-13 09:00:00"},
		{"0 9-17 * * 1-5", "2025-06-18 20:00:00", "2025-06-18 17:00:00"},
		{"*/15 * * * *", "2025-06-18 10:44:59", "2025-06-18 10:30:00"},
		{"5/20 * * * *", "2025-06-18 10:44:59", "2025-06-18 10:25:00"},
		{"10-30/10 * * * *", "2025-06-18 10:59:59", "2025-06-18 10:30:00"},
		{"0 0 1,15 * *", "2025-06-18 10:00:00", "2025-06-15 00:00:00"},
		{"0 0 31 * *", "2025-06-18 10:00:00", "2025-05-31 00:00:00"},
		{"0 0 29 2 *", "2025-06-18 10:00:00", "2024-02-29 00:00:00"},
		{"0 0 29 2 ?", "2104-02-28 10:00:00", "2096-02-29 00:00:00"},
		{"0 0 * JAN,Mar sun", "2025-06-18 10:00:00", "2025-03-30 00:00:00"},
		{"0 0 * * 7", "2025-06-18 10:00:00", "2025-06-15 00:00:00"},
		{"0 0 * * 5-7", "2025-06-18 10:00:00", "2025-06-15 00:00:00"},
		{"0 0 * * 1/3", "2025-06-18 10:00:00", "2025-06-16 00:00:00"}, // Monday and Thursday, not Sunday
		{"0 0 13 * fri", "2025-06-18 10:00:00", "2025-06-13 00:00:00"},
		{"0 0 1 * fri", "2025-06-18 10:00:00", "2025-06-13 00:00:00"}, // either of the two
		{"0 0 */2 * fri", "2025-06-18 10:00:00", "2025-06-17 00:00:00"},
		{"0 0 1 * *", "2025-06-18 10:00:00", "2025-06-01 00:00:00"},
		{"@hourly", "2025-06-18 10:20:30", "2025-06-18 10:00:00"},
		{"@daily", "2025-06-18 10:20:30", "2025-06-18 00:00:00"},
		{"@midnight", "2025-06-18 10:20:30", "2025-06-18 00:00:00"},
		{"@weekly", "2025-06-18 10:20:30", "2025-06-15 00:00:00"},
		{"@monthly", "2025-06-18 10:20:30", "2025-06-01 00:00:00"},
		{"@yearly", "2025-06-18 10:20:30", "2025-01-01 00:00:00"},
		{"@annually", "2025-06-18 10:20:30", "2025-01-01 00:00:00"},
		{"  0\t9 * *  * ", "2025-06-18 10:20:30", "2025-06-18 09:00:00"},
	}
	for _, test := range tests {
		t.Run(test.schedule+" at "+test.now, func(t *testing.T) {
			cron, err := ParseCron(test.schedule)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := cron.Last(at(test.now)); !ok || !got.Equal(at(test.want)) {
				t.Errorf("Last() = %v %v, want %s", got, ok, test.want)
			}
		})
	}
}

func TestA23_CronIsUTC(t *testing.T) {
	cron, err := ParseCron("0 9 * * *")
	if err != nil {
		t.Fatal(err)
	}
	now := at("2025-06-18 10:00:00").In(time.FixedZone("far", 11*3600))
	if got, _ := cron.Last(now); !got.Equal(at("2025-06-18 09:00:00")) {
		t.Errorf("Last() = %v", got)
	}
}

func TestA23_CronNever(t *testing.T) {
	cron, err := ParseCron("0 0 30 2 *")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := cron.Last(at("2025-06-18 10:00:00")); ok {
		t.Errorf("30 February was %v", got)
	}
}

func TestA23_CronRefuses(t *testing.T) {
	for schedule, want := range map[string]string{
		"":                          "five",
		"* * * *":                   "five",
		"* * * * * *":               "five",
		"@sometimes":                "@hourly",
		"@every 1h":                 "@hourly",
		"60 * * * *":                "minute",
		"* 24 * * *":                "hour",
		"* * 0 * *":                 "day of month",
		"* * 32 * *":                "day of month",
		"* * * 13 *":                "month",
		"* * * * 8":                 "day of week",
		"* * * foo *":               "name such as jan",
		"*/0 * * * *":               "step",
		"*/x * * * *":               "step",
		"1-2-3 * * * *":             "minute",
		"30-10 * * * *":             "upwards",
		"1,,2 * * * *":              "minute",
		"-1 * * * *":                "minute",
		"1/ * * * *":                "step",
		"TZ=UTC * * * *":            "minute",
		"99999999999999999 * * * *": "minute",
	} {
		t.Run(schedule, func(t *testing.T) {
			if _, err := ParseCron(schedule); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v does not speak of %s", err, want)
			}
		})
	}
}

// TestCron_LastAgreesWithCounting holds Last against going back minute by minute with a matcher that is written differently.
func TestCron_LastAgreesWithCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minute := rapid.SampledFrom([]string{"*", "0", "30", "*/7", "15-45"}).Draw(t, "minute")
		hour := rapid.SampledFrom([]string{"*", "0", "9-17", "*/5", "23"}).Draw(t, "hour")
		day := rapid.SampledFrom([]string{"*", "1", "13", "*/4", "28-31", "?"}).Draw(t, "day")
		weekday := rapid.SampledFrom([]string{"*", "0", "1-5", "6,7", "tue", "?"}).Draw(t, "weekday")
		schedule := fmt.Sprintf("%s %s %s * %s", minute, hour, day, weekday)
		cron, err := ParseCron(schedule)
		if err != nil {
			t.Fatal(err)
		}
		now := at("2024-01-01 00:00:00").Add(time.Duration(rapid.IntRange(0, 2*366*24*3600).Draw(t, "second")) * time.Second)
		got, ok := cron.Last(now)
		for want := now.Truncate(time.Minute); now.Sub(want) < 65*24*time.Hour; want = want.Add(-time.Minute) {
			dayFits, weekdayFits := slowMatch(day, want.Day(), 1, 31), slowMatch(weekday, int(want.Weekday()), 0, 6)
			fits := dayFits && weekdayFits
			if !strings.ContainsAny(day[:1], "?*") && !strings.ContainsAny(weekday[:1], "?*") || day == "*/4" && !strings.ContainsAny(weekday, "?*") {
				fits = dayFits || weekdayFits
			}
			if fits && slowMatch(minute, want.Minute(), 0, 59) && slowMatch(hour, want.Hour(), 0, 23) {
				if !ok || !got.Equal(want) {
					t.Fatalf("%s at %v: Last() = %v %v, want %v", schedule, now, got, ok, want)
				}
				return
			}
		}
		t.Fatalf("%s at %v: nothing in 65 days, Last() = %v %v", schedule, now, got, ok)
	})
}

// slowMatch understands just the columns that the property test draws.
func slowMatch(column string, value, low, high int) bool {
	switch column {
	case "*", "?":
		return true
	case "tue":
		return value == 2
	case "6,7":
		return value == 6 || value == 0
	}
	var from, to, step int
	switch {
	case scan(column, "*/%d", &step):
		return (value-low)%step == 0
	case scan(column, "%d-%d", &from, &to):
		return value >= from && value <= min(to, high)
	}
	scan(column, "%d", &from)
	return value == from
}

func scan(text, format string, values ...any) bool {
	n, err := fmt.Sscanf(text, format, values...)
	return err == nil && n == len(values)
}

func FuzzCron(f *testing.F) {
	for _, text := range []string{"* * * * *", "@daily", "0 9 * * mon-fri", "*/5 1-2/3 1,2 jan 7", "9999999999999999999/1 * * * *", "*/9223372036854775807 * * * *"} {
		f.Add(text, int64(1750000000))
	}
	f.Fuzz(func(t *testing.T, schedule string, second int64) {
		cron, err := ParseCron(schedule)
		if err != nil {
			return
		}
		now := time.Unix(second%(1<<40), 0)
		if last, ok := cron.Last(now); ok && (last.After(now) || last.Second() != 0) {
			t.Fatalf("%q: Last(%v) = %v", schedule, now, last)
		}
	})
}
