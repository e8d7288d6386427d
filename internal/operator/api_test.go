package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/ledger"
)

// waitingPod is a pod that the scheduler has found no place for.
func waitingPod(t *testing.T, name string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	pod.Spec.Containers = []corev1.Container{{
		Name: "c", Image: "image", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "topsecret"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
	}}
	if err := cluster.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cluster.Client.Delete(context.WithoutCancel(t.Context()), pod, client.GracePeriodSeconds(0))
	})
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	if err := cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// TestDecisionsAreServed asks a controller in a process of its own what it has decided, and for what it decided from.
func TestDecisionsAreServed(t *testing.T) {
	url := newAWS(t)
	dir := t.TempDir()
	env := []string{"AWS_ENDPOINT_URL=" + url, "LEADER_ELECTION_NAME=decisions", "BATCH_IDLE_DURATION=100ms", "LEDGER_DIR=" + dir, fmt.Sprintf("DASHBOARD_ADDRESS=127.0.0.1:%d", freePort(t))}
	waitingPod(t, "served")
	first := startChild(t, env)
	first.message("leading")
	var answer struct{ Decisions []*ledger.Entry }
	first.get(first.metrics, "/api/v1/decisions?kind=Refusal&about=Pod/default/served", func(status int, body string) bool {
		return status == http.StatusOK && json.Unmarshal([]byte(body), &answer) == nil && len(answer.Decisions) > 0
	})
	e := answer.Decisions[0]
	if e.Kind != ledger.Refusal || e.Reason != "NoPool" || !strings.Contains(e.Summary, "pod default/served is unschedulable: no NodePool makes nodes") || e.Outcome != ledger.Open {
		t.Errorf("the decision is %+v", e)
	}
	raw := first.get(first.metrics, "/api/v1/recording", ok)
	recording, err := ledger.Read([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(raw, "topsecret") || recording.Made != "1.2.3" {
		t.Errorf("the recording has environment values, or no version: %s", recording.Made)
	}
	view, problems, err := recording.View()
	if err != nil || len(view.World.Pending) == 0 {
		t.Errorf("%d pods wait in the recording: %v, %v", len(view.World.Pending), problems, err)
	}
	second := startChild(t, append(env[:4:4], "LEDGER_DIR="+t.TempDir()))
	second.get(second.health, "/readyz", ok)
	second.get(second.metrics, "/api/v1/decisions", func(status int, body string) bool {
		return status == http.StatusServiceUnavailable && strings.Contains(body, "this process does not lead: ask ") && strings.Contains(body, "which holds Lease kube-system/decisions")
	})
	second.stop()
	first.stop()

	third := startChild(t, env)
	third.message("leading")
	third.get(third.metrics, "/api/v1/decisions?kind=Refusal", func(status int, body string) bool {
		return status == http.StatusOK && json.Unmarshal([]byte(body), &answer) == nil && len(answer.Decisions) == 1 && answer.Decisions[0].ID == e.ID
	})
	third.stop()
}

func TestDecisionsCanBeTurnedOff(t *testing.T) {
	c := startChild(t, []string{"AWS_ENDPOINT_URL=" + newAWS(t), "DISABLE_LEADER_ELECTION=true", "DECISION_API=false"})
	c.get(c.health, "/readyz", ok)
	c.get(c.metrics, "/api/v1/decisions", func(status int, _ string) bool { return status == http.StatusNotFound })
	c.stop()
}
