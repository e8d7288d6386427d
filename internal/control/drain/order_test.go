package drain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/test/harness/rig"
)

// Large pods are told to go first. One that is refused, or has been told to for a while, has nobody wait, and nobody waits for long.
func TestLargePodsLeaveFirst(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type pod struct {
		size     int64
		age      time.Duration
		failures int
	}
	for _, c := range []struct {
		name   string
		me     pod
		others []pod
		want   bool
	}{
		{"alone", pod{size: 1000}, nil, false},
		{"a larger one", pod{size: 1000}, []pod{{size: 4000}}, true},
		{"a smaller one", pod{size: 4000}, []pod{{size: 1000}}, false},
		{"about as large", pod{size: 1000}, []pod{{size: 1250}}, false},
		{"just larger", pod{size: 1000}, []pod{{size: 1251}}, true},
		{"larger and refused", pod{size: 1000}, []pod{{size: 4000, failures: 1}}, false},
		{"larger, one refused", pod{size: 1000}, []pod{{size: 4000, failures: 1}, {size: 2000}}, true},
		{"larger and there for long", pod{size: 1000}, []pod{{size: 4000, age: orderFor}}, false},
		{"there for long itself", pod{size: 1000, age: orderFor}, []pod{{size: 4000}}, false},
		{"not for quite so long", pod{size: 1000, age: orderFor - 1}, []pod{{size: 4000, age: orderFor - 1}}, true},
	} {
		q := &queue{entries: map[key]*entry{}, gates: map[group]*gate{}}
		for i, o := range c.others {
			g := group{namespace: fmt.Sprint(i)}
			q.entries[key{name: fmt.Sprint(i)}] = &entry{size: o.size, added: now.Add(-o.age), group: g}
			q.gates[g] = &gate{failures: o.failures}
		}
		me := &entry{size: c.me.size, added: now.Add(-c.me.age), group: group{namespace: "me"}}
		q.entries[key{name: "me"}], q.gates[me.group] = me, &gate{}
		if got := q.larger(job{entry: *me}, now); got != c.want {
			t.Errorf("%s: waits %v", c.name, got)
		}
	}
}

// Pods that the rates hold back ask again in as much time as all of them take to leave, so that thousands do not ask all the time.
func TestManyPodsThatWaitAskSeldom(t *testing.T) {
	for pods, want := range map[int]time.Duration{5: crowded, 50: 500 * time.Millisecond, 5000: mostCrowded} {
		fake := testingclock.NewFakeClock(time.Unix(0, 0))
		q := newQueue(&Drainer{Clock: fake}, nil)
		for i := range pods {
			q.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}, order{node: &corev1.Node{}})
		}
		for q.first.TryAccept() {
		}
		k := key{name: "0"}
		j := job{key: k, step: life.PodStep{Do: life.Evict}}
		j.entry, _ = q.entry(k)
		if got := q.enter(j); got != want {
			t.Errorf("%d pods: asks again after %s, want %s", pods, got, want)
		}
		fake.Step(mostCrowded)
		if got := q.enter(j); got != 0 {
			t.Errorf("%d pods: waits for another %s", pods, got)
		}
		q.work.ShutDown()
	}
}

// An API server that has too much to do answers like a disruption budget that allows no eviction. That is no reason to hold back the pods
// of a group.
func TestL26_ABusyAPIServerIsNoDisruptionBudget(t *testing.T) {
	spent := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	spent.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget web needs 5 healthy pods and has 5 currently"}}
	for _, c := range []struct {
		name     string
		answer   error
		failures int
		want     string
	}{
		{"busy", apierrors.NewTooManyRequests("too many requests", 1), 0, "the API server has too many requests"},
		{"a webhook", apierrors.NewTooManyRequestsError(`admission webhook "vms.example.com" denied the request: the machine moves first`), 1, "the machine moves first"},
		{"no eviction allowed", spent, 1, "its disruption budget allows no eviction now"},
	} {
		fake, told := testingclock.NewFakeClock(time.Unix(0, 0)), &rig.Sink{}
		q := newQueue(&Drainer{Clock: fake, Recorder: control.NewRecorder(told, fake.Now)}, nil)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u"}}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		q.Add(pod, order{node: node})
		j := job{key: key{"shop", "web-1", "u"}, pod: pod}
		j.entry, _ = q.entry(j.key)
		q.settleEviction(j, c.answer)
		if got := q.gates[j.group].failures; got != c.failures {
			t.Errorf("%s: %d failures of the group, want %d", c.name, got, c.failures)
		}
		if got := told.All(); len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%s: told %q", c.name, got)
		}
		q.work.ShutDown()
	}
}

func TestSizeOfAPod(t *testing.T) {
	pod := &corev1.Pod{}
	for range 2 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("4Gi")},
		}})
	}
	if got := sizeOf(pod); got != 2*(500+1024) {
		t.Errorf("%d", got)
	}
}
