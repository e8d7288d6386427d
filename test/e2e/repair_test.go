package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
)

// fault has nodes say for so long that something is broken; without a reason all is well.
func (w *world) fault(kind, reason string, lasts time.Duration, nodes ...string) {
	w.t.Helper()
	status := "False"
	if reason == "" {
		status, reason = "True", "AllIsWell"
	}
	body := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q,"reason":%q,"message":"a test says so","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`,
		kind, status, reason, time.Now().UTC().Format(time.RFC3339), time.Now().Add(-lasts).UTC().Format(time.RFC3339))
	for _, name := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		w.must(w.Client.Status().Patch(w.t.Context(), node, client.RawPatch("application/strategic-merge-patch+json", body)))
	}
}

// fleet is the claims that are not being deleted, by the name of their node.
func (w *world) fleet() map[string]*karpv1.NodeClaim {
	w.t.Helper()
	list := &karpv1.NodeClaimList{}
	w.must(w.Client.List(w.t.Context(), list))
	out := map[string]*karpv1.NodeClaim{}
	for i := range list.Items {
		if c := &list.Items[i]; c.DeletionTimestamp == nil && c.Status.NodeName != "" {
			out[c.Status.NodeName] = c
		}
	}
	return out
}

func (w *world) bootOf(node string) string {
	w.t.Helper()
	n := &corev1.Node{}
	w.must(w.Client.Get(w.t.Context(), client.ObjectKey{Name: node}, n))
	return n.Status.NodeInfo.BootID
}

// told says whether an object of the kind has an event of the reason whose message has the words.
func (w *world) told(kind, reason, words string) bool {
	w.t.Helper()
	list := &corev1.EventList{}
	w.must(w.Client.List(w.t.Context(), list))
	return slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Kind == kind && e.Reason == reason && strings.Contains(e.Message, words)
	})
}

// TestN6_N7_RepairOnTheWholeProduct has six nodes with a pod each: one is rebooted and comes back, one is replaced because reboots have not
// helped, three that are unhealthy at once are left alone until they are two, and then replaced.
func TestN6_N7_RepairOnTheWholeProduct(t *testing.T) {
	t.Parallel()
	const pods = 6
	w := newWorld(t, karpv1.NeverDuration(), "NodeRepair=true", "RebootForRepair=true")
	w.only("c5.large")
	w.scale(pods)
	w.awaitSettled(pods)
	s := newScraper(w)
	before := w.fleet()
	names := slices.Sorted(maps.Keys(before))
	if len(names) != pods {
		t.Fatalf("%d nodes for %d pods", len(names), pods)
	}
	w.reboots(names[0], pods)
	w.escalates(names[1], pods)
	w.breaks(names[2:5], pods)
	after := w.fleet()
	for _, kept := range []string{names[0], names[4], names[5]} {
		if after[kept] == nil || after[kept].UID != before[kept].UID {
			t.Errorf("node %s was replaced, too", kept)
		}
	}
	w.checkHistory()
	s.await("a reboot", meter.NodesReboots, "result", "succeeded")
	s.await("how long it took", meter.NodesRebootDuration, "result", "succeeded")
	s.await("how long the node took to come back", meter.NodesRebootRecovery)
	s.await("repairs", meter.NodeClaimsUnhealthyDisrupted, "condition", "storage_ready", "termination_mode", "eventual")
	for _, decision := range []string{"reboot", "replace"} {
		s.await("the decision to "+decision, meter.DisruptionDecisions, "decision", decision, "reason", "unhealthy")
	}
}

// reboots has a node break in a way that a reboot cures.
func (w *world) reboots(name string, pods int) {
	w.t.Helper()
	was, boot := w.fleet()[name], w.bootOf(name)
	w.fault("AcceleratedHardwareReady", "NvidiaXID48Error", 11*time.Minute, name)
	w.await(func() string {
		c := w.fleet()[name]
		if c == nil || c.UID != was.UID {
			w.t.Fatalf("N7: node %s was replaced instead of rebooted", name)
		}
		if is := c.StatusConditions().Get(karpv1.ConditionRebooting); is == nil || is.Reason != karpv1.ReasonRebootSucceeded || !c.StatusConditions().IsTrue(karpv1.ConditionInitialized) {
			return fmt.Sprintf("N7: node %s is not back: %+v", name, c.Status.Conditions)
		}
		return ""
	})
	if now := w.bootOf(name); now == boot || now == "" {
		w.t.Errorf("N7: the boot id of node %s was %s and is %s", name, boot, now)
	}
	if n := len(strings.Split(w.fleet()[name].Annotations[karpv1.RebootsAnnotationKey], ",")); n != 1 {
		w.t.Errorf("N7: %d reboots are on record", n)
	}
	w.awaitSettled(pods)
}

// escalates has a node break in the same way that has been rebooted twice today.
func (w *world) escalates(name string, pods int) {
	w.t.Helper()
	was := w.fleet()[name]
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	w.must(w.Client.Patch(w.t.Context(), was.DeepCopy(), client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%s,%s"}}}`, karpv1.RebootsAnnotationKey, at(5*time.Hour), at(time.Hour)))))
	w.fault("AcceleratedHardwareReady", "NvidiaXID48Error", 11*time.Minute, name)
	w.await(func() string {
		if c := w.fleet()[name]; c != nil && c.UID == was.UID {
			return fmt.Sprintf("N7: node %s is still there after two reboots: %+v", name, c.Status.Conditions)
		}
		return ""
	})
	w.awaitSettled(pods)
}

// breaks has three of six nodes break at once, and one of them recover.
func (w *world) breaks(names []string, pods int) {
	w.t.Helper()
	was := w.fleet()
	// They are repaired after 30 minutes: by then all three are known to be broken, however slow the computer is.
	w.fault("StorageReady", "DiskBroken", 30*time.Minute-20*time.Second, names...)
	w.await(func() string {
		if !w.told("NodePool", "NodeRepairBlocked", "more than 20% of the nodes are unhealthy (3 of 6)") || !w.told("NodeClaim", "NodeRepairBlocked", "StorageReady is False") {
			return "N6: nobody was told that repair is blocked"
		}
		return ""
	})
	w.pause(15 * time.Second)
	for _, name := range names {
		if c := w.fleet()[name]; c == nil || c.UID != was[name].UID {
			w.t.Fatalf("N6: node %s was replaced although half of the pool is unhealthy", name)
		}
	}
	w.fault("StorageReady", "", 0, names[2])
	w.await(func() string {
		for _, name := range names[:2] {
			if c := w.fleet()[name]; c != nil && c.UID == was[name].UID {
				return fmt.Sprintf("N6: node %s is still there", name)
			}
		}
		return ""
	})
	w.awaitSettled(pods)
}
