package life

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestD57_ExpiryIsSpreadAndNeverLate(t *testing.T) {
	seen := map[time.Time]bool{}
	for i := range 100 {
		at := Expiry(born, 720*time.Hour, fmt.Sprint("uid-", i))
		if early := after(720 * time.Hour).Sub(at); early < 0 || early >= jitterMost {
			t.Errorf("claim %d expires %v early", i, early)
		}
		seen[at] = true
	}
	if len(seen) < 90 {
		t.Errorf("100 claims expire at %d times", len(seen))
	}
	if !Expiry(born, 0, "x").Equal(born) {
		t.Error("an age of nothing is over at once")
	}
	rapid.Check(t, func(t *rapid.T) {
		age := time.Duration(rapid.Int64().Draw(t, "age"))
		uid := rapid.String().Draw(t, "uid")
		at := Expiry(born, age, uid)
		if at.After(born.Add(age)) || age > 0 && at.Before(born.Add(age-age/jitterShare)) || !at.Equal(Expiry(born, age, uid)) {
			t.Fatalf("age %v: %v", age, at)
		}
	})
}

func TestL4_BackoffDoubles(t *testing.T) {
	var got []time.Duration
	for n := range 9 {
		got = append(got, Backoff(time.Second, time.Minute, n))
	}
	if want := "[1s 1s 2s 4s 8s 16s 32s 1m0s 1m0s]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if Backoff(time.Second, time.Minute, 1<<30) != time.Minute {
		t.Error("very many failures")
	}
}

func TestL17_PodActivity(t *testing.T) {
	for _, tt := range []struct {
		name     string
		last     time.Time
		happened []time.Time
		want     bool
	}{
		{"nothing has happened", time.Time{}, []time.Time{{}, {}}, false},
		{"the first event", time.Time{}, []time.Time{born, {}}, true},
		{"less than ten seconds later", born, []time.Time{after(9 * time.Second)}, false},
		{"ten seconds later", born, []time.Time{after(-time.Hour), after(10 * time.Second)}, true},
		{"what is known already", born, []time.Time{born}, false},
		{"something older", born, []time.Time{after(-time.Hour)}, false},
	} {
		if _, got := PodActivity(tt.last, tt.happened...); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestL16_Short(t *testing.T) {
	got := Short([]Amount{{"cpu", 100, 90}, {"memory", 100, 89}, {"none", 0, 0}, {"gpu", 1, 0}, {"pods", 10, 20}})
	if want := "[{memory 100 89} {gpu 1 0}]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestL14_Ring(t *testing.T) {
	for _, tt := range []struct {
		name     string
		seed     Status
		outcomes string
		want     Status
		pause    time.Duration
	}{
		{"nothing is known", Unknown, "", Unknown, 0},
		{"one failure says nothing", Unknown, "f", Unknown, 0},
		{"one success", Unknown, "s", True, 0},
		{"a failure after a success", Unknown, "sf", True, 0},
		{"two of four", Unknown, "fssf", False, 0},
		{"two failures", Unknown, "ff", False, time.Minute},
		{"old failures are forgotten", Unknown, "ffssss", True, 0},
		{"it gets worse", Unknown, "ffffff", False, time.Hour},
		{"the record of a healthy pool", True, "", True, 0},
		{"and of another", False, "s", False, 0},
		{"which recovers", False, "sss", True, 0},
	} {
		r := SeedRing(tt.seed)
		for i, o := range tt.outcomes { // each is asked for after the one before has failed
			asked := time.Unix(int64(100*i), 0)
			if o == 's' {
				r.Joined()
			} else {
				r.Failed(asked, asked.Add(time.Minute))
			}
		}
		if got, pause := r.Verdict(), r.Pause(); got != tt.want || pause != tt.pause {
			t.Errorf("%s: verdict %v pause %v, want %v %v", tt.name, got, pause, tt.want, tt.pause)
		}
	}
}
