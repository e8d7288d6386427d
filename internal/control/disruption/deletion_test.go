package disruption

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/test/harness/rig"
)

// pricedBench is a bench of full and half empty nodes, and what tells ReplicaSets about them.
func pricedBench(t *testing.T) (*bench, *DeletionCosts) {
	t.Helper()
	b := newBench(t)
	b.pool("general", func(p *karpv1.NodePool) {
		p.Spec.Disruption.ConsolidateAfter = karpv1.NewNillableDuration(time.Hour) // what is planned is not done yet
	})
	for _, name := range []string{"full", "some", "few"} {
		b.instance(name, "general", "m5.xlarge")
	}
	for range 3 {
		b.pod("full", "1")
	}
	b.pod("some", "1")
	b.pod("some", "1")
	b.pod("few", "1")
	b.sync()
	return b, b.deletionCosts()
}

func (b *bench) deletionCosts() *DeletionCosts {
	return &DeletionCosts{Client: b.client, Mirror: b.mirror, Decider: b.loop, Clock: b.clock, Meter: b.meter, Log: b.loop.Log}
}

// round lets costs be written once, a minute after the last time, and returns how many pods were.
func (b *bench) round(r *DeletionCosts) (writes int) {
	b.Helper()
	b.clock.Step(costEvery)
	b.sync()
	b.client.Step = func(w rig.Write, after bool) error {
		if _, pod := w.Object.(*corev1.Pod); pod && after {
			writes++
		}
		return nil
	}
	defer func() { b.client.Step = nil }()
	_, err := r.Once(b.Context())
	b.must(err)
	b.sync()
	return writes
}

// costsOf lists the deletion costs of the pods of each node: those of ours as they are, others with a !.
func (b *bench) costsOf() map[string]string {
	b.Helper()
	pods := &corev1.PodList{}
	b.must(b.client.WithWatch.List(b.Context(), pods))
	out := map[string]string{}
	for _, p := range pods.Items {
		cost, mark := p.Annotations[corev1.PodDeletionCost], p.Annotations[karpv1.DeletionCostAnnotationKey]
		if cost != mark {
			cost += "!"
		}
		node := strings.TrimPrefix(p.Spec.NodeName, "node-")
		if had, ok := out[node]; ok && had != cost {
			cost = had + " " + cost
		}
		out[node] = cost
	}
	return out
}

func (b *bench) expectCosts(want map[string]string) {
	b.Helper()
	if diff := cmp.Diff(want, b.costsOf()); diff != "" {
		b.Error(diff)
	}
}

// The node that the plan removes comes first and the one that it fills is left out; what is written already is not written again, and
// the decision stays the same.
func TestN9_PodsOfNodesThatGoNextCostLeast(t *testing.T) {
	b, r := pricedBench(t)
	if writes := b.round(r); writes != 4 {
		t.Errorf("%d pods were written, want those of two nodes", writes)
	}
	want := map[string]string{"few": "-100", "full": "-99", "some": ""}
	b.expectCosts(want)
	view := b.mirror.View()
	for range 3 {
		if writes := b.round(r); writes != 0 {
			t.Errorf("%d pods were written, although nothing has changed", writes)
		}
	}
	if again := b.mirror.View(); again.World != view.World {
		t.Error("what decisions are made from has changed")
	}
	if got := b.counted(meter.DeletionCostWrites, "result", "updated"); got != 4 {
		t.Errorf("%v writes are counted", got)
	}
	// One pod more is written alone.
	b.pod("full", "100m")
	if writes := b.round(r); writes != 1 {
		t.Errorf("%d pods were written, want the one that has come", writes)
	}
	b.expectCosts(want)
}

// Pods of nodes that are being removed cost least of all; if that is called off, they cost nothing special any more.
func TestN9_PodsOfNodesThatAreRemovedGoFirst(t *testing.T) {
	b, r := pricedBench(t)
	node := b.nodeOf("full")
	node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedTaint())
	b.must(b.client.Update(b.Context(), node))
	b.round(r)
	if got := b.costsOf()["full"]; got != strconv.Itoa(math.MinInt32) {
		t.Errorf("%q on a node with the taint", got)
	}
	node = b.nodeOf("full")
	node.Spec.Taints = nil
	b.must(b.client.Update(b.Context(), node))
	c := b.claim("few")
	b.must(b.client.Delete(b.Context(), c))
	b.round(r)
	if got := b.costsOf(); got["few"] != strconv.Itoa(math.MinInt32) || got["full"] == strconv.Itoa(math.MinInt32) {
		t.Errorf("%v, want only pods of the deleted claim to cost least", got)
	}
}

// A process that starts takes back what the one before has written and is not wanted any more, and leaves what still is.
func TestN9_ARestartLosesNothing(t *testing.T) {
	b, r := pricedBench(t)
	b.round(r)
	b.restart()
	b.sync()
	if writes := b.round(b.deletionCosts()); writes != 0 {
		t.Errorf("%d pods were written, although all is as it was", writes)
	}
	b.restart()
	pool := &karpv1.NodePool{}
	b.must(b.client.Get(b.Context(), clientKey("general"), pool))
	pool.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration()
	b.must(b.client.Update(b.Context(), pool))
	b.sync()
	if writes := b.round(b.deletionCosts()); writes != 4 {
		t.Errorf("%d pods were written, want those that had a cost", writes)
	}
	b.expectCosts(map[string]string{"few": "", "full": "", "some": ""})
}

// What a pod's owner has written stays, also if it is written between the look and the write.
func TestN9_OwnersCostsStay(t *testing.T) {
	b, r := pricedBench(t)
	own := func(cost string) {
		t.Helper()
		pods := &corev1.PodList{}
		b.must(b.client.WithWatch.List(b.Context(), pods))
		for i := range pods.Items {
			if p := &pods.Items[i]; p.Spec.NodeName == "node-few" {
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, corev1.PodDeletionCost, cost)
				b.must(cluster.Client.Patch(b.Context(), p, client.RawPatch("application/merge-patch+json", patch)))
			}
		}
	}
	own(`"7"`)
	b.round(r)
	if got := b.costsOf()["few"]; got != "7!" {
		t.Errorf("%q, want the owner's", got)
	}
	own("null")
	b.pod("some", "100m") // something changes, so that it is looked at
	b.clock.Step(costEvery)
	b.sync()
	own(`"8"`) // and the mirror has not seen it
	if _, err := r.Once(b.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.costsOf()["few"]; got != "8!" {
		t.Errorf("%q, want the owner's", got)
	}
	if got := b.counted(meter.DeletionCostWrites, "result", "skipped_conflict"); got != 1 {
		t.Errorf("%v conflicts are counted", got)
	}
	if got := b.counted(meter.DeletionCostPending, "nodepool", "general"); got != 1 {
		t.Errorf("%v nodes have pending writes", got)
	}
	b.round(r)
	if got := b.costsOf()["few"]; got != "8!" || r.left {
		t.Errorf("%q, %t: want the owner's, and nothing to try again", got, r.left)
	}
	own("null")
	b.pod("some", "100m")
	b.round(r)
	if got := b.costsOf()["few"]; got == "" || strings.HasSuffix(got, "!") {
		t.Errorf("%q, want one of ours", got)
	}
}

// A pod that cannot be written holds up no other, and is tried again with the next round although nothing has changed.
func TestN9_WritesThatFailAreTriedAgain(t *testing.T) {
	b, r := pricedBench(t)
	b.clock.Step(2 * time.Hour) // time that passes changes nothing any more
	b.client.Step = func(w rig.Write, after bool) error {
		if w.Object.GetName() == "pod-6" && !after {
			return errors.New("not now")
		}
		return nil
	}
	again, err := r.Once(b.Context())
	if err != nil || again != costEvery {
		t.Errorf("again in %s, %v", again, err)
	}
	b.client.Step = nil
	b.expectCosts(map[string]string{"few": "", "full": "-99", "some": ""})
	expect := func(pending float64, results map[string]float64) {
		t.Helper()
		if got := b.counted(meter.DeletionCostPending, "nodepool", "general"); got != pending {
			t.Errorf("%v nodes had pods to write, want %v", got, pending)
		}
		for _, result := range []string{"updated", "skipped_notfound", "error"} {
			if got := b.counted(meter.DeletionCostWrites, "result", result); got != results[result] {
				t.Errorf("%v writes are counted as %s, want %v", got, result, results[result])
			}
		}
	}
	expect(2, map[string]float64{"updated": 3, "error": 1})
	if writes := b.round(r); writes != 1 {
		t.Errorf("%d pods were written", writes)
	}
	b.expectCosts(map[string]string{"few": "-100", "full": "-99", "some": ""})
	expect(1, map[string]float64{"updated": 4, "error": 1})
	// One that is gone, and has not been seen to be, is not tried again.
	b.pod("full", "100m")
	b.clock.Step(costEvery)
	b.sync()
	b.client.Step = func(w rig.Write, after bool) error {
		return apierrors.NewNotFound(corev1.Resource("pods"), w.Object.GetName())
	}
	_, err = r.Once(b.Context())
	b.must(err)
	b.client.Step = nil
	expect(1, map[string]float64{"updated": 4, "error": 1, "skipped_notfound": 1})
	if r.left {
		t.Error("it is tried again")
	}
}

// With hundreds of nodes to go, fifty are ranked, and all that are being removed.
func TestN9_FiftyNodesAreRanked(t *testing.T) {
	view := &state.View{}
	var next []int32
	for i := range 200 {
		n := ranked(fmt.Sprintf("n%03d", i), 0)
		n.World.Deleting = i >= 100
		view.Nodes = append(view.Nodes, n)
		next = append(next, int32(i))
	}
	view.Nodes[0].Pods[0].OwnerReferences[0].Kind = "StatefulSet" // has nothing that could be told
	count := map[bool]int{}
	for _, cost := range rank(view, next) {
		count[cost == removedCost]++
	}
	if count[true] != 100 || count[false] != rankedNodes {
		t.Errorf("%d nodes cost least and %d are ranked", count[true], count[false])
	}
	if costs := rank(view, next); costs["n000"] != 0 || costs["n001"] != firstRank || costs["n050"] != firstRank+49 {
		t.Errorf("%d, %d, %d", costs["n000"], costs["n001"], costs["n050"])
	}
}

// ranked is a node with a pod that has a cost, if it is not 0.
func ranked(name string, cost int) *state.Node {
	pod := owned(name, "web", monday)
	if cost != 0 {
		pod.Annotations = map[string]string{corev1.PodDeletionCost: strconv.Itoa(cost), karpv1.DeletionCostAnnotationKey: strconv.Itoa(cost)}
	}
	return &state.Node{World: &world.Node{Name: name, Pool: "general"}, Claim: &karpv1.NodeClaim{}, Pods: []*corev1.Pod{pod}}
}

func TestN9_NumbersStayWhereTheyAreInOrder(t *testing.T) {
	for _, c := range []struct {
		name      string
		has, want []int32
	}{
		{"none", nil, []int32{}},
		{"all are new", []int32{0, 0, 0}, []int32{-100, -99, -98}},
		{"as they were", []int32{-100, -99, -98}, []int32{-100, -99, -98}},
		{"the first is gone", []int32{-99, -98}, []int32{-99, -98}},
		{"one in between is gone", []int32{-100, -98}, []int32{-100, -98}},
		{"one has come last", []int32{-99, -98, 0}, []int32{-99, -98, -97}},
		{"two have come first", []int32{0, 0, -100, -99}, []int32{-102, -101, -100, -99}},
		{"one has come in between", []int32{-100, 0, -99, -90}, []int32{-100, -99, -98, -90}},
		{"two have changed places", []int32{-99, -100, -90}, []int32{-99, -98, -90}},
		{"no number is left", []int32{-2, -1, 0}, []int32{-100, -99, -98}},
		{"the last has become the first", []int32{-1, -100, -99}, []int32{-100, -99, -98}},
		{"pods of a node that was being removed", []int32{removedCost, -99}, []int32{-100, -99}},
	} {
		var order []*state.Node
		for i, cost := range c.has {
			order = append(order, ranked(fmt.Sprintf("n%d", i), int(cost)))
		}
		if got := number(order); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestN9_WhatIsWrittenOnAPod(t *testing.T) {
	const both, mark, nothing = `"annotations":{"controller.kubernetes.io/pod-deletion-cost":%[1]s,"karpenter.sh/deletion-cost":%[1]s}`, `"annotations":{"karpenter.sh/deletion-cost":null}`, ""
	for _, c := range []struct {
		has, ours string
		cost      int32
		want      string
	}{
		{"", "", 0, nothing},
		{"", "", -1, fmt.Sprintf(both, `"-1"`)},
		{"-1", "-1", -1, nothing},
		{"-1", "-1", -2, fmt.Sprintf(both, `"-2"`)},
		{"-1", "-1", 0, fmt.Sprintf(both, "null")},
		{"7", "", -1, nothing},
		{"7", "", 0, nothing},
		{"7", "-1", -1, mark},
		{"7", "-1", 0, mark},
		{"", "-1", 0, fmt.Sprintf(both, "null")},
		{"", "-1", -1, fmt.Sprintf(both, `"-1"`)},
		{"", "", math.MinInt32, fmt.Sprintf(both, `"-2147483648"`)},
	} {
		pod := owned("a", "web", monday)
		pod.ResourceVersion = "12"
		pod.Annotations = map[string]string{}
		if c.has != "" {
			pod.Annotations[corev1.PodDeletionCost] = c.has
		}
		if c.ours != "" {
			pod.Annotations[karpv1.DeletionCostAnnotationKey] = c.ours
		}
		want := ""
		if c.want != nothing {
			want = fmt.Sprintf(`{"metadata":{%s,"resourceVersion":"12"}}`, c.want)
		}
		if got := string(patchCost(pod, c.cost)); got != want {
			t.Errorf("%+v: %s", c, got)
		}
		if pod.DeletionTimestamp = new(metav1.NewTime(monday)); patchCost(pod, c.cost) != nil {
			t.Errorf("%+v: it is being deleted already", c)
		}
	}
	for kind, version := range map[string]string{"StatefulSet": "apps/v1", "ReplicaSet": "example.com/v1", "DaemonSet": "apps/v1"} {
		pod := owned("a", "web", monday)
		if !replicated(pod) {
			t.Fatal("a ReplicaSet's pod is not known as such")
		}
		if pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].APIVersion = kind, version; replicated(pod) {
			t.Errorf("a pod of a %s of %s counts as a ReplicaSet's", kind, version)
		}
	}
}
