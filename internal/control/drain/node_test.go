package drain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/meter"
)

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: new(true)}}
	}
}

func annotated(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: value} }
}

func tolerant(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// L22: everything that a drain leaves on the objects, counts and tells.
func TestL22_NodeFromTaintToEnd(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n")
	w.pod("web", node)
	w.pod("stays", node, tolerant)
	w.fleet.set(func() { w.fleet.slow = map[string]bool{claim.Name: true} })
	w.delete(claim)

	w.await("the pod's end", func() bool { return slices.Contains(w.left(), "web") })
	now := &corev1.Node{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(node), now); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(now.Spec.Taints, func(x corev1.Taint) bool {
		return x.Key == karpv1.DisruptedTaintKey && x.Effect == corev1.TaintEffectNoSchedule
	}) {
		t.Errorf("taints are %v", now.Spec.Taints)
	}
	if got := now.Labels[corev1.LabelNodeExcludeBalancers]; got != karpv1.ExcludeBalancersLabelValue {
		t.Errorf("the label for load balancers is %q", got)
	}
	w.await("Drained is Unknown", func() bool { return w.condition(claim, karpv1.ConditionDrained) == "Unknown Draining" })
	if w.fleet.deleted(claim.Name) != 0 {
		t.Error("L23: the instance was ended within five seconds of the taint")
	}
	w.awaitEnding(claim)
	for _, c := range []string{karpv1.ConditionDrained, karpv1.ConditionVolumesDetached} {
		if got := w.condition(claim, c); got != "True "+c {
			t.Errorf("%s is %q", c, got)
		}
	}
	w.clock.skip(time.Minute)
	w.look(node)
	w.await("the cloud is asked again", func() bool { return w.fleet.deleted(claim.Name) > 2 })
	if !w.exists(node) || !w.exists(claim) {
		t.Error("S8: the finalizer is gone and the instance is not")
	}
	w.fleet.vanish(claim.Name)
	w.finish(node, claim)
	w.await("the last words", func() bool {
		return strings.Contains(w.logged(), `msg="deleted node"`) && strings.Contains(w.logged(), `msg="deleted nodeclaim"`)
	})

	if slices.Contains(w.left(), "stays") {
		t.Error("L23: a pod that tolerates the taint was told to go")
	}
	w.toldOnce()
	if !w.events.Has(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, "Normal Evicted: Evicted pod: Forceful Termination") {
		t.Errorf("O49: events are %q", w.events.All())
	}
}

// toldOnce checks that the end of the world's only node is in every metric and in the log, once.
func (w *world) toldOnce() {
	w.t.Helper()
	for name, labels := range map[meter.Name][]string{
		meter.NodeClaimsTerminated:                  {"nodepool", "pool", "capacity_type", "spot", "zone", "zone-a"}, // O2
		meter.NodesTerminated:                       {"nodepool", "pool", "zone", "zone-a"},                          // O5
		meter.NodeClaimsTerminationDuration:         {"nodepool", "pool"},                                            // O6
		meter.NodeClaimsInstanceTerminationDuration: {"nodepool", "pool"},                                            // O7
		meter.NodesTerminationDuration:              {"nodepool", "pool"},                                            // O9
		meter.NodesDrained:                          {"nodepool", "pool"},                                            // O10
		meter.NodesLifetimeDuration:                 {"nodepool", "pool"},                                            // O11
		meter.PodsEvictionRequests:                  {"code", "200"},                                                 // O23
		meter.PodsDrained:                           {"reason", "Forceful Termination"},                              // O24
	} {
		if got := w.count(name, labels...); got != 1 {
			w.t.Errorf("%s counts %v, want 1", name, got)
		}
	}
	for _, line := range []string{"tainted node", "deleted node", "deleted nodeclaim"} { // O54
		if got := strings.Count(w.logged(), `msg="`+line+`"`); got != 1 {
			w.t.Errorf("O54: %q was logged %d times:\n%s", line, got, w.logged())
		}
	}
}

func TestL24_TiersLeaveInOrder(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n")
	names := []string{"web", "daemon", "core", "coredaemon"}
	for i, name := range names {
		w.pod(name, node, func(p *corev1.Pod) {
			if i%2 == 1 {
				ownedBy("DaemonSet", name)(p)
			}
			if i >= 2 {
				p.Spec.PriorityClassName = "system-node-critical"
			}
		})
	}
	w.hold(names...)
	w.delete(node)
	for i, name := range names {
		w.await(name+" is told to go", func() bool { return len(w.graces(name)) > 0 })
		for _, later := range names[i+1:] {
			if len(w.graces(later)) > 0 {
				t.Errorf("%s was told to go before %s was gone", later, name)
			}
		}
		pod := &corev1.Pod{}
		if err := cluster.Client.Get(t.Context(), types.NamespacedName{Namespace: w.name, Name: name}, pod); err != nil {
			t.Fatal(err)
		}
		w.release(pod)
	}
	w.finish(node, claim)
	if diff := cmp.Diff(names, w.left()); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestL23_StuckPodsAreNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n")
	w.pod("stuck", node)
	w.hold("stuck")
	w.delete(claim)
	w.await("it is told to go", func() bool { return len(w.graces("stuck")) > 0 })
	w.clock.skip(80 * time.Second) // 30 s of grace and less than a minute
	w.clock.skip(0)
	if got := w.condition(claim, karpv1.ConditionDrained); !strings.HasPrefix(got, "Unknown") {
		t.Errorf("Drained is %q before the minute is over", got)
	}
	w.clock.skip(20 * time.Second)
	w.finish(node, claim)
	w.release(w.read("stuck"))
}

func (w *world) read(pod string) *corev1.Pod {
	w.t.Helper()
	p := &corev1.Pod{}
	if err := cluster.Client.Get(w.t.Context(), types.NamespacedName{Namespace: w.name, Name: pod}, p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func TestL23_DoNotDisruptIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n")
	w.pod("forever", node, annotated("true"))
	w.pod("hour", node, annotated("1h"))
	w.pod("wrong", node, annotated("nope"))
	w.pod("web", node)
	w.delete(claim)
	w.await("the others' end", func() bool { return len(w.left()) == 2 })
	w.await("D8 the events", func() bool {
		return w.events.Has(w.read("hour"), "Normal DoNotDisruptUntil") && w.events.Has(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}}, "Warning InvalidDoNotDisruptAnnotation")
	})
	w.await("the condition says so", func() bool {
		now := &karpv1.NodeClaim{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), now); err != nil {
			t.Fatal(err)
		}
		c := now.StatusConditions().Get(karpv1.ConditionDrained)
		return c != nil && strings.Contains(c.Message, w.name+"/forever") && strings.Contains(c.Message, w.name+"/hour")
	})
	w.clock.skip(59 * time.Minute)
	w.clock.skip(0)
	if len(w.graces("hour")) != 0 {
		t.Error("D8: the pod was told to go within the hour")
	}
	w.clock.skip(2 * time.Minute)
	w.look(node)
	w.await("D8 the end of the one with a duration", func() bool { return slices.Contains(w.left(), "hour") })
	w.clock.skip(1000 * time.Hour)
	w.clock.skip(0)
	if len(w.graces("forever")) != 0 || w.fleet.deleted(claim.Name) != 0 {
		t.Error("the protected pod or its instance was ended")
	}
	forever := w.read("forever")
	forever.Annotations = nil
	if err := cluster.Client.Update(t.Context(), forever); err != nil {
		t.Fatal(err)
	}
	w.finish(node, claim)
}

func TestD62_DeadlineEndsProtectionAndBudgets(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n", grace(10*time.Minute))
	w.pod("protected", node, annotated("true"))
	w.pod("blocked", node)
	w.pod("slow", node, func(p *corev1.Pod) {
		p.Labels = nil // no budget
		p.Spec.TerminationGracePeriodSeconds = new(int64(3600))
	})
	w.pod("leaving", node, func(p *corev1.Pod) { p.Labels = nil; p.Spec.TerminationGracePeriodSeconds = new(int64(3600)) })
	w.budget("none", 0)
	w.hold("leaving", "slow")
	w.delete(w.read("leaving"))
	w.delete(claim)
	var deadline time.Time
	w.await("D61 the deadline is on record", func() bool {
		now := &karpv1.NodeClaim{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), now); err != nil {
			t.Fatal(err)
		}
		deadline = now.DeletionTimestamp.Add(10 * time.Minute)
		return now.Annotations[karpv1.TerminationTimestampAnnotationKey] == deadline.UTC().Format(time.RFC3339)
	})
	for _, obj := range []client.Object{claim, node} {
		w.await("D61 event", func() bool { return w.events.Has(obj, "Warning TerminationGracePeriodExpiring") })
	}
	w.await("more grace than the node has: deleted at once", func() bool {
		given := w.graces("slow")
		return len(given) == 1 && len(given[0]) == 3 // between 100 and 600 seconds, not 3600
	})
	w.await("what was leaving already is cut short", func() bool {
		given := w.graces("leaving")
		return len(given) > 0 && len(given[len(given)-1]) == 3
	})
	w.await("L26 the budget blocks", func() bool {
		return w.events.Has(node, "Warning FailedDraining: Failed to drain node: pod "+w.name+"/blocked")
	})
	w.clock.skipTo(deadline.Add(-time.Minute))
	w.clock.skip(0)
	if len(w.graces("protected"))+len(w.graces("blocked")) != 0 {
		t.Error("a pod was forced before its time")
	}
	w.clock.skipTo(deadline.Add(-15 * time.Second)) // less than its own 30 seconds are left
	w.look(node)
	w.await("both are forced", func() bool { return len(w.graces("protected")) > 0 && len(w.graces("blocked")) > 0 })
	if got := w.graces("protected")[0]; len(got) > 2 || got == "30" || got == "0" {
		t.Errorf("the protected pod was given %s s", got)
	}
	w.await("O49 event", func() bool {
		return w.events.Has(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "protected"}}, "Normal Disrupted")
	})
	w.finish(node, claim)
	w.release(w.read("slow"))
	w.release(w.read("leaving"))
}

// attachment makes a volume of a pod that is attached to the node.
func (w *world) attachment(name string, node *corev1.Node) *storagev1.VolumeAttachment {
	w.t.Helper()
	name = w.name + "-" + name
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name}}
	pvc.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pvc.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *quantity("1Gi")}
	pvc.Spec.VolumeName = name
	w.create(pvc)
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "csi.example.com", NodeName: node.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
	}
	w.create(attachment)
	return attachment
}

func mounts(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}

func TestL28_VolumesOfAStatefulSetAreDetachedFirst(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n")
	w.pod("db-0", node, ownedBy("StatefulSet", "db"), mounts(w.name+"-db"))
	w.pod("agent", node, tolerant, mounts(w.name+"-agent"))
	w.attachment("agent", node)
	volume := w.attachment("db", node)
	w.delete(claim)
	w.pass(100*time.Millisecond, "the volume is waited for", func() bool {
		return w.condition(claim, karpv1.ConditionVolumesDetached) == "Unknown AwaitingVolumeDetachment"
	})
	if diff := cmp.Diff([]string{"db-0"}, w.left()); diff != "" {
		t.Error(diff)
	}
	w.await("event", func() bool { return w.events.Has(node, "Normal AwaitingVolumeDetachment") })
	w.clock.skip(24 * time.Hour)
	w.clock.skip(0)
	if w.fleet.deleted(claim.Name) != 0 {
		t.Error("T6: the instance was ended before its volume was detached")
	}
	w.delete(volume)
	w.finish(node, claim) // the agent's volume stays with the agent
}

func TestD63_VolumesAreNotAwaitedBeyondTheDeadline(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n", grace(time.Hour))
	w.attachment("db", node)
	w.fleet.set(func() { w.fleet.slow = map[string]bool{claim.Name: true} })
	w.delete(claim)
	w.pass(100*time.Millisecond, "the volume is waited for", func() bool {
		return w.condition(claim, karpv1.ConditionVolumesDetached) == "Unknown AwaitingVolumeDetachment"
	})
	w.clock.skip(time.Hour)
	w.look(node)
	w.await("no longer", func() bool {
		return w.condition(claim, karpv1.ConditionVolumesDetached) == "False TerminationGracePeriodElapsed"
	})
	w.awaitEnding(claim) // an instance that vanishes before it was told to end is missed for much longer
	w.fleet.vanish(claim.Name)
	w.finish(node, claim)
}

func TestRestartContinues(t *testing.T) {
	w := newWorld(t)
	w.fleet.add(&cloud.Instance{ID: "other", State: cloud.Running}) // a cloud that lists nothing at all is not believed for long
	claim, node := w.pair("n")
	for i := range 5 {
		w.pod(fmt.Sprintf("web-%d", i), node)
	}
	w.pod("last", node, annotated("true"))
	w.delete(claim)
	w.await("most pods are gone", func() bool { return len(w.left()) == 5 })
	w.start()
	last := w.read("last")
	last.Annotations = nil
	if err := cluster.Client.Update(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	w.pass(100*time.Millisecond, "the instance is told to end", func() bool { return w.fleet.deleted(claim.Name) > 0 })
	w.start()
	w.finish(node, claim)
	if w.fleet.has(claim.Name) {
		t.Error("S8: the instance is still there")
	}
}
