package provision

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/meter"
)

// board reads what has been counted.
type board struct {
	t   *testing.T
	reg *prometheus.Registry
}

func newBoard(t *testing.T) (*board, *meter.Set) {
	b := &board{t, prometheus.NewRegistry()}
	return b, meter.New(b.reg, meter.Cloud{})
}

// series are the values of a metric by label values, in the order of label names; of a histogram the count and the sum.
func (b *board) series(name meter.Name) map[string]string {
	b.t.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range families {
		if f.GetName() != "karpenter_"+string(name) {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			value := fmt.Sprint(m.GetGauge().GetValue() + m.GetCounter().GetValue())
			if h := m.GetHistogram(); h != nil {
				if h.GetSampleCount() == 0 {
					continue
				}
				value = fmt.Sprintf("%d×%g", h.GetSampleCount(), h.GetSampleSum())
			}
			out[strings.Join(labels, " ")] = value
		}
	}
	return out
}

func (b *board) want(name meter.Name, want map[string]string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.series(name)); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

type is = map[string]string

func TestP119_FromWaitingToRunning(t *testing.T) {
	b, m := newBoard(t)
	tr := newTracker(m)
	now := epoch
	tr.live(func() time.Time { return now })
	pod := newPod("a", "1", func(p *corev1.Pod) { // created a minute ago
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	})
	if !tr.see(pod, epoch) || !tr.see(pod, at(time.Second)) {
		t.Fatal("the pod is not seen to wait")
	}
	now = at(2 * time.Second)
	b.want(meter.PodsSchedulingUndecidedTime, is{"a default": "2"})
	tr.decide(pod.UID, false, at(3*time.Second))
	tr.decide(pod.UID, true, at(5*time.Second))
	tr.decide(pod.UID, true, at(6*time.Second))
	b.want(meter.PodsSchedulingDecisionDuration, is{"": "1×3"}) // O22: from the first sight to the first decision
	now = at(8 * time.Second)
	b.want(meter.PodsSchedulingUndecidedTime, is{})
	b.want(meter.PodsProvisioningUnboundTime, is{"true a default": "3"})
	b.want(meter.PodsProvisioningUnstartedTime, is{"a default": "3"})

	pod = pod.DeepCopy()
	pod.Spec.NodeName = "n"
	tr.see(pod, at(30*time.Second))
	tr.see(pod, at(31*time.Second))
	b.want(meter.PodsBoundDuration, is{"true": "1×90"})             // O19: from creation
	b.want(meter.PodsProvisioningBoundDuration, is{"true": "1×25"}) // O20: from the first decision that gave it a place
	now = at(32 * time.Second)
	b.want(meter.PodsProvisioningUnboundTime, is{})
	b.want(meter.PodsProvisioningUnstartedTime, is{"a default": "27"})

	pod = pod.DeepCopy()
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	tr.see(pod, at(45*time.Second))
	b.want(meter.PodsProvisioningStartupDuration, is{"": "1×40"})
	b.want(meter.PodsProvisioningUnstartedTime, is{})
	if len(tr.pods) > 0 {
		t.Errorf("%d pods are remembered", len(tr.pods))
	}
}

func TestP119_WhatIsForgotten(t *testing.T) {
	b, m := newBoard(t)
	tr := newTracker(m)
	tr.live(func() time.Time { return epoch })
	running := newPod("running", "1", func(p *corev1.Pod) { p.Spec.NodeName = "n" })
	tr.see(running, epoch) // had its node before we came
	done := newPod("done", "1")
	tr.see(done, epoch)
	done.Status.Phase = corev1.PodSucceeded
	tr.see(done, epoch)
	gone := newPod("gone", "1")
	tr.see(gone, epoch)
	tr.forget(gone.UID)
	quick := newPod("quick", "1", func(p *corev1.Pod) { p.Status.Conditions = nil }) // never waited for us
	tr.see(quick, epoch)
	quick.Spec.NodeName = "n"
	tr.see(quick, epoch)
	if len(tr.pods) > 0 {
		t.Errorf("%d pods are remembered", len(tr.pods))
	}
	b.want(meter.PodsSchedulingUndecidedTime, is{})
	b.want(meter.PodsBoundDuration, is{"false": "1×60"})

	tr.told("leaving", "that it has to go", epoch, time.Minute) // a pod of a node that goes away
	if tr.news("leaving", "that it has to go", at(time.Second)) || !tr.news("leaving", "something else", at(time.Second)) {
		t.Error("what was told is not remembered")
	}
	tr.tidy(at(2 * time.Minute))
	if len(tr.pods) > 0 {
		t.Error("a pod of which nothing is left to say is remembered")
	}
}

func TestO47_SeriesPerPodAreBounded(t *testing.T) {
	b, m := newBoard(t)
	tr := newTracker(m)
	tr.live(func() time.Time { return at(time.Minute) })
	for i := range maxPodSeries + 50 {
		tr.see(newPod(fmt.Sprintf("p%05d", i), "1"), at(time.Duration(i)*time.Millisecond))
	}
	got := b.series(meter.PodsSchedulingUndecidedTime)
	if _, oldest := got["p00000 default"]; len(got) != maxPodSeries || !oldest {
		t.Errorf("%d series, the one of the oldest pod among them: %t", len(got), oldest)
	}
	tr.forget("pod-p00000")
	got = b.series(meter.PodsSchedulingUndecidedTime)
	if _, next := got[fmt.Sprintf("p%05d default", maxPodSeries)]; len(got) != maxPodSeries || !next {
		t.Errorf("%d series, the next pod among them: %t", len(got), next)
	}
}

func TestO33_PodsByZone(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("zones"))
	s.put(newPod("a", "1", selects(world.LabelZone, "us-east-1a")), newPod("b", "1", selects(world.LabelZone, "us-east-1a")), newPod("c", "1"),
		newPod("d", "1", selects(world.LabelZone, "mars-1a")))
	b, m := newBoard(t)
	d := newRunner(t, s)
	d.Meter = m
	d.prepare()
	d.pass()
	b.want(meter.SchedulerPendingZones, is{"provisioner us-east-1a": "2", "provisioner flexible": "1", "provisioner none": "1"})
	for _, p := range []int{0, 1, 3} {
		s.Drop(s.pods[p])
	}
	d.pass()
	b.want(meter.SchedulerPendingZones, is{"provisioner flexible": "1"})
	s.clear()
	d.pass()
	b.want(meter.SchedulerPendingZones, is{})
}

func TestO29_PassesAreMeasured(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("measured"))
	s.put(newPod("a", "1"), newPod("big", "1000"), newPod("refused", "1", selects("karpenter.sh/unknown", "x")))
	b, m := newBoard(t)
	d := newRunner(t, s)
	d.Meter, d.Creator.Meter = m, m
	d.prepare()
	d.pass()
	b.want(meter.SchedulerUnschedulable, is{"provisioner": "1"})           // O31
	b.want(meter.SchedulerIgnoredPods, is{"": "1"})                        // O32
	b.want(meter.NodeClaimsCreated, is{"false measured provisioned": "1"}) // O1
	b.want(meter.SchedulingDuration, is{"provisioner": "1×0"})             // O29
	b.want(meter.ProvisionerDuration, is{"error": "1×0"})                  // A76
	b.want(meter.SchedulerQueueDepth, is{"provisioner 1": "0"})            // O30
	s.clear()
	s.put(newPod("fits", "1"), newPod("a", "1"))
	d.pass()
	b.want(meter.SchedulerQueueDepth, is{"provisioner 2": "0"}) // O47: the pass before is gone
	b.want(meter.SchedulerUnfinished, is{"provisioner 2": "0"})
	b.want(meter.SchedulerUnschedulable, is{"provisioner": "0"})
	b.want(meter.SchedulerIgnoredPods, is{"": "0"})
	b.want(meter.ProvisionerDuration, is{"error": "1×0", "success": "1×0"})
	s.clear()
	d.pass()
	b.want(meter.SchedulingDuration, is{"provisioner": "2×0"}) // nothing was asked
}

func TestP2_WhatTriggers(t *testing.T) {
	taint := corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}
	node := func(taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	cases := []struct {
		name  string
		event func(d *runner)
		want  bool
	}{
		{"P1 a pod that waits", func(d *runner) { d.podChanged(nil, newPod("a", "1")) }, true},
		{"P9 a pod that is gated", func(d *runner) {
			d.podChanged(nil, newPod("a", "1", func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated }))
		}, false},
		{"a pod that is bound", func(d *runner) { d.podChanged(nil, newPod("a", "1", func(p *corev1.Pod) { p.Spec.NodeName = "n" })) }, false},
		{"P2 a node that is to go", func(d *runner) { d.nodeChanged(node(), node(taint)) }, true},
		{"P2 one found going at the start", func(d *runner) { d.nodeChanged(nil, node(taint)) }, true},
		{"one that goes on going", func(d *runner) { d.nodeChanged(node(taint), node(taint)) }, false},
		{"a pool that becomes ready", func(d *runner) { d.poolChanged(newPool("p", notReady), newPool("p", ready)) }, true},
		{"a pool that is counted", func(d *runner) { d.poolChanged(newPool("p"), newPool("p")) }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newRunner(t, newFixture(typesOf(twoZones, 2)))
			c.event(d)
			if _, open := d.Batch.window.closes(); open != c.want {
				t.Errorf("triggers: %t", open)
			}
		})
	}
}

func TestCutKeepsWholeLetters(t *testing.T) {
	long := strings.Repeat("ä", maxMessage)
	if got := cut(long); len(got) > maxMessage || !slices.Contains([]string{"ä …"}, got[len(got)-len("ä …"):]) {
		t.Errorf("%d bytes, ends in %q", len(got), got[len(got)-10:])
	}
}

func TestP4_TheSchedulerIsBehindWhileItHasNotLookedAtPodsThatCame(t *testing.T) {
	yes := true
	looked := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
	cases := []struct {
		name   string
		pod    corev1.Pod
		after  time.Duration
		behind bool
	}{
		{"it has had no time yet", corev1.Pod{}, schedulerQuick - 1, false},
		{"it should have looked by now", corev1.Pod{}, schedulerQuick, true},
		{"it will never look", corev1.Pod{}, schedulerSlow, false},
		{"it has found no place", corev1.Pod{Status: looked}, schedulerQuick, false},
		{"it has found one", corev1.Pod{Spec: corev1.PodSpec{NodeName: "a"}}, schedulerQuick, false},
		{"it is not to look", corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "later"}}}}, schedulerQuick, false},
		{"a daemon's pod", corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "proxy", Controller: &yes}}}}, schedulerQuick, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, set := newBoard(t)
			track := newTracker(set)
			c.pod.UID = "1"
			track.see(&c.pod, epoch)
			none := func(types.UID) bool { return false }
			if got := track.behind(at(c.after), none); got != c.behind {
				t.Errorf("after %s: behind %t", c.after, got)
			}
			if track.behind(at(c.after), func(owner types.UID) bool { return owner == "1" }) {
				t.Errorf("after %s: behind, though it has refused others of the same owner", c.after)
			}
		})
	}
}

// TestPodsBoundAsPlanned: pods of one owner are alike, so that it is the same which of them takes which of their places.
func TestPodsBoundAsPlanned(t *testing.T) {
	s := newFixture(typesOf(twoZones, 4), newPool("planned"))
	for _, name := range []string{"n1", "n2", "n3"} {
		s.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.NodeSpec{ProviderID: name}})
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c1", UID: "c1"}}
	claim.Status.ProviderID = "n1"
	s.Put(claim)
	b, m := newBoard(t)
	tr := newTracker(m)
	of := func(owner string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
		}
	}
	bind := func(p *corev1.Pod, node string) {
		bound := p.DeepCopy()
		bound.Spec.NodeName = node
		tr.see(bound, at(time.Second))
		tr.see(bound, at(2*time.Second))
	}
	var list []*corev1.Pod
	for i, to := range []destination{{claim: "c1"}, {node: "n2"}, {node: "n2"}, {claim: "c1"}} {
		list = append(list, newPod(fmt.Sprintf("p%d", i), "1", of([]string{"web", "web", "web", "db"}[i])))
		tr.see(list[i], epoch)
		tr.plan(list[i].UID, destination{claim: "first"}) // planned anew since
		tr.plan(list[i].UID, to)
	}
	bind(list[0], "n2") // a place of another one of web
	bind(list[1], "n1") // and the other way round
	bind(list[2], "n3")
	tr.settle(s.View())
	b.want(meter.PodsBoundAsPlanned, is{"planned": "2", "elsewhere": "1"})
	tr.forget(list[3].UID) // deleted before it was bound
	other := newPod("unplanned", "1")
	tr.see(other, epoch)
	bind(other, "n1")
	late := newPod("late", "1", of("db"))
	tr.see(late, epoch)
	tr.plan(late.UID, destination{node: "n3"})
	bind(late, "n1")
	tr.settle(s.View())
	b.want(meter.PodsBoundAsPlanned, is{"planned": "2", "elsewhere": "2"})
	s.Drop(s.View().Node("n2").Object)
	s.Drop(s.View().Node("n3").Object)
	tr.see(newPod("last", "1"), epoch)
	tr.plan("pod-last", destination{claim: "c1"})
	bind(newPod("last", "1"), "n1")
	tr.settle(s.View())
	b.want(meter.PodsBoundAsPlanned, is{"planned": "3", "elsewhere": "2"})
	if len(tr.slots) > 0 {
		t.Errorf("places on nodes that are gone are remembered: %v", tr.slots)
	}
}
