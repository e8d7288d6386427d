package control

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
)

func TestO49_EqualEventsAreToldOnceInAWhile(t *testing.T) {
	now := time.Unix(0, 0)
	sink := record.NewFakeRecorder(100)
	r := NewRecorder(sink, func() time.Time { return now })
	event := Event{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}, Warning: true, Reason: "FailedScheduling", Message: "no room"}
	r.Tell(event)
	r.Tell(event)
	other := event
	other.Message = "no zone"
	r.Tell(other)
	now = now.Add(defaultEvery)
	r.Tell(event)
	event.Every = time.Hour
	now = now.Add(time.Hour)
	r.Tell(event)
	now = now.Add(59 * time.Minute)
	r.Tell(event)
	if got := len(sink.Events); got != 4 {
		t.Errorf("%d events, want 4", got)
	}
	(*Recorder)(nil).Tell(event) // nobody listens
}

func TestO49_TheMemoryIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	r := NewRecorder(&record.FakeRecorder{}, func() time.Time { return now })
	for i := range maxRemembered + 10 {
		r.Tell(Event{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}, Reason: "Nominated"})
	}
	if len(r.told) > maxRemembered {
		t.Errorf("%d events are remembered", len(r.told))
	}
}
