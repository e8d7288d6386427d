package operator

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"karpenter/cloud"
)

// scriptedLock answers what it is told to.
type scriptedLock struct {
	resourcelock.Interface
	err    error
	holder string
}

func (s *scriptedLock) Identity() string { return "me" }

func (s *scriptedLock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return s.err }

func (s *scriptedLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: s.holder}, nil, s.err
}

// TestT13_LeaseOutlastsTheAPIServer: an API server that is away costs nobody the lease, one that says that somebody else has it does.
func TestT13_LeaseOutlastsTheAPIServer(t *testing.T) {
	group := schema.GroupResource{Resource: "leases"}
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	gone, busy := errors.New("connection refused"), apierrors.NewTooManyRequests("busy", 1)
	conflict := apierrors.NewConflict(group, "lease", errors.New("changed"))
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		held   bool
		record resourcelock.LeaderElectionRecord
		err    error
		kept   bool
	}{
		{"away", t.Context(), true, mine, gone, true},
		{"busy", t.Context(), true, mine, busy, true},
		{"somebody has written it", t.Context(), true, mine, conflict, false},
		{"never had it", t.Context(), false, mine, gone, false},
		{"gives it up", t.Context(), true, resourcelock.LeaderElectionRecord{}, gone, false},
		{"ends", ended, true, mine, gone, false},
	} {
		script := &scriptedLock{}
		lock := &patientLock{Interface: script, log: slog.New(slog.DiscardHandler)}
		if c.held {
			if err := lock.Update(t.Context(), mine); err != nil {
				t.Fatal(err)
			}
		}
		script.err = c.err
		if kept := lock.Update(c.ctx, c.record) == nil; kept != c.kept {
			t.Errorf("%s: kept %v, want %v", c.name, kept, c.kept)
		}
	}
	script := &scriptedLock{}
	lock := &patientLock{Interface: script, log: slog.New(slog.DiscardHandler)}
	if err := lock.Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	script.holder = "another"
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	script.err = gone
	if lock.Update(t.Context(), mine) == nil {
		t.Error("a lease that another has is taken for ours")
	}
}

// TestT13_AnAPIServerThatIsBusyLacksNothing: an answer that is none is not taken for CRDs that are not there.
func TestT13_AnAPIServerThatIsBusyLacksNothing(t *testing.T) {
	class := cloud.Kind{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "NodeClass"}}
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := missingKinds(client, class); err == nil || strings.Contains(err.Error(), "install") {
		t.Errorf("busy: %v", err)
	}
	status = http.StatusNotFound
	if err := missingKinds(client, class); err == nil || !strings.Contains(err.Error(), "install the CustomResourceDefinitions") {
		t.Errorf("not installed: %v", err)
	}
}
