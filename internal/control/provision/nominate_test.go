package provision

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// stage is a nominator with pods that the API server has and claims for each of them.
type stage struct {
	*Nominator
	t      *testing.T
	s      *fixture
	pods   []*corev1.Pod
	claims []*karpv1.NodeClaim
	woken  []string
	// workers open the nodes that were woken.
	workers sync.WaitGroup
}

// newStage has n pods of which each needs a node of its own, and claims for them that have been launched.
func newStage(t *testing.T, n int) *stage {
	t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "nominate-"}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	create := func(obj client.Object) {
		t.Helper()
		if err := cluster.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	create(space)
	account.Namespace = space.Name
	create(account)
	x := &stage{t: t, s: newFixture(typesOf(twoZones, 2), newPool("nominates"))}
	for i := range n {
		pod := newPod(fmt.Sprintf("p%d", i), "1500m")
		status := pod.Status
		pod.ObjectMeta = metav1.ObjectMeta{Namespace: space.Name, Name: pod.Name}
		create(pod)
		pod.Status = status
		if err := cluster.Client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		x.pods = append(x.pods, pod)
	}
	x.s.put(x.pods...)
	creator := &Creator{Client: yesMan(), Mirror: x.s, Clock: x.s.clock, Log: silent}
	list := plan(x.s, creator)
	if len(list) != n {
		t.Fatalf("%d claims for %d pods", len(list), n)
	}
	creator.Create(t.Context(), list)
	for i, d := range list {
		c := d.Claim.DeepCopy()
		c.CreationTimestamp = metav1.Time{Time: x.s.clock.Now()}
		c.Status.ProviderID = fmt.Sprintf("aws:///a/i-%d", i)
		c.Status.Allocatable, c.Status.Capacity = c.Spec.Resources.Requests, c.Spec.Resources.Requests
		x.s.Put(c)
		x.claims = append(x.claims, c)
	}
	x.Nominator = x.nominator(creator)
	return x
}

func (x *stage) nominator(creator *Creator) *Nominator {
	return &Nominator{Client: cluster.Client, Mirror: x.s, Creator: creator, Clock: x.s.clock, Log: silent, Wake: x.wake}
}

// wake has the node of a claim be opened by another worker, as the nodes of a lot wait for each other.
func (x *stage) wake(claim string) {
	x.woken = append(x.woken, claim)
	i := slices.IndexFunc(x.claims, func(c *karpv1.NodeClaim) bool { return c.Name == claim })
	x.workers.Go(func() { x.admit(i, true, 0) })
}

// node has the node of a claim join.
func (x *stage) node(i int, ready bool) *corev1.Node {
	c := x.claims[i]
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + c.Name, UID: "node", Labels: map[string]string{world.LabelPool: "nominates"}},
		Spec:       corev1.NodeSpec{ProviderID: c.Status.ProviderID, Taints: []corev1.Taint{{Key: karpv1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute}}},
		Status:     corev1.NodeStatus{Allocatable: c.Status.Allocatable, Capacity: c.Status.Capacity},
	}
	for k, v := range c.Labels {
		n.Labels[k] = v
	}
	if ready {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	} else {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	x.s.Put(n)
	return n
}

// open has the node of a claim let pods in.
func (x *stage) open(i int) {
	n := x.node(i, true)
	n.Spec.Taints = nil
	n.Labels[karpv1.NodeRegisteredLabelKey], n.Labels[karpv1.NodeInitializedLabelKey] = "true", "true"
	x.s.Put(n.DeepCopy())
}

// admit asks for the node of a claim.
func (x *stage) admit(i int, ready bool, want time.Duration) {
	x.t.Helper()
	opened := false
	got, err := x.Open(x.t.Context(), x.claims[i], x.node(i, ready), func() error { opened = true; return nil })
	if err != nil || got != want || opened != (want == 0) {
		x.t.Errorf("node %d waits for %s, want %s; opened: %t, %v", i, got, want, opened, err)
	}
}

// want says which nodes the pods are nominated for, in the API and in the mirror; "" is none.
func (x *stage) want(nodes ...string) {
	x.t.Helper()
	for i, pod := range x.pods {
		got := &corev1.Pod{}
		if err := cluster.Client.Get(x.t.Context(), client.ObjectKeyFromObject(pod), got); err != nil {
			x.t.Fatal(err)
		}
		if got.Status.NominatedNodeName != nodes[i] {
			x.t.Errorf("pod %d is nominated for %q, want %q", i, got.Status.NominatedNodeName, nodes[i])
		}
		x.pods[i] = got
	}
}

// planned is the node that pod i was planned for.
func (x *stage) planned(i int) string {
	return "node-" + x.Creator.pins.of[x.pods[i].UID].claim
}

// nominate nominates a pod as somebody else would.
func (x *stage) nominateAs(i int, node string) {
	x.t.Helper()
	pod := x.pods[i].DeepCopy()
	pod.Status.NominatedNodeName = node
	if err := cluster.Client.Status().Update(x.t.Context(), pod); err != nil {
		x.t.Fatal(err)
	}
	x.pods[i] = pod
	x.s.Put(pod)
}

func (x *stage) sweep() {
	view := x.s.View()
	x.Creator.pins.apply(look{view: view, now: x.s.clock.Now(), pins: math.MaxUint64})
	x.Sweep(x.t.Context(), view)
}

func TestNodesOfAPlanOpenTogether(t *testing.T) {
	x := newStage(t, 3)
	where := []string{x.planned(0), x.planned(1), x.planned(2)}
	none := []string{"", "", ""}
	x.admit(0, false, readyWait) // it is not ready: pods could not use it
	x.s.clock.Step(time.Second)
	x.admit(0, false, readyWait-time.Second)
	x.admit(0, true, siblingWait)
	x.s.clock.Step(siblingWait / 2)
	x.admit(1, true, siblingWait)
	x.s.clock.Step(siblingWait / 2)
	x.admit(0, true, siblingWait/2)
	x.want(none...)
	x.admit(2, true, 0) // no other is on its way
	if got, want := fmt.Sprint(x.woken), fmt.Sprint([]string{x.claims[0].Name, x.claims[1].Name}); got != want {
		t.Errorf("woken: %s, want %s", got, want)
	}
	x.workers.Wait()
	x.want(where...)
	if len(x.lots.of)+len(x.lots.first) > 0 {
		t.Errorf("nodes that are open are remembered: %v", x.lots.of)
	}
	// In the mirror they count as on their nodes, which the pins know.
	view := x.s.View()
	if len(view.World.Pending) != 0 || x.Creator.pins.apply(look{view: view, now: x.s.clock.Now(), pins: math.MaxUint64}).Pods != 0 || len(x.Creator.pins.of) != 3 {
		t.Errorf("%d pods are pending, %d expected somewhere", len(view.World.Pending), len(x.Creator.pins.of))
	}
}

func TestNodesDoNotWaitForLong(t *testing.T) {
	t.Run("for one that does not come", func(t *testing.T) {
		x := newStage(t, 2)
		x.admit(0, true, siblingWait)
		x.s.clock.Step(siblingWait)
		x.admit(0, true, 0)
	})
	t.Run("to be ready", func(t *testing.T) {
		x := newStage(t, 2)
		x.admit(0, false, readyWait)
		x.s.clock.Step(readyWait)
		x.admit(0, false, 0)
		x.want("", "")
		// When it is ready at last its pods are nominated, once.
		x.Opened(t.Context(), x.claims[0])
		x.sweep()
		n := 0
		for _, nominee := range x.s.View().Nominees {
			if nominee.Pod.Status.NominatedNodeName == "node-"+x.claims[0].Name {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d pods are nominated for the node, want 1", n)
		}
	})
	t.Run("without end", func(t *testing.T) {
		x := newStage(t, 9)
		waited := time.Duration(0)
		for i := range 8 {
			wait, err := x.Open(t.Context(), x.claims[i], x.node(i, true), func() error { return nil })
			if wait == 0 || err != nil {
				break
			}
			x.s.clock.Step(wait - time.Millisecond)
			waited += wait - time.Millisecond
		}
		if waited > lotWait {
			t.Errorf("nodes have waited for %s", waited)
		}
	})
	t.Run("one alone", func(t *testing.T) {
		x := newStage(t, 1)
		x.admit(0, true, 0)
		x.want("") // nobody could take its place
	})
}

func TestANodeAloneIsHeldAgainstOthers(t *testing.T) {
	x := newStage(t, 1)
	other := newPod("other", "1")
	x.s.put(other)
	x.admit(0, true, 0)
	x.want("node-" + x.claims[0].Name)
}

func TestNominationsEnd(t *testing.T) {
	nominated := func(t *testing.T) *stage {
		x := newStage(t, 2)
		x.admit(0, true, siblingWait)
		x.admit(1, true, 0)
		x.workers.Wait()
		x.want(x.planned(0), x.planned(1))
		return x
	}
	t.Run("not while the pod is expected there", func(t *testing.T) {
		x := nominated(t)
		x.s.clock.Step(time.Minute)
		x.sweep()
		x.want(x.planned(0), x.planned(1))
	})
	t.Run("with the claim", func(t *testing.T) {
		x := nominated(t)
		other := x.planned(1)
		x.s.Leaving(strings.TrimPrefix(x.planned(0), "node-"))
		x.sweep()
		x.want("", other)
		if n := len(x.s.View().World.Pending); n != 1 {
			t.Errorf("%d pods are pending", n)
		}
	})
	t.Run("when nothing comes of it", func(t *testing.T) {
		x := nominated(t)
		x.open(0)
		x.open(1)
		x.sweep()
		x.s.clock.Step(pinAfterStart)
		x.sweep()
		x.want("", "")
	})
	t.Run("after a restart", func(t *testing.T) {
		x := nominated(t)
		x.open(0)
		x.open(1)
		anew := &Creator{Client: yesMan(), Mirror: x.s, Clock: x.s.clock, Log: silent}
		x.Nominator = x.nominator(anew)
		x.sweep()
		x.want(x.pods[0].Status.NominatedNodeName, x.pods[1].Status.NominatedNodeName) // their place is not given up yet
		x.s.clock.Step(maxPin)
		x.sweep()
		x.want("", "")
	})
}

func TestNominationsOfOthersHideNoPod(t *testing.T) {
	pending := func(x *stage, want int) {
		x.t.Helper()
		if n := len(x.s.View().World.Pending); n != want {
			x.t.Errorf("%d pods are pending, want %d", n, want)
		}
	}
	t.Run("for a node that is not there", func(t *testing.T) {
		x := newStage(t, 1)
		x.nominateAs(0, "nowhere")
		pending(x, 1)
		x.sweep()
		x.want("nowhere") // it may be about to come
		x.s.clock.Step(staleAfter)
		x.sweep()
		x.want("")
	})
	t.Run("for a node of others", func(t *testing.T) {
		x := newStage(t, 1)
		foreign := x.node(0, true)
		foreign.Name, foreign.UID, foreign.Spec.ProviderID, foreign.Spec.Taints = "foreign", "foreign", "other", nil
		foreign.Labels = nil
		x.s.Put(foreign)
		x.nominateAs(0, "foreign")
		pending(x, 0)
		x.sweep()
		x.s.clock.Step(staleAfter)
		x.sweep()
		pending(x, 1)
		x.want("foreign") // not ours to take back
	})
	t.Run("without the right to take it back", func(t *testing.T) {
		x := newStage(t, 1)
		x.Off = true
		x.open(0)
		x.nominateAs(0, "node-"+x.claims[0].Name)
		pending(x, 0)
		x.sweep()
		x.s.clock.Step(pinAfterStart)
		x.sweep()
		pending(x, 1)
	})
}

func TestNominationsOfOtherPodsAreLeftAlone(t *testing.T) {
	x := newStage(t, 2)
	again := x.pods[0].DeepCopy() // one that was made anew under the same name, of which the mirror has not heard
	if err := cluster.Client.Delete(t.Context(), x.pods[0], client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	again.ObjectMeta = metav1.ObjectMeta{Namespace: again.Namespace, Name: again.Name}
	if err := cluster.Client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	x.admit(0, true, siblingWait)
	x.admit(1, true, 0)
	x.workers.Wait()
	x.want("", x.planned(1))
}

func TestNothingIsNominatedWithoutTheRight(t *testing.T) {
	x := newStage(t, 2)
	log, tries := &bytes.Buffer{}, atomic.Int32{}
	x.Log = slog.New(slog.NewTextHandler(log, nil))
	x.Client = interceptor.NewClient(cluster.Client, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			tries.Add(1)
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods/status"}, "p", nil)
		},
	})
	x.admit(0, true, siblingWait)
	x.admit(1, true, 0)
	x.workers.Wait()
	x.Opened(t.Context(), x.claims[0])
	x.open(0)
	x.s.clock.Step(pinAfterStart)
	x.sweep()
	if lines := strings.Count(log.String(), "\n"); tries.Load() > 2 || lines != 1 || !strings.Contains(log.String(), "does not allow") {
		t.Errorf("%d tries, %d lines: %s", tries.Load(), lines, log)
	}
}
