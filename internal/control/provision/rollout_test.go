package provision

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/ledger"
)

// replicaSet wants so many pods of one CPU.
func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("set-" + name), CreationTimestamp: metav1.Time{Time: epoch.Add(-time.Hour)}},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("128Mi")},
			}}}},
		}},
	}
}

// podOf is a pod of a ReplicaSet that found no place.
func podOf(set string, n int) *corev1.Pod {
	return newPod(fmt.Sprintf("%s-%03d", set, n), "1", func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: types.UID("set-" + set), Controller: &yes}}
	})
}

// bound is the pod on a node.
func bound(p *corev1.Pod) *corev1.Pod {
	p.Spec.NodeName, p.Status.Conditions = "n", nil
	return p
}

func wantComing(t *testing.T, r *Rollouts, now time.Time, want ...Coming) {
	t.Helper()
	if d := cmp.Diff(want, r.Coming(now)); d != "" {
		t.Errorf("coming (-want +got):\n%s", d)
	}
}

// What a ReplicaSet wants and has not created is known to come, until it has shown no progress for a while.
func TestRolloutsKnowWhichPodsAreToCome(t *testing.T) {
	r, now := &Rollouts{}, epoch
	r.wants(replicaSet("web", 3), now)
	wantComing(t, r, now, Coming{Set: "default/web", Pods: 3})
	r.see(podOf("web", 1), now)
	r.see(podOf("web", 0), now)
	r.see(newPod("bare", "1"), now)
	wantComing(t, r, now, Coming{Set: "default/web", Pods: 1, Like: "pod-web-000"})
	r.see(podOf("web", 1), now.Add(time.Second)) // seen again, it is no progress
	wantComing(t, r, now.Add(rolloutPatience-1), Coming{Set: "default/web", Pods: 1, Like: "pod-web-000"})
	wantComing(t, r, now.Add(rolloutPatience))

	now = now.Add(time.Minute)
	r.wants(replicaSet("web", 3), now) // it asks for no more than before
	wantComing(t, r, now)
	r.wants(replicaSet("web", 4), now)
	wantComing(t, r, now, Coming{Set: "default/web", Pods: 2, Like: "pod-web-000"})
	r.forget(podOf("web", 0), now)
	wantComing(t, r, now, Coming{Set: "default/web", Pods: 3, Like: "pod-web-001"})
	for i := range 4 {
		r.see(podOf("web", 10+i), now)
	}
	wantComing(t, r, now)
	failed := podOf("web", 10)
	failed.Status.Phase = corev1.PodFailed
	r.see(failed, now)
	leaving := podOf("web", 11)
	leaving.DeletionTimestamp = &metav1.Time{Time: now}
	r.see(leaving, now)
	wantComing(t, r, now, Coming{Set: "default/web", Pods: 1, Like: "pod-web-001"})
	if got := r.Created("set-web"); !got.Equal(epoch.Add(-time.Hour)) || !r.Created("other").IsZero() {
		t.Errorf("created at %s", got)
	}

	set := replicaSet("web", 4)
	set.DeletionTimestamp = &metav1.Time{Time: now}
	r.wants(set, now)
	wantComing(t, r, now)
}

// A ReplicaSet that is gone is forgotten with its last pod, whichever goes first.
func TestRolloutsForget(t *testing.T) {
	for _, first := range []string{"set", "pod"} {
		r := &Rollouts{}
		r.wants(replicaSet("web", 1), epoch)
		r.see(podOf("web", 0), epoch)
		if first == "set" {
			r.gone(replicaSet("web", 1))
			r.forget(podOf("web", 0), epoch)
		} else {
			r.forget(podOf("web", 0), epoch)
			r.gone(replicaSet("web", 1))
		}
		if len(r.sets)+len(r.open) != 0 {
			t.Errorf("the %s first: %d sets, %d open", first, len(r.sets), len(r.open))
		}
	}
}

// While a ReplicaSet has no pod, an example of what it will create is shown, and nothing after that.
func TestRolloutsShowAnExample(t *testing.T) {
	shown := map[types.UID]*corev1.Pod{}
	r := &Rollouts{Put: func(p *corev1.Pod) { shown[p.UID] = p }, Drop: func(p *corev1.Pod) { delete(shown, p.UID) }}
	r.wants(replicaSet("none", 0), epoch)
	if len(shown) != 0 {
		t.Error("an example of a ReplicaSet that wants no pod is shown")
	}
	r.wants(replicaSet("web", 2), epoch)
	pod := shown["set-web-example"]
	if pod == nil || pod.Annotations[karpv1.ExamplePodAnnotationKey] != "web" || pod.Labels["app"] != "web" || pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 1 {
		t.Fatalf("the example is %+v", pod)
	}
	if owner := metav1.GetControllerOf(pod); owner == nil || owner.UID != "set-web" {
		t.Errorf("its owner is %v", owner)
	}
	wantComing(t, r, epoch, Coming{Set: "default/web", Pods: 2, Like: "set-web-example"})
	r.see(podOf("web", 0), epoch)
	if len(shown) != 0 {
		t.Error("it has a pod, and the example is shown still")
	}
	r.forget(podOf("web", 0), epoch)
	if len(shown) != 1 {
		t.Error("it has no pod again, and no example is shown")
	}
	r.gone(replicaSet("web", 2))
	if len(shown) != 0 {
		t.Error("it is gone, and its example is shown still")
	}
}

// As many pods are likely to come as came of late in the same time, at most those that are known to come, and of every ReplicaSet the
// same share.
func TestSoonFollowsThePace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Rollouts{}
		lacks, total, seen := map[types.UID]int{}, 0, rapid.IntRange(0, 60).Draw(t, "seen")
		sets := rapid.IntRange(1, 5).Draw(t, "sets")
		for i := range sets {
			name := fmt.Sprintf("s%d", i)
			n := rapid.IntRange(0, 40).Draw(t, "lacks")
			r.see(bound(podOf(name, 0)), epoch.Add(-time.Hour))
			r.wants(replicaSet(name, int32(n+1)), epoch)
			lacks[types.UID("pod-"+name+"-000")] = n
			total += n
		}
		r.made = slices.Repeat([]time.Time{epoch.Add(-paceOver + 1)}, seen)
		r.made = append(slices.Repeat([]time.Time{epoch.Add(-paceOver)}, 100), r.made...) // too long ago
		within := time.Duration(rapid.IntRange(1, 20).Draw(t, "within")) * time.Second
		got := r.Soon(within, epoch)
		want := min(total, int(float64(seen)*within.Seconds()/paceOver.Seconds()))
		sum := 0
		for like, n := range got {
			sum += n
			exact := float64(lacks[types.UID(like)]) * float64(want) / float64(total)
			if n <= 0 || float64(n) < exact-1 || float64(n) > exact+1 {
				t.Fatalf("%d like %s, its share is %.2f", n, like, exact)
			}
		}
		if sum != want {
			t.Fatalf("%d pods in all, want %d: %v", sum, want, got)
		}
	})
}

// Pods that the scheduler has not looked at yet are to come, at whatever pace.
func TestSoonCountsPodsThatWaitForTheScheduler(t *testing.T) {
	r, late := &Rollouts{}, epoch.Add(paceOver)
	r.wants(replicaSet("web", 4), epoch)
	for i := range 4 {
		pod := podOf("web", i)
		pod.Status.Conditions = nil
		r.see(pod, epoch)
	}
	if got, want := r.Soon(time.Second, late), map[string]int{"pod-web-000": 4}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r.see(bound(podOf("web", 2)), epoch)
	gated := podOf("web", 3)
	gated.Status.Conditions, gated.Spec.SchedulingGates = nil, []corev1.PodSchedulingGate{{Name: "quota"}}
	r.see(gated, epoch)
	if got, want := r.Soon(time.Second, late), map[string]int{"pod-web-000": 2}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	unseen := podOf("web", 0)
	unseen.Status.Conditions = nil
	if r.shares(unseen) {
		t.Error("no pod of it has been refused")
	}
	r.see(podOf("web", 1), epoch) // refused, which goes for the other that exists
	if got := r.Soon(time.Second, late); len(got) != 0 || !r.shares(unseen) || r.shares(gated) || r.shares(podOf("web", 1)) {
		t.Errorf("%v", got)
	}
	r.see(bound(podOf("web", 1)), epoch) // which goes for the other until the scheduler has come to it
	if got := r.Soon(time.Second, late); len(got) != 0 || !r.shares(unseen) {
		t.Errorf("%v", got)
	}
	r.forget(podOf("web", 0), epoch)
	r.forget(podOf("web", 1), epoch)
	if r.shares(unseen) {
		t.Error("the scheduler has come to all")
	}
	if got := r.Soon(time.Second, late); len(got) != 0 || r.sets["set-web"] != nil && (r.sets["set-web"].waiting != 0 || r.sets["set-web"].refused != 0) {
		t.Errorf("%v", got)
	}
}

func TestSoonCountsPodsOnce(t *testing.T) {
	r := &Rollouts{}
	r.wants(replicaSet("web", 100), epoch)
	for range 3 {
		for i := range 5 {
			r.see(podOf("web", i), epoch)
		}
	}
	if got, want := r.Soon(2*paceOver, epoch), map[string]int{"pod-web-000": 10}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := r.Soon(2*paceOver, epoch.Add(paceOver)); len(got) != 0 {
		t.Errorf("no pod has come of late, but %v", got)
	}
	if len(r.made) != 0 {
		t.Errorf("%d times are remembered", len(r.made))
	}
	for i := range 3 * maxMade {
		r.see(podOf("web", i+5), epoch)
	}
	if len(r.made) > maxMade+1 {
		t.Errorf("%d times are remembered", len(r.made))
	}
}

// A batch waits for a ReplicaSet that is creating pods and has some that find no node, and not for long.
func TestIncomplete(t *testing.T) {
	for _, c := range []struct {
		name string
		pods []*corev1.Pod
		want bool
	}{
		{"no pod yet", nil, false},
		{"placed", []*corev1.Pod{bound(podOf("web", 0))}, false},
		{"not looked at", []*corev1.Pod{func() *corev1.Pod { p := podOf("web", 0); p.Status.Conditions = nil; return p }()}, false},
		{"unschedulable", []*corev1.Pod{podOf("web", 0)}, true},
		{"complete", []*corev1.Pod{podOf("web", 0), podOf("web", 1), podOf("web", 2)}, false},
		{"more than it is known to want", []*corev1.Pod{podOf("web", 0), podOf("web", 1), podOf("web", 2), podOf("web", 3)}, true},
	} {
		r := &Rollouts{}
		r.wants(replicaSet("web", 3), epoch)
		for _, p := range c.pods {
			r.see(p, epoch)
		}
		if got := r.incomplete(epoch.Add(batchPatience - 1)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if r.incomplete(epoch.Add(batchPatience)) {
			t.Errorf("%s: it has shown no progress for %s", c.name, batchPatience)
		}
	}
}

// A node with room for pods that are being created stays closed for them, until none comes any more or it has waited for long enough.
func TestNodesWithRoomAwaitPods(t *testing.T) {
	coming := true
	c := &Creator{Coming: func(time.Time) bool { return coming }, ComingWait: 10 * time.Second, roomy: map[string]bool{"a": true, "b": true}}
	check := func(claim string, after, want time.Duration) {
		t.Helper()
		if got := c.awaits(claim, epoch, epoch.Add(after)); got != want {
			t.Errorf("%s after %s: %s, want %s", claim, after, got, want)
		}
	}
	check("full", 0, 0)
	check("a", 0, comingStep)
	check("a", 10*time.Second-1, 1)
	check("a", 10*time.Second, 0)
	check("a", 0, 0) // once open, it stays so
	coming = false
	check("b", 0, 0)
	coming = true
	check("b", 0, 0)
}

// Provisioning makes room for pods that are known to come on the nodes of those that exist, makes none for them alone, and a replay
// comes to the same.
func TestPlansHaveRoomForPodsThatAreToCome(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2, 4, 8, 16), newPool("ahead"))
	d, l := kept(t, s)
	d.Creator.Client = yesMan()
	d.rollouts.Put, d.rollouts.Drop = func(p *corev1.Pod) { s.Put(p) }, func(p *corev1.Pod) { s.Drop(p) }
	d.rollouts.wants(replicaSet("web", 14), s.clock.Now())
	d.rollouts.wants(replicaSet("late", 2), s.clock.Now()) // has no pod yet
	for i := range 7 {
		p := podOf("web", i)
		s.put(p)
		d.podChanged(nil, p)
	}
	d.pass()
	list := all(l)
	if len(list) != 1 || len(list[0].Add) != 1 || list[0].Add[0].Type != "m5.16x" || len(list[0].Add[0].Pods) != 7 {
		t.Fatalf("entries %+v", list)
	}
	want(t, 1, []string{fmt.Sprint(list[0].Why)}, "with room for 9 pods that are expected")
	r, err := l.Recording(list[0].Input)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"pod-web-000": 7, "set-late-example": 2}; !maps.Equal(r.Facts.Coming, want) {
		t.Errorf("coming %v, want %v", r.Facts.Coming, want)
	}
	replay(t, l, list[0].Input)
	if claim := list[0].Add[0].Claim; d.Creator.awaits(claim, s.clock.Now(), s.clock.Now()) == 0 {
		t.Error("the node is opened at once")
	}
}

// Nodes are made for replicas that the scheduler has not come to, once it has refused one like them; a window opens for those that come
// later, and is not held for the scheduler.
func TestP1_NodesForReplicasThatTheSchedulerHasNotComeTo(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("kin"))
	d, l := kept(t, s)
	d.Creator.Client = yesMan()
	planned := func(e *ledger.Entry) (pods int) {
		for _, add := range e.Add {
			pods += len(add.Pods)
		}
		return pods
	}
	see := func(n int, refused bool) {
		p := podOf("web", n)
		if !refused {
			p.Status.Conditions = nil
		}
		s.put(p)
		d.podChanged(nil, p)
	}
	d.rollouts.wants(replicaSet("web", 6), s.clock.Now())
	for i := range 3 {
		see(i, false)
	}
	if d.pass(); len(all(l)) > 0 {
		t.Fatalf("the scheduler has refused none: %+v", all(l))
	}
	see(3, true)
	d.pass()
	list := all(l)
	if len(list) != 1 || planned(list[0]) != 4 {
		t.Fatalf("entries %+v", list)
	}
	replay(t, l, list[0].Input)

	d.Batch = NewBatcher(s.clock, time.Second, 10*time.Second)
	d.prepare()
	see(4, false)
	see(5, false)
	if _, open := d.Batch.window.closes(); !open || d.Batch.Hold(s.clock.Now().Add(schedulerQuick)) {
		t.Errorf("a window is open: %t; it is not to be held", open)
	}
	d.pass()
	if list := all(l); len(list) != 2 || planned(list[0]) != 2 {
		t.Fatalf("entries %+v", list)
	}
}

// Where pods that are known to come would take the place of one that exists, they do not count.
func TestPodsThatExistComeFirst(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("first", limits(map[corev1.ResourceName]string{"cpu": "2"})))
	d, l := kept(t, s)
	d.Creator.Client = yesMan()
	d.rollouts.wants(replicaSet("web", 14), s.clock.Now())
	p := podOf("web", 0)
	s.put(p)
	d.podChanged(nil, p)
	d.pass()
	list := all(l)
	if len(list) != 1 || list[0].Kind != "Plan" && len(list[0].Add) != 1 || len(list[0].Add[0].Pods) != 1 {
		t.Fatalf("entries %+v", list)
	}
	replay(t, l, list[0].Input)
}
