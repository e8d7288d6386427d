package life_test

import (
	"strings"
	"testing"
	"time"

	"karpenter/internal/engine/life"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

func ptr[T any](v T) *T { return &v }

func TestD61_Deadline(t *testing.T) {
	cases := []struct {
		name              string
		recorded, deleted time.Time
		grace             *time.Duration
		want              time.Time
	}{
		{"no grace period, no deadline", time.Time{}, t0, nil, time.Time{}},
		{"deletion plus grace period", time.Time{}, t0, ptr(time.Minute), at(60)},
		{"zero is at once", time.Time{}, t0, ptr(time.Duration(0)), t0},
		{"negative is at once", time.Time{}, t0, ptr(-time.Minute), t0},
		{"what is on record stays", at(10), t0, ptr(time.Minute), at(10)},
		{"what is on record never moves later", at(90), t0, ptr(2 * time.Minute), at(90)},
		{"a record needs no grace period", at(10), t0, nil, at(10)},
		{"not deleted", time.Time{}, time.Time{}, ptr(time.Minute), time.Time{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := life.Deadline(c.recorded, c.deleted, c.grace); !got.Equal(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestD8_DoNotDisruptValues(t *testing.T) {
	cases := []struct {
		value   string
		started time.Time
		now     time.Time
		holds   bool
		until   time.Time
		wrong   string
	}{
		{"true", t0, at(1e6), true, time.Time{}, ""},
		{"", t0, t0, false, time.Time{}, ""},
		{"false", t0, t0, false, time.Time{}, ""},
		{"30m", t0, at(1799), true, at(1800), ""},
		{"30m", t0, at(1800), false, at(1800), ""},
		{"1h30m", time.Time{}, at(1e6), true, time.Time{}, ""},
		{"0s", t0, t0, false, time.Time{}, "more than zero"},
		{"-5m", t0, t0, false, time.Time{}, "more than zero"},
		{"yes", t0, t0, false, time.Time{}, `"yes"`},
		{"TRUE", t0, t0, false, time.Time{}, "ignored"},
	}
	for _, c := range cases {
		t.Run(c.value+" at "+c.now.Format(time.TimeOnly), func(t *testing.T) {
			got := life.Protect(c.value, c.started, c.now)
			if got.Holds != c.holds || !got.Until.Equal(c.until) || (c.wrong == "") != (got.Wrong == "") || !strings.Contains(got.Wrong, c.wrong) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func FuzzProtect(f *testing.F) {
	for _, seed := range []string{"true", "30m", "-1s", "1e9h", "", "\x00", "9223372036854775807ns"} {
		f.Add(seed, int64(0), int64(60))
	}
	f.Fuzz(func(t *testing.T, value string, started, now int64) {
		got := life.Protect(value, time.Unix(started, 0), time.Unix(now, 0))
		if got.Wrong != "" && got.Holds {
			t.Errorf("%q is wrong and protects", value)
		}
		if len(got.Wrong) > 500 {
			t.Errorf("the message has %d characters", len(got.Wrong))
		}
	})
}
