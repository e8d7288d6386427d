package operator

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/version"
	testclock "k8s.io/utils/clock/testing"
)

func TestO57_FenceStopsWritesOfAStaleLeader(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1_000_000, 0))
	f := newFence(clock.Now)
	status := http.StatusOK
	server := transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
	})
	send := func(through http.RoundTripper, method string) error {
		response, err := through.RoundTrip(httptest.NewRequest(method, "/api/v1/nodes", http.NoBody))
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	guarded, lease := f.guard(server), f.watch(server)
	expect := func(when string, want error) {
		t.Helper()
		if err := send(guarded, http.MethodPatch); !errors.Is(err, want) {
			t.Errorf("%s: a write gets %v, want %v", when, err, want)
		}
		if err := send(guarded, http.MethodGet); err != nil {
			t.Errorf("%s: a read gets %v", when, err)
		}
	}
	expect("before the lease is held", errNotLeading)
	if err := send(lease, http.MethodPut); err != nil {
		t.Fatal(err)
	}
	expect("leading", nil)
	clock.Step(renewDeadline - time.Millisecond)
	expect("shortly before the deadline", nil)
	clock.Step(time.Millisecond)
	expect("past the deadline", errNotLeading)
	status = http.StatusConflict
	_ = send(lease, http.MethodPut)
	expect("after a renewal that failed", errNotLeading)
	status = http.StatusOK
	_ = send(lease, http.MethodGet)
	expect("after the lease was only read", errNotLeading)
	_ = send(lease, http.MethodPut)
	expect("after a renewal", nil)
	if err := (*fence)(nil).check(); err != nil {
		t.Errorf("without a lease: %v", err)
	}
}

// versions answers with one version after the other; an empty one is no answer.
type versions struct {
	list []string
}

func (v *versions) ServerVersion() (*version.Info, error) {
	next := v.list[0]
	v.list = v.list[1:]
	if next == "" {
		return nil, http.ErrHandlerTimeout
	}
	return &version.Info{Major: "1", Minor: next}, nil
}

func TestAWS73_UpgradeOfTheControlPlaneEndsTheProcess(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1_000_000, 0))
	p := &process{clock: clock}
	ended := make(chan error)
	go func() { ended <- p.watchVersion(t.Context(), &versions{list: []string{"", "34+", "", "34", "35"}}) }()
	for {
		select {
		case err := <-ended:
			if !errors.Is(err, errUpgraded) || !strings.Contains(err.Error(), "1.35, it was 1.34") {
				t.Errorf("got %v", err)
			}
			return
		default:
			if clock.HasWaiters() {
				clock.Step(versionEvery)
			}
		}
	}
}

func TestAWS73_WaitingForTheCloudEndsWithTheProcess(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1_000_000, 0))
	p := &process{clock: clock, log: slog.New(slog.DiscardHandler), ready: newReadiness(partCloud)}
	ctx, cancel := context.WithCancel(t.Context())
	err := p.persist(ctx, partCloud, func(context.Context) error {
		cancel()
		return http.ErrHandlerTimeout
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
