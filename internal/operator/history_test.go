package operator_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The figures of the dashboard's charts outlive the process: the next to lead, be it another replica or the same after a restart,
// shows what the ones before have seen, and goes on. What is not ours in their place is replaced.
func TestTheHistoryOutlivesTheController(t *testing.T) {
	const namespace = "history"
	place := metav1.ObjectMeta{Namespace: namespace, Name: "karpenter-dashboard-history"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "of-history"}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, node,
		&corev1.ConfigMap{ObjectMeta: place, Data: map[string]string{"somebody": "else"}, BinaryData: map[string][]byte{"history.json.gz": []byte("broken")}},
	} {
		if err := cluster.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = cluster.Client.Delete(t.Context(), node) })
	env := []string{"AWS_ENDPOINT_URL=" + newAWS(t), "SYSTEM_NAMESPACE=" + namespace}
	kept := func() *corev1.ConfigMap {
		t.Helper()
		object := &corev1.ConfigMap{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: place.Name}, object); err != nil {
			t.Fatal(err)
		}
		return object
	}

	first := startChild(t, env)
	first.message("leading")
	begun := oldest(first, time.Now().Add(time.Hour))
	second := startChild(t, append(env, "HOSTNAME=second"))
	second.get(second.health, "/readyz", ok)
	if version := kept().ResourceVersion; kept().Data == nil {
		t.Errorf("the ConfigMap has been written at once, as version %s: it is to be written rarely", version)
	}
	first.stop()
	if log := strings.Join(first.log(), "\n"); strings.Count(log, "not what this program writes") != 1 || strings.Contains(log, "history is not kept") {
		t.Errorf("the log does not say once that something else was there, or tells of failures:\n%s", log)
	}
	if object := kept(); len(object.Data) > 0 || len(object.BinaryData["history.json.gz"]) < 50 {
		t.Errorf("after the end there is %v and %d bytes", object.Data, len(object.BinaryData["history.json.gz"]))
	}

	second.message("leading")
	if got := oldest(second, begun); !got.Equal(begun) {
		t.Errorf("who takes over knows the figures since %v, the first process began at %v", got, begun)
	}
	_ = second.cmd.Process.Kill()
	<-second.exited

	third := startChild(t, append(env, "HOSTNAME=third"))
	third.message("leading")
	if got := oldest(third, begun); !got.Equal(begun) {
		t.Errorf("after a crash there are figures since %v, the first process began at %v", got, begun)
	}
	before := kept().ResourceVersion
	third.stop()
	if kept().ResourceVersion == before {
		t.Error("what the third has seen was not kept")
	}
	for _, c := range []*child{second, third} {
		if log := strings.Join(c.log(), "\n"); strings.Contains(log, "dashboard.history") {
			t.Errorf("there was trouble:\n%s", log)
		}
	}
}

// oldest is when the first sample that a process shows was taken, as soon as that is not after a moment.
func oldest(c *child, moment time.Time) time.Time {
	var got time.Time
	c.get(c.metrics, "/api/v1/history", func(status int, body string) bool {
		var history struct{ Samples [][]float64 }
		if status != 200 || json.Unmarshal([]byte(body), &history) != nil || len(history.Samples) == 0 {
			return false
		}
		got = time.Unix(int64(history.Samples[0][0]), 0)
		return !got.After(moment)
	})
	return got
}
