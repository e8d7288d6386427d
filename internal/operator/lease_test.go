package operator_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// holder is who holds the lease.
func holder(t *testing.T, name string) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, lease); err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func TestO57_AnotherTakesOver(t *testing.T) {
	url := newAWS(t)
	start := func(t *testing.T, lease string) *child {
		c := startChild(t, []string{"AWS_ENDPOINT_URL=" + url, "LEADER_ELECTION_NAME=" + lease, "HOSTNAME=karpenter-" + lease})
		c.get(c.health, "/readyz", ok)
		return c
	}
	leads := func(c *child) bool {
		for _, line := range c.log() {
			if strings.Contains(line, `"message":"leading"`) {
				return true
			}
		}
		return false
	}

	t.Run("at once after an orderly end", func(t *testing.T) {
		t.Parallel()
		first := start(t, "orderly")
		first.message("leading")
		second := start(t, "orderly")
		if leads(second) {
			t.Error("both lead")
		}
		was := holder(t, "orderly")
		if !strings.HasPrefix(was, "karpenter-orderly_") { // whoever looks for the leader looks for its pod
			t.Errorf("the lease is held by %q, want the pod karpenter-orderly", was)
		}
		first.stop()
		begin := time.Now()
		second.message("leading")
		if took := time.Since(begin); took > 14*time.Second {
			t.Errorf("the second took %v to lead, though the first has given up the lease", took)
		}
		if now := holder(t, "orderly"); now == "" || now == was {
			t.Errorf("the lease is held by %q, was %q", now, was)
		}
	})
	t.Run("after the lease of one that was killed has run out", func(t *testing.T) {
		t.Parallel()
		first := start(t, "killed")
		first.message("leading")
		second := start(t, "killed")
		_ = first.cmd.Process.Kill()
		<-first.exited
		second.message("leading")
	})
	t.Run("from one that was paused, which then ends", func(t *testing.T) {
		t.Parallel()
		first := start(t, "paused")
		first.message("leading")
		second := start(t, "paused")
		_ = first.cmd.Process.Signal(syscall.SIGSTOP)
		second.message("leading")
		_ = first.cmd.Process.Signal(syscall.SIGCONT)
		if code := first.wait(); code != 1 {
			t.Errorf("the paused leader ended with %d, want 1", code)
		}
		if log := strings.Join(first.log(), "\n"); !strings.Contains(log, "leader election lost") {
			t.Errorf("it does not say why:\n%s", log)
		}
	})
}
