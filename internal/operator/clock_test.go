package operator

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestT21_TheTimeIsTheServers: whatever the clock of this computer says, the time is that of the API server, which dates to the second.
func TestT21_TheTimeIsTheServers(t *testing.T) {
	begun := time.Date(2026, 1, 1, 12, 0, 0, 300e6, time.UTC)
	var passed, ahead time.Duration
	c := &serverClock{begun: begun, passed: func() time.Duration { return passed }}
	server := func() time.Time { return begun.Add(passed + ahead) }
	answer := func() {
		sent := passed
		passed += 40 * time.Millisecond
		date := server().Truncate(time.Second)
		passed += 40 * time.Millisecond
		c.answered(date, sent, passed)
	}
	near := func(what string) {
		t.Helper()
		if off := c.Now().Sub(server()).Abs(); off > 1100*time.Millisecond {
			t.Errorf("%s: %v off", what, off)
		}
	}
	near("nothing is known")
	for range 50 {
		passed += 170 * time.Millisecond
		answer()
		if c.Now() != server() {
			t.Fatal("a clock that is right was set")
		}
	}
	for _, ahead = range []time.Duration{time.Hour, -10 * time.Minute, 3 * time.Second, 0} {
		answer()
		near("after one answer")
		for range 20 {
			passed += 170 * time.Millisecond
			answer()
		}
		if off := c.Now().Sub(server()).Abs(); off > 350*time.Millisecond {
			t.Errorf("after many answers: %v off", off)
		}
	}
	before := c.Now()
	passed += time.Hour
	if got := c.Now().Sub(before); got != time.Hour || c.Since(before) != time.Hour {
		t.Errorf("an hour without answers took %v", got)
	}
}

func TestT21_AnswersAreFollowed(t *testing.T) {
	late := time.Now().Add(-time.Hour)
	date := late.UTC().Format(http.TimeFormat)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header()["Date"] = []string{date} }))
	defer server.Close()
	c := newServerClock()
	client := &http.Client{Transport: c.follow(http.DefaultTransport)}
	ask := func() {
		t.Helper()
		answer, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	ask()
	if off := c.Now().Sub(late).Abs(); off > time.Minute {
		t.Errorf("%v off", off)
	}
	date = "yesterday"
	ask()
	if off := c.Now().Sub(late).Abs(); off > time.Minute {
		t.Errorf("a date that cannot be read: %v off", off)
	}
}
