package operator

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// serverClock is the API server's clock (R13). Nearly everything whose age matters was dated by the API server, and must not look old or young
// because the clock of this computer is wrong, or is set while the process runs: an instance that comes up would be ended for being
// late. Between two answers of the API server, time is counted from the start of the process. Before the first, it is that of this computer.
type serverClock struct {
	clock.RealClock // for timers, which count by themselves

	begun  time.Time
	passed func() time.Duration // since then

	mu    sync.Mutex
	ahead time.Duration // the API server's clock, of begun and what has passed
}

// newServerClock is one that no server has answered yet.
func newServerClock() *serverClock {
	begun := time.Now()
	return &serverClock{begun: begun.Round(0), passed: func() time.Duration { return time.Since(begun) }}
}

// Now implements control.Clock.
func (c *serverClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun.Add(c.passed() + c.ahead)
}

// Since implements control.Clock.
func (c *serverClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// follow has the clock take the time from the answers that come through a transport.
func (c *serverClock) follow(server http.RoundTripper) http.RoundTripper { return &dated{server, c} }

type dated struct {
	server http.RoundTripper
	clock  *serverClock
}

// RoundTrip implements http.RoundTripper.
func (d *dated) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := d.clock.passed()
	answer, err := d.server.RoundTrip(request)
	if err == nil {
		if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			d.clock.answered(date, sent, d.clock.passed())
		}
	}
	return answer, err
}

// WrappedRoundTripper lets client-go find what is below.
func (d *dated) WrappedRoundTripper() http.RoundTripper { return d.server }

// answered takes note of a date that the server put on an answer between two times. It dates to the second: the clock stays as it is where it
// could have put that date on the answer itself, and otherwise is set to the nearest that could.
func (c *serverClock) answered(date time.Time, sent, got time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := date.Sub(c.begun)
	c.ahead = min(max(c.ahead, since-got), since+time.Second-sent)
}
