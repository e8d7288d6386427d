package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	testclock "k8s.io/utils/clock/testing"

	"karpenter/internal/control"
)

func healthOf(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return recorder.Code, strings.TrimSpace(recorder.Body.String())
}

func TestR15_HealthFailsWhenALoopIsWedged(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1_000_000, 0))
	dog := NewWatchdog(clock, nil)
	handler := healthHandler(dog.Check, func() error { return nil })
	entered, leave := make(chan struct{}), make(chan struct{})
	loop := dog.Guard(&control.Loop{Name: "stuck.loop", Clock: clock, Log: slog.New(slog.DiscardHandler), Do: func(context.Context) (time.Duration, error) {
		entered <- struct{}{}
		<-leave
		return 24 * time.Hour, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- loop.Start(ctx) }()
	<-entered
	if code, body := healthOf(t, handler, "/healthz"); code != http.StatusOK {
		t.Errorf("at the start: %d %s", code, body)
	}
	clock.Step(wedged + time.Second)
	if code, body := healthOf(t, handler, "/healthz"); code != http.StatusServiceUnavailable || body != "stuck.loop: no progress for 5m1s" {
		t.Errorf("when it is stuck: %d %s", code, body)
	}
	leave <- struct{}{}
	for !clock.HasWaiters() { // it rests until tomorrow, which is no fault
		runtime.Gosched()
	}
	clock.Step(23 * time.Hour)
	if code, body := healthOf(t, handler, "/healthz"); code != http.StatusOK {
		t.Errorf("while it rests: %d %s", code, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestR15_HealthFailsWithoutHeartbeat(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1_000_000, 0))
	dog := NewWatchdog(clock, nil)
	clock.Step(time.Hour)
	if err := dog.Check(); err != nil { // one that has never begun, as on a replica that does not lead
		t.Error(err)
	}
	dog.Beat("provisioner")
	clock.Step(wedged)
	if err := dog.Check(); err != nil {
		t.Error(err)
	}
	clock.Step(time.Second)
	if err := dog.Check(); err == nil || !strings.Contains(err.Error(), "provisioner") {
		t.Errorf("got %v, want provisioner named", err)
	}
	dog.Beat("provisioner")
	if err := dog.Check(); err != nil {
		t.Error(err)
	}
}

func TestR15_HealthFailsWhenAReconcilerIsWedged(t *testing.T) {
	registry := prometheus.NewRegistry()
	longest := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_longest_running_processor_seconds"}, []string{"name", "controller"})
	registry.MustRegister(longest)
	dog := NewWatchdog(testclock.NewFakeClock(time.Unix(1_000_000, 0)), registry)
	longest.WithLabelValues("nodeclass", "nodeclass").Set(12)
	longest.WithLabelValues("node.termination", "node.termination").Set(301)
	if err := dog.Check(); err == nil || err.Error() != "node.termination: no progress for 5m1s" {
		t.Errorf("got %v", err)
	}
}

func TestO56_ReadySaysWhatIsMissing(t *testing.T) {
	r := newReadiness(partKinds, partCloud)
	handler := healthHandler(func() error { return nil }, r.Check)
	r.waiting(partKinds, http.ErrNotSupported)
	if code, body := healthOf(t, handler, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "cloud: not yet; kinds: ") {
		t.Errorf("%d %s", code, body)
	}
	r.done(partKinds)
	r.done(partCloud)
	if code, body := healthOf(t, handler, "/readyz"); code != http.StatusOK || body != "ok" {
		t.Errorf("%d %s", code, body)
	}
}

func TestO53_LogLines(t *testing.T) {
	var out bytes.Buffer
	line := func(o *Options, log func(*slog.Logger)) map[string]any {
		out.Reset()
		log(slog.New(newLogHandler(o, &out)))
		keys := map[string]any{}
		if out.Len() > 0 {
			if err := json.Unmarshal(out.Bytes(), &keys); err != nil {
				t.Fatalf("%s: %v", out.Bytes(), err)
			}
		}
		return keys
	}
	info := &Options{LogLevel: "info", LogEncoding: "json"}
	got := line(info, func(l *slog.Logger) {
		l.Error("it failed", "error", context.Canceled, "duration", 1500*time.Millisecond, "err", context.Canceled)
	})
	for key, want := range map[string]any{"level": "ERROR", "message": "it failed", "error": "context canceled", "duration": "1.5s"} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if got["caller"] != nil {
		t.Error("lines name their caller at level info")
	}
	if got := line(info, func(l *slog.Logger) { l.Debug("x") }); len(got) > 0 {
		t.Errorf("debug is logged at level info: %v", got)
	}
	if got := line(&Options{LogLevel: "error"}, func(l *slog.Logger) { l.Info("x") }); len(got) > 0 {
		t.Errorf("info is logged at level error: %v", got)
	}
	got = line(&Options{LogLevel: "debug"}, func(l *slog.Logger) { l.Debug("x") })
	if caller, _ := got["caller"].(string); !strings.HasPrefix(caller, "health_test.go:") || got["level"] != "DEBUG" {
		t.Errorf("at level debug: %v", got)
	}
	out.Reset()
	slog.New(newLogHandler(&Options{LogEncoding: "console"}, &out)).Info("hello there", "name", "x")
	if text := out.String(); !strings.Contains(text, `level=INFO message="hello there" name=x`) {
		t.Errorf("console: %s", text)
	}
}

func TestO53_FloodsAreSampled(t *testing.T) {
	var out bytes.Buffer
	clock := testclock.NewFakeClock(time.Unix(1_000_000, 0))
	log := slog.New(newSampler(newLogHandler(&Options{}, &out), clock.Now)).With("a", "b")
	count := func(n int) int {
		out.Reset()
		for range n {
			log.Info("again and again")
		}
		return strings.Count(out.String(), "\n")
	}
	if got := count(350); got != 102 {
		t.Errorf("of 350 equal lines in a second %d were written, want 102", got)
	}
	clock.Step(time.Second)
	if got := count(7); got != 7 {
		t.Errorf("of 7 lines in the next second %d were written", got)
	}
}
