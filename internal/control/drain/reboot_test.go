package drain_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/control/drain"
	"karpenter/internal/meter"
	"karpenter/test/harness/rig"
)

// rebooter is a cloud that reboots instances, or says why not.
type rebooter struct {
	mu         sync.Mutex
	operations []string
	fail       error
	then       func() // what a reboot that was accepted comes to
}

func (r *rebooter) Reboot(_ context.Context, _ *karpv1.NodeClaim, operation string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations = append(r.operations, operation)
	if r.fail == nil && r.then != nil {
		r.then()
	}
	return r.fail
}

func (r *rebooter) asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.operations
}

// requested makes a claim whose instance is to be rebooted, with its node.
func (w *world) requested(grace string) (*karpv1.NodeClaim, *corev1.Node) {
	w.t.Helper()
	node := w.node("n", func(n *corev1.Node) {
		n.Labels[karpv1.NodeInitializedLabelKey] = "true"
		n.Status.NodeInfo.BootID = "first"
	})
	claim := w.claim("n", func(c *karpv1.NodeClaim) {
		if grace != "" {
			c.Annotations = map[string]string{karpv1.RebootGraceAnnotationKey: grace}
		}
		now := w.clock.Now()
		c.StatusConditions().Set(karpv1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: "Unhealthy", Message: control.Blame("AcceleratedHardwareReady")}, now)
		c.StatusConditions().Set(karpv1.Condition{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue, Reason: karpv1.ReasonRebootRequested}, now)
	})
	return claim, node
}

// boot has the node report another boot id.
func (w *world) boot(node *corev1.Node, id string) {
	now := &corev1.Node{}
	if err := cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(node), now); err != nil {
		w.t.Error(err)
		return
	}
	now.Status.NodeInfo.BootID = id
	if err := cluster.Client.Status().Update(w.t.Context(), now); err != nil {
		w.t.Error(err)
	}
}

func (w *world) readNode(node *corev1.Node) *corev1.Node {
	w.t.Helper()
	now := &corev1.Node{}
	if err := cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(node), now); err != nil {
		w.t.Fatal(err)
	}
	return now
}

func (w *world) readClaim(claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	w.t.Helper()
	now := &karpv1.NodeClaim{}
	if err := cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(claim), now); err != nil {
		w.t.Fatal(err)
	}
	return now
}

func rebootTaint(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == karpv1.RebootingTaintKey {
			return true
		}
	}
	return false
}

func TestN7_ANodeIsDrainedRebootedAndOpened(t *testing.T) {
	w := prepare(t)
	r := &rebooter{}
	w.rebooter = r
	w.start()
	claim, node := w.requested("5m0s")
	w.pod("web", node)
	w.pod("kept", node, func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"} })
	w.pod("agent", node, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
	})
	w.await("the pod that may go", func() bool { return len(w.left()) == 1 })
	if !rebootTaint(w.readNode(node)) || w.left()[0] != "web" || len(r.asked()) > 0 {
		t.Errorf("taints %v, gone %v, asked %v", w.readNode(node).Spec.Taints, w.left(), r.asked())
	}
	w.pass(time.Second, "the reboot", func() bool { return w.condition(claim, karpv1.ConditionRebooting) == "True RebootIssued" })
	if got := w.condition(claim, karpv1.ConditionInitialized); got != "Unknown Rebooting" || w.readNode(node).Labels[karpv1.NodeInitializedLabelKey] != "" {
		t.Errorf("Initialized is %s, labels %v", got, w.readNode(node).Labels)
	}
	if left := w.left(); len(left) != 1 || len(r.asked()) != 1 {
		t.Errorf("%v were told to go, and the cloud was asked %v", left, r.asked())
	}
	// O4 adds the pods of disrupted claims. This claim is none: its pods are evicted, which is counted as that.
	if claims, pods, evicted := w.count(meter.NodeClaimsDisrupted), w.count(meter.PodsDisruptionInitiated), w.count(meter.PodsDrained, "reason", "Unhealthy"); claims != 0 || pods != 0 || evicted != 1 {
		t.Errorf("counted are %v disrupted claims with %v pods, and %v evictions", claims, pods, evicted)
	}
	w.start() // another process goes on
	w.boot(node, "second")
	w.pass(time.Second, "the end", func() bool { return w.condition(claim, karpv1.ConditionRebooting) == "False RebootSucceeded" })
	w.await("nothing is left of it", func() bool {
		now := w.readClaim(claim)
		_, id := now.Annotations[karpv1.RebootPreBootIDAnnotationKey]
		_, grace := now.Annotations[karpv1.RebootGraceAnnotationKey]
		return !id && !grace && !rebootTaint(w.readNode(node)) && !now.StatusConditions().IsTrue(karpv1.ConditionDisruptionReason)
	})
	if got := strings.Split(w.readClaim(claim).Annotations[karpv1.RebootsAnnotationKey], ","); len(got) != 1 || got[0] == "" {
		t.Errorf("recorded reboots: %q", got)
	}
	if got := rig.Count(t, w.series, meter.NodesReboots, "result", "succeeded"); got != 1 {
		t.Errorf("%v reboots counted", got)
	}
	if got := rig.Count(t, w.series, meter.NodesRebootRecovery); got != 1 {
		t.Errorf("%v recoveries observed", got)
	}
}

func TestN7_ARebootThatFailsReplacesTheNode(t *testing.T) {
	for _, c := range []struct {
		name   string
		fail   error
		result string
	}{
		{"not implemented", &cloud.NodeRebootNotImplementedError{Provider: "test"}, "invalid_request"},
		{"failed for good", &cloud.NodeRebootFailedError{Err: errors.New("no such instance")}, "provider_error"},
		{"refused for too long", &cloud.Error{Class: cloud.Throttled, Op: "reboot", Reason: "RequestLimitExceeded"}, "provider_error"},
		{"it does not come back", nil, "recovery_timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := prepare(t)
			w.rebooter = &rebooter{fail: c.fail}
			w.start()
			claim, node := w.requested("0s")
			w.pass(5*time.Second, "its end", func() bool { return !w.exists(claim) || !w.readClaim(claim).DeletionTimestamp.IsZero() })
			w.pass(time.Second, "it is counted", func() bool { return rig.Count(t, w.series, meter.NodesReboots, "result", c.result) == 1 })
			w.finish(node, claim)
			if got := rig.Count(t, w.series, meter.NodesReboots); got != 1 {
				t.Errorf("%v reboots counted", got)
			}
		})
	}
}

// TestN7_AFailedRebootCountsAsARepair: the claim has no grace period of its own, and its drain ends by that of the policy all the same.
func TestN7_AFailedRebootCountsAsARepair(t *testing.T) {
	w := prepare(t)
	w.rebooter = &rebooter{fail: &cloud.NodeRebootNotImplementedError{Provider: "test"}}
	w.start()
	claim, node := w.requested("5m0s")
	w.pass(time.Second, "its end", func() bool { return !w.exists(claim) || !w.readClaim(claim).DeletionTimestamp.IsZero() })
	w.await("it is counted", func() bool { return w.count(meter.NodeClaimsDisrupted, "reason", "unhealthy") == 1 })
	if got := w.count(meter.NodeClaimsDisrupted, "reason", "unhealthy", "termination_mode", "eventual"); got != 1 {
		t.Errorf("O3: %v are counted as drained within a time", got)
	}
	if got := w.count(meter.NodeClaimsUnhealthyDisrupted, "condition", "accelerated_hardware_ready", "nodepool", "pool", "termination_mode", "eventual"); got != 1 {
		t.Errorf("O8: %v are counted as unhealthy", got)
	}
	w.finish(node, claim)
}

// TestN7_NoDeadlineIsLeftOnANodeThatComesBack ends the process when it has written the deadline of a node that did not come back, and
// before it deletes the claim. Then the node comes back.
func TestN7_NoDeadlineIsLeftOnANodeThatComesBack(t *testing.T) {
	w := prepare(t)
	claim, node := w.requested("5m0s")
	defer w.forget(claim)
	direct := rig.NewDirect(cluster.Client, w.clock.Now)
	alive, is := w.process(direct, direct, &rebooter{}), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}
	look := func(done func() bool) {
		t.Helper()
		for range 60 {
			if _, err := alive.Reconcile(t.Context(), is); err != nil && !errors.Is(err, rig.ErrKilled) {
				t.Fatal(err)
			}
			if done() {
				return
			}
			w.clock.skip(5 * time.Second)
		}
		t.Fatalf("nothing came of it: %+v", w.readClaim(claim))
	}
	deadline := func() string { return w.readClaim(claim).Annotations[karpv1.TerminationTimestampAnnotationKey] }
	look(func() bool { return w.condition(claim, karpv1.ConditionRebooting) == "True RebootIssued" })
	direct.Step = func(write rig.Write, _ bool) error {
		if write.Verb == "delete" {
			return rig.ErrKilled
		}
		return nil
	}
	w.clock.skip(20 * time.Minute)
	look(func() bool { return deadline() != "" })
	direct.Step = nil
	alive = w.process(direct, direct, &rebooter{})
	w.boot(node, "second")
	look(func() bool { return w.condition(claim, karpv1.ConditionRebooting) == "False RebootSucceeded" })
	if now := w.readClaim(claim); deadline() != "" || !now.DeletionTimestamp.IsZero() {
		t.Errorf("the node is back, and its claim has deadline %q, deleted %v", deadline(), now.DeletionTimestamp)
	}
}

// late is a client whose watch of nodes, or of claims, stands still: it shows one as it was.
type late struct {
	client.Client
	node  *corev1.Node
	claim *karpv1.NodeClaim
}

func (l late) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	switch obj := obj.(type) {
	case *corev1.Node:
		if l.node != nil {
			l.node.DeepCopyInto(obj)
			return nil
		}
	case *karpv1.NodeClaim:
		if l.claim != nil {
			l.claim.DeepCopyInto(obj)
			return nil
		}
	}
	return l.Client.Get(ctx, key, obj, opts...)
}

// TestN7_ALateWatchOfNodes has the watch of nodes stand still from before the cloud is asked, while somebody else writes on the node: the
// cloud is asked once, and the node is not replaced, because it is back. Then claims are late, and it is counted once.
func TestN7_ALateWatchOfNodes(t *testing.T) {
	w := prepare(t)
	claim, node := w.requested("5m0s")
	defer w.forget(claim)
	direct, is := rig.NewDirect(cluster.Client, w.clock.Now), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}
	r := &rebooter{}
	look := func(p reconcile.Reconciler, done func() bool) {
		t.Helper()
		for range 300 {
			if _, err := p.Reconcile(t.Context(), is); err != nil {
				t.Fatal(err)
			}
			if done() {
				return
			}
			w.clock.skip(5 * time.Second)
		}
		t.Fatalf("nothing came of it; asked %d times: %+v", len(r.asked()), w.readClaim(claim))
	}
	look(w.process(direct, direct, r), func() bool { return w.readClaim(claim).Annotations[karpv1.RebootPreBootIDAnnotationKey] != "" })
	stale := w.readNode(node)
	other := stale.DeepCopy()
	other.Annotations = map[string]string{"example.com/seen": "yes"}
	if err := cluster.Client.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	r.then = func() { w.boot(node, "second") }
	w.clock.skip(3 * time.Minute) // another process has not asked for that long
	var before *karpv1.NodeClaim
	look(w.process(late{Client: direct, node: stale}, direct, r), func() bool {
		now := w.readClaim(claim)
		if is := now.StatusConditions().Get(karpv1.ConditionRebooting); is.Reason == karpv1.ReasonRebootSucceeded {
			return true
		}
		before = now
		return false
	})
	if _, err := w.process(late{Client: direct, claim: before}, direct, r).Reconcile(t.Context(), is); err != nil {
		t.Error(err)
	}
	if got := rig.Count(t, w.series, meter.NodesReboots, "result", "succeeded"); got != 1 {
		t.Errorf("%v reboots counted, though there was one", got)
	}
	if n := len(r.asked()); n != 1 || !w.readClaim(claim).DeletionTimestamp.IsZero() {
		t.Errorf("asked %d times, claim deleted %v", n, w.readClaim(claim).DeletionTimestamp)
	}
}

// TestN7_PodsThatCannotLeave has a reboot without a grace period wait for a pod whose PodDisruptionBudget does not let it go. The pod must
// not be ended by the reboot; the node is replaced, and the pod leaves when it may.
func TestN7_PodsThatCannotLeave(t *testing.T) {
	w := prepare(t)
	r := &rebooter{}
	w.rebooter = r
	w.start()
	claim, node := w.requested("")
	w.pod("web", node)
	b := w.budget("budget", 0)
	w.pass(10*time.Second, "its end", func() bool { return !w.readClaim(claim).DeletionTimestamp.IsZero() })
	w.await("it is counted", func() bool {
		return w.count(meter.NodesReboots, "result", "drain_timeout") == 1 && w.count(meter.NodeClaimsDisrupted, "reason", "unhealthy") == 1 &&
			w.count(meter.PodsDisruptionInitiated, "reason", "unhealthy", "termination_mode", "graceful") == 1
	})
	if !w.events.Has(claim, "Warning NodeRebootFailed: The node is replaced, because its reboot failed: its pods could not be evicted within 20m0s") || len(w.left()) > 0 || len(r.asked()) > 0 {
		t.Errorf("events %q, gone %v, asked %v", w.events.All(), w.left(), r.asked())
	}
	w.pass(10*time.Second, "nothing ends the pod", func() bool { return w.clock.Since(claim.CreationTimestamp.Time) > time.Hour })
	if len(w.left()) > 0 {
		t.Error("the pod is gone")
	}
	w.allow(b, 1)
	w.finish(node, claim)
}

// TestN7_CrashPoints ends the process before and after every write and every call of a reboot, and starts anew. In the end the node is
// back, and the cloud was asked for one reboot, not more often than is on record. So it is if no process works for a while, and the node
// comes back long after the call.
func TestN7_CrashPoints(t *testing.T) {
	for _, slow := range []slowness{{}, {away: 10 * time.Minute, boot: 12 * time.Minute}} {
		for _, after := range []bool{false, true} {
			for at := 0; ; at++ {
				reap := &rig.Reaper{At: at, After: after, Kill: func() {}}
				crashReboot(t, reap, slow)
				trail, dead := reap.Ended()
				if t.Failed() {
					t.Fatalf("%+v, step %d, after %v: %s", slow, at, after, trail)
				}
				if !dead {
					if at < 6 {
						t.Fatalf("a reboot has only %d steps", at)
					}
					break
				}
			}
		}
	}
}

// slowness is how long there is no process after one has ended, and how long an instance takes from the call until it is back.
type slowness struct{ away, boot time.Duration }

// process reboots instances without a manager. c is what it sees and writes through.
func (w *world) process(c client.Client, direct *rig.Direct, r cloud.Rebooter) reconcile.Reconciler {
	return drain.Reboots(&drain.Drainer{
		Client: c, Live: direct, Rebooter: r, InstanceID: instanceID, Class: w.class, Clock: w.clock,
		Recorder: control.NewRecorder(w.events, w.clock.Now), Meter: w.meter, Log: slog.New(slog.DiscardHandler),
	})
}

func crashReboot(t *testing.T, reap *rig.Reaper, slow slowness) {
	t.Helper()
	w := bare(t)
	claim, node := w.requested("5m0s")
	defer w.forget(claim)
	defer w.forget(node)
	direct := rig.NewDirect(cluster.Client, w.clock.Now)
	var back time.Time
	r := &rebooter{}
	r.then = func() {
		switch {
		case slow.boot == 0:
			w.boot(node, "second")
		case back.IsZero(): // asking again changes nothing
			back = w.clock.Now().Add(slow.boot)
		}
	}
	direct.Step = reap.Write
	alive, is := w.process(direct, direct, stepping{r, reap}), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}
	for range 60 {
		_, err := alive.Reconcile(t.Context(), is)
		if _, dead := reap.Ended(); dead && direct.Step != nil { // the call to the cloud returns no error that ends it
			direct.Step = nil
			alive = w.process(direct, direct, stepping{r, reap})
			w.clock.skip(slow.away)
		} else if err != nil {
			t.Fatal(err)
		}
		if !back.IsZero() && w.clock.Now().After(back) {
			w.boot(node, "second")
		}
		if now := w.readClaim(claim); w.condition(claim, karpv1.ConditionRebooting) == "False RebootSucceeded" && now.Annotations[karpv1.RebootPreBootIDAnnotationKey] == "" {
			break
		}
		w.clock.skip(5*time.Second + slow.boot/40)
	}
	now := w.readClaim(claim)
	if got := w.condition(claim, karpv1.ConditionRebooting); got != "False RebootSucceeded" || rebootTaint(w.readNode(node)) || !now.DeletionTimestamp.IsZero() {
		t.Errorf("Rebooting is %s, taints %v", got, w.readNode(node).Spec.Taints)
	}
	recorded := strings.Split(now.Annotations[karpv1.RebootsAnnotationKey], ",")
	if recorded[0] == "" || len(recorded) > 2 {
		t.Errorf("recorded reboots: %q", recorded)
	}
	for _, o := range r.asked() {
		if o != r.asked()[0] {
			t.Errorf("operations %q", r.asked())
		}
	}
	if n := len(r.asked()); n == 0 || n > len(recorded) {
		t.Errorf("the cloud was asked %d times, on record are %q", n, recorded)
	}
}

// stepping has the reaper see calls to the cloud too.
type stepping struct {
	*rebooter
	reap *rig.Reaper
}

func (s stepping) Reboot(ctx context.Context, claim *karpv1.NodeClaim, operation string) error {
	if _, dead := s.reap.Ended(); dead { // another process asks
		return s.rebooter.Reboot(ctx, claim, operation)
	}
	if err := s.reap.Step("reboot", false); err != nil {
		return err
	}
	if err := s.rebooter.Reboot(ctx, claim, operation); err != nil {
		return err
	}
	return s.reap.Step("reboot", true)
}

// mute is a client whose writes of status fail for a time.
type mute struct {
	client.Client
	fails func() bool
}

func (m mute) Status() client.SubResourceWriter {
	if m.fails() {
		return failing{m.Client.Status()}
	}
	return m.Client.Status()
}

type failing struct{ client.SubResourceWriter }

func (failing) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errors.New("no status today")
}

// TestN7_AcceptedIsNotForgotten has the API server refuse the note that a reboot was accepted for longer than the cloud may take to accept
// one: it was accepted, so the cloud is asked once, and the node is not replaced.
func TestN7_AcceptedIsNotForgotten(t *testing.T) {
	w := prepare(t)
	claim, node := w.requested("5m0s")
	defer w.forget(claim)
	direct, is := rig.NewDirect(cluster.Client, w.clock.Now), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}
	r := &rebooter{}
	accepted := w.clock.Now()
	silent := func() bool { return len(r.asked()) > 0 && w.clock.Now().Before(accepted.Add(6*time.Minute)) }
	drainer := w.process(mute{direct, silent}, direct, r)
	r.then = func() { accepted = w.clock.Now() }
	for range 300 {
		_, _ = drainer.Reconcile(t.Context(), is) // the errors of the status
		if w.condition(claim, karpv1.ConditionRebooting) == "True RebootIssued" {
			break
		}
		w.clock.skip(5 * time.Second)
	}
	if is := w.condition(claim, karpv1.ConditionRebooting); is != "True RebootIssued" || len(r.asked()) != 1 || !w.readClaim(claim).DeletionTimestamp.IsZero() {
		t.Errorf("Rebooting %s, asked %d times, claim deleted %v", is, len(r.asked()), w.readClaim(claim).DeletionTimestamp)
	}
	w.boot(node, "second")
}
