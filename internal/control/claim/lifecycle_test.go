package claim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/meter"
	"karpenter/test/harness/simcloud"
)

var enough = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("29")}

func TestL1_FromClaimToNode(t *testing.T) {
	b := newBench(t)
	w := simcloud.Start(t, simcloud.Options{Clock: b.clock, NoBoot: true})
	r := b.lifecycle(w.Provider)
	health := &healthLog{}
	r.Health = health
	startup := karpv1.Taint{Key: "example.com/cni", Effect: corev1.TaintEffectNoSchedule}
	b.claim("whole", func(c *karpv1.NodeClaim) {
		c.Labels["team"] = "a"
		c.Annotations = map[string]string{"note": "x", corev1.LastAppliedConfigAnnotation: "{}"}
		c.Spec.Taints = []karpv1.Taint{{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule}}
		c.Spec.StartupTaints = []karpv1.Taint{startup}
	})
	b.settle(r, b.launched("whole"), "whole")
	b.checkLaunched(w.Living()[0])
	b.node("whole-node", b.get("whole"))
	b.run(r, "whole")
	b.checkRegistered(startup.Key)
	if got := b.condition("whole", karpv1.ConditionInitialized); got != "Unknown/AwaitingReconciliation" {
		t.Errorf("a node that has just come is said to lack something: %s", got)
	}
	b.clock.Step(incomplete)
	b.checkInitialized(r, startup.Key)
	if health.joined != 1 || len(health.failed) != 0 {
		t.Errorf("L14: %+v", health)
	}
}

// checkLaunched holds the claim named whole against its instance.
func (b *bench) checkLaunched(instance *cloud.Instance) {
	b.Helper()
	claim := b.get("whole")
	if !slices.Contains(claim.Finalizers, karpv1.TerminationFinalizer) {
		b.Error("L2: no finalizer")
	}
	switch s := claim.Status; {
	case s.ProviderID != instance.ProviderID, s.ImageID != instance.ImageID, s.Capacity.Cpu().IsZero(), s.Allocatable.Memory().IsZero():
		b.Errorf("L5: status %+v", s)
	}
	for key, want := range map[string]string{
		corev1.LabelInstanceTypeStable: instance.Type, corev1.LabelTopologyZone: instance.Zone, karpv1.CapacityTypeLabelKey: "on-demand",
		awsv1.LabelNodeClass: "default", "team": "a",
	} {
		if claim.Labels[key] != want {
			b.Errorf("L5: label %s is %q, want %q", key, claim.Labels[key], want)
		}
	}
	if claim.Annotations[awsv1.EC2NodeClassHashAnnotationKey] == "" || claim.Annotations["note"] != "x" {
		b.Errorf("L5: annotations %v", claim.Annotations)
	}
	if got := b.condition("whole", karpv1.ConditionLaunched) + " " + b.condition("whole", karpv1.ConditionRegistered); got != "True/Launched Unknown/NodeNotFound" {
		b.Errorf("L6: %s", got)
	}
}

// checkRegistered holds the node of the claim named whole against it.
func (b *bench) checkRegistered(startup string) {
	b.Helper()
	node, claim := b.getNode("whole-node"), b.get("whole")
	if got := b.condition("whole", karpv1.ConditionRegistered); got != "True/Registered" || claim.Status.NodeName != "whole-node" {
		b.Errorf("L10: %s, node %q", got, claim.Status.NodeName)
	}
	if taints := node.Spec.Taints; !has(taints, "dedicated") || !has(taints, startup) || has(taints, karpv1.UnregisteredTaintKey) {
		b.Errorf("L7: taints %v", taints)
	}
	if node.Labels[karpv1.NodeRegisteredLabelKey] != "true" || node.Labels["team"] != "a" || node.Annotations["note"] != "x" || node.Annotations[corev1.LastAppliedConfigAnnotation] != "" {
		b.Errorf("L7: labels %v, annotations %v", node.Labels, node.Annotations)
	}
	if len(node.OwnerReferences) != 1 || node.OwnerReferences[0].UID != claim.UID || !slices.Contains(node.Finalizers, karpv1.TerminationFinalizer) {
		b.Errorf("L7: owners %v, finalizers %v", node.OwnerReferences, node.Finalizers)
	}
	if got := b.counted(meter.NodesCreated, "nodepool", "general", "zone", claim.Labels[corev1.LabelTopologyZone]); got != 1 {
		b.Errorf("L10: %v nodes counted", got)
	}
	if events := b.told(); len(events) != 0 {
		b.Errorf("events %q", events)
	}
}

// checkInitialized takes away one obstacle after the other (L11). The API server itself taints every new node as not ready.
func (b *bench) checkInitialized(r *Lifecycle, startup string) {
	b.Helper()
	for _, s := range []struct {
		want   string
		remove func()
	}{
		{"Unknown/NodeNotReady", func() { b.report("whole-node", corev1.ConditionTrue, nil) }},
		{"Unknown/StartupTaintsExist", func() { b.untaint("whole-node", startup) }},
		{"Unknown/KnownEphemeralTaintsExist", func() { b.untaint("whole-node", corev1.TaintNodeNotReady) }},
		{"Unknown/ResourceNotRegistered", func() { b.report("whole-node", corev1.ConditionTrue, enough) }},
	} {
		b.run(r, "whole")
		if got := b.condition("whole", karpv1.ConditionInitialized); got != s.want {
			b.Errorf("L11: %s, want %s", got, s.want)
		}
		s.remove()
	}
	b.run(r, "whole")
	if got := b.condition("whole", karpv1.ConditionInitialized) + " " + b.condition("whole", karpv1.ConditionReady); got != "True/Initialized True/Ready" {
		b.Errorf("A39: %s", got)
	}
	if b.getNode("whole-node").Labels[karpv1.NodeInitializedLabelKey] != "true" {
		b.Error("L11: the node is not labelled")
	}
	// L8, L12: what comes back later changes nothing.
	b.report("whole-node", corev1.ConditionFalse, nil)
	b.run(r, "whole")
	if !b.get("whole").StatusConditions().IsTrue(karpv1.ConditionReady) || has(b.getNode("whole-node").Spec.Taints, startup) {
		b.Error("L12: the claim has changed its mind")
	}
}

func has(taints []corev1.Taint, key string) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key })
}

func (b *bench) untaint(name, key string) {
	b.Helper()
	node := b.getNode(name)
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	b.must(b.client.Update(b.Context(), node))
}

// healthLog remembers what it is told.
type healthLog struct {
	joined int
	failed []string
}

func (h *healthLog) Joined(*karpv1.NodeClaim) { h.joined++ }
func (h *healthLog) Failed(_ *karpv1.NodeClaim, reason, _ string) {
	h.failed = append(h.failed, reason)
}

// launchOne makes a claim with an instance on record.
func (b *bench) launchOne(r *Lifecycle, name string, edit ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	b.Helper()
	b.claim(name, edit...)
	b.settle(r, b.launched(name), name)
	return b.get(name)
}

func TestL6_SeveralNodesForOneInstance(t *testing.T) {
	b := newBench(t)
	r := b.lifecycle(newStub())
	claim := b.launchOne(r, "twice")
	b.node("twice-a", claim)
	b.node("twice-b", claim)
	b.run(r, "twice")
	if got := b.condition("twice", karpv1.ConditionRegistered) + " " + b.condition("twice", karpv1.ConditionReady); got != "False/MultipleNodesFound False/UnhealthyDependents" {
		t.Errorf("got %s", got)
	}
	// L12: it stays so, and ends with the deadline.
	b.must(b.client.Delete(t.Context(), b.getNode("twice-b")))
	left := b.run(r, "twice")
	if got := b.condition("twice", karpv1.ConditionRegistered); got != "False/MultipleNodesFound" || left <= 0 {
		t.Errorf("got %s, again in %v", got, left)
	}
	b.clock.Step(15 * time.Minute)
	b.run(r, "twice")
	if !b.going("twice") || b.counted(meter.NodeClaimsDisrupted, "reason", life.RegistrationTimeout) != 1 {
		t.Error("L13: it is still there, or was not counted")
	}
}

func TestR7_NodesThatLie(t *testing.T) {
	b := newBench(t)
	r := b.lifecycle(newStub())
	b.node("old", &karpv1.NodeClaim{})
	b.clock.Step(time.Minute)
	claim, other := b.launchOne(r, "honest"), b.launchOne(r, "other")

	// A node that was there before gives itself the instance's name.
	old := b.getNode("old")
	old.Spec.ProviderID = claim.Status.ProviderID
	b.must(b.client.Update(t.Context(), old))
	b.run(r, "honest")
	if got := b.condition("honest", karpv1.ConditionRegistered); got != "Unknown/NodeNotFound" {
		t.Errorf("an older node: %s", got)
	}
	b.expectEvent("ProviderIDMismatch")

	b.node("honest-node", claim)
	b.run(r, "honest")
	b.report("honest-node", corev1.ConditionTrue, enough)
	b.untaint("honest-node", corev1.TaintNodeNotReady)
	b.run(r, "honest")
	// A second one comes after it.
	b.node("late", claim, func(n *corev1.Node) { n.Labels = map[string]string{karpv1.NodeRegisteredLabelKey: "true"} })
	b.run(r, "honest")
	got := b.get("honest")
	if got.Status.NodeName != "honest-node" || !got.StatusConditions().IsTrue(karpv1.ConditionReady) {
		t.Errorf("a second node took over: %+v", got.Status)
	}
	if late := b.getNode("late"); len(late.OwnerReferences) != 0 || !has(late.Spec.Taints, karpv1.UnregisteredTaintKey) {
		t.Errorf("the second node was let in: %+v", late.Spec)
	}
	b.expectEvent("ProviderIDMismatch")

	// A node that belongs to a claim says that it is another claim's instance.
	b.node("stolen", other, func(n *corev1.Node) {
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim.Name, UID: claim.UID}}
	})
	b.run(r, "other")
	if got := b.condition("other", karpv1.ConditionRegistered); got != "Unknown/NodeNotFound" {
		t.Errorf("another claim's node: %s", got)
	}
}

func TestL7_TaintsAndTheirAbsence(t *testing.T) {
	b := newBench(t)
	r := b.lifecycle(newStub())
	taint := karpv1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}
	claim := b.launchOne(r, "bare", func(c *karpv1.NodeClaim) { c.Spec.Taints = []karpv1.Taint{taint} })
	b.node("bare-node", claim, func(n *corev1.Node) {
		n.Spec.Taints = nil
		n.Labels = map[string]string{karpv1.DoNotSyncTaintsLabelKey: "true"}
	})
	b.run(r, "bare")
	if b.condition("bare", karpv1.ConditionRegistered) != "True/Registered" || has(b.getNode("bare-node").Spec.Taints, "dedicated") {
		t.Error("a node that brings its own taints was not left alone")
	}
	b.expectEvent("UnregisteredTaintMissing")
}

func TestL8_StartupTaintsAreNotPutBack(t *testing.T) {
	b := newBench(t)
	r := b.lifecycle(newStub())
	claim := b.launchOne(r, "half", func(c *karpv1.NodeClaim) {
		c.Spec.StartupTaints = []karpv1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule}}
	})
	b.node("half-node", claim)
	b.client.Step = dieAt("status half", false) // the process ends after the node was let in
	_, err := r.Reconcile(t.Context(), request("half"))
	b.client.Step = nil
	if err == nil || b.condition("half", karpv1.ConditionRegistered) != "Unknown/NodeNotFound" {
		t.Fatalf("got %v", err)
	}
	b.untaint("half-node", "cni")
	b.run(b.lifecycle(newStub()), "half")
	if b.condition("half", karpv1.ConditionRegistered) != "True/Registered" || has(b.getNode("half-node").Spec.Taints, "cni") {
		t.Errorf("taints %v", b.getNode("half-node").Spec.Taints)
	}
	if events := b.told(); len(events) != 0 {
		t.Errorf("events %q", events)
	}
}

// slowHook is pending until it is told otherwise.
type slowHook struct {
	name string
	done bool
}

func (h *slowHook) Name() string { return h.name }
func (h *slowHook) Registered(context.Context, *karpv1.NodeClaim) (HookAnswer, error) {
	return HookAnswer{Pending: !h.done, After: 3 * time.Second, Labels: map[string]string{"partition": h.name}}, nil
}

func TestL9_HooksComeBeforePods(t *testing.T) {
	b := newBench(t)
	r := b.lifecycle(newStub())
	slow := &slowHook{name: "placement"}
	r.Hooks = []Hook{slow, &slowHook{name: "quick", done: true}}
	claim := b.launchOne(r, "hooked")
	b.node("hooked-node", claim)
	if after := b.run(r, "hooked"); after != 3*time.Second {
		t.Errorf("again in %v", after)
	}
	node := b.getNode("hooked-node")
	if node.Labels["partition"] == "" || b.get("hooked").Labels["partition"] == "" || !has(node.Spec.Taints, karpv1.UnregisteredTaintKey) || node.Labels[karpv1.NodeRegisteredLabelKey] != "" {
		t.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
	}
	c := b.get("hooked").StatusConditions().Get(karpv1.ConditionRegistered)
	if c.Reason != karpv1.ReasonRegistrationHookPending || !strings.Contains(c.Message, "placement") || strings.Contains(c.Message, "quick") {
		t.Errorf("condition %+v", c)
	}
	slow.done = true
	b.run(r, "hooked")
	if got := b.condition("hooked", karpv1.ConditionRegistered); got != "True/Registered" {
		t.Errorf("got %s", got)
	}

	// L13: a hook that never is done does not hold a node for ever.
	slow.done = false
	claim = b.launchOne(r, "stuck")
	b.node("stuck-node", claim)
	b.run(r, "stuck")
	b.clock.Step(15 * time.Minute)
	b.run(r, "stuck")
	if !b.going("stuck") {
		t.Error("it is still there")
	}
}

func TestL25_DevicesMustBePublished(t *testing.T) {
	b := newBench(t)
	r := b.lifecycle(newStub())
	r.Devices = cluster.Client
	drivers := func(c *karpv1.NodeClaim) {
		c.Annotations = map[string]string{karpv1.RequestedDRADriversAnnotationKey: "gpu.example.com"}
	}
	claim := b.launchOne(r, "devices", drivers)
	b.node("devices-node", claim)
	b.run(r, "devices")
	b.report("devices-node", corev1.ConditionTrue, enough)
	b.untaint("devices-node", corev1.TaintNodeNotReady)
	b.clock.Step(incomplete)
	if after := b.run(r, "devices"); after != devicesWait {
		t.Errorf("again in %v", after)
	}
	if got := b.condition("devices", karpv1.ConditionInitialized); got != "Unknown/DRADriverPoolsNotPublished" {
		t.Errorf("got %s", got)
	}
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "devices"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: new("devices-node"), Devices: []resourcev1.Device{{Name: "gpu-0"}},
			Pool: resourcev1.ResourcePool{Name: "devices-node", Generation: 1, ResourceSliceCount: 1},
		},
	}
	b.must(cluster.Client.Create(t.Context(), slice))
	t.Cleanup(func() { b.must(cluster.Client.Delete(context.WithoutCancel(t.Context()), slice)) })
	b.run(r, "devices")
	if got := b.condition("devices", karpv1.ConditionInitialized); got != "True/Initialized" {
		t.Errorf("got %s", got)
	}
}

func TestL13_Deadlines(t *testing.T) {
	b := newBench(t)
	stub := newStub()
	r := b.lifecycle(stub)
	health := &healthLog{}
	r.Health, r.Quota = health, control.NewQuota(b.clock.Now)
	b.launchOne(r, "never-joins")
	claim := b.launchOne(r, "never-usable")
	b.node("unusable", claim)
	b.run(r, "never-usable")
	stub.err = refusal("Denied", "Unauthorized")
	b.claim("never-launched")
	b.run(r, "never-launched")

	b.clock.Step(5 * time.Minute)
	b.run(r, "never-launched")
	if !b.going("never-launched") || b.counted(meter.NodeClaimsDisrupted, "reason", life.LaunchTimeout) != 1 {
		t.Error("never-launched is still there")
	}
	b.clock.Step(10 * time.Minute)
	b.run(r, "never-joins")
	if !b.going("never-joins") || b.going("never-usable") {
		t.Error("never-joins is still there, or never-usable is not")
	}
	b.clock.Step(15 * time.Minute)
	b.run(r, "never-usable")
	if !b.going("never-usable") || b.counted(meter.NodeClaimsDisrupted, "reason", life.InitializationTimeout) != 1 {
		t.Error("W13: never-usable is still there")
	}
	b.expectEvent("InitializationTimeout")
	if want := "[Unauthorized RegistrationFailed NodeNotReady]"; len(health.failed) != 3 || strings.Join(health.failed, " ") != strings.Trim(want, "[]") {
		t.Errorf("L14: %v, want %s", health.failed, want)
	}
}

// TestN7_AfterARebootThereIsTimeToInitialize: a node that was not initialized before its reboot either has Initialized Unknown all along.
func TestN7_AfterARebootThereIsTimeToInitialize(t *testing.T) {
	b := newBench(t)
	r := b.lifecycle(newStub())
	b.node("node", b.launchOne(r, "rebooted"))
	b.run(r, "rebooted")
	b.clock.Step(29 * time.Minute)
	c := b.get("rebooted")
	c.StatusConditions().Set(karpv1.Condition{Type: karpv1.ConditionRebooting, Status: metav1.ConditionFalse, Reason: karpv1.ReasonRebootSucceeded}, b.clock.Now())
	b.must(b.client.Status().Update(t.Context(), c))
	b.clock.Step(29 * time.Minute)
	if b.run(r, "rebooted"); b.going("rebooted") {
		t.Error("it is given up before it had its time after the reboot")
	}
	b.clock.Step(time.Minute)
	if b.run(r, "rebooted"); !b.going("rebooted") {
		t.Error("it is never given up")
	}
}

func TestW13_TheQuotaBoundsWhatIsDeleted(t *testing.T) {
	b := newBench(t)
	r := b.lifecycle(newStub())
	r.Quota = control.NewQuota(b.clock.Now)
	for _, name := range []string{"first", "second"} {
		b.node(name+"-node", b.launchOne(r, name))
		b.run(r, name)
	}
	b.clock.Step(time.Hour)
	b.run(r, "first")
	again := b.run(r, "second")
	if !b.going("first") || b.going("second") || again != time.Minute {
		t.Errorf("first going %v, second going %v, again in %v", b.going("first"), b.going("second"), again)
	}
	b.clock.Step(10 * time.Minute)
	b.run(r, "second")
	if !b.going("second") {
		t.Error("second is still there")
	}
}

func TestL20_ClaimsOfOthersAreLeftAlone(t *testing.T) {
	b := newBench(t)
	b.claim("foreign", func(c *karpv1.NodeClaim) {
		c.Spec.NodeClassRef.Group, c.Spec.NodeClassRef.Kind = "example.com", "Other"
	})
	stub := newStub()
	b.run(b.lifecycle(stub), "foreign")
	b.run(&Hydrate{Client: b.client, Class: class, Clock: b.clock}, "foreign")
	if claim := b.get("foreign"); len(claim.Finalizers) != 0 || len(stub.batches) != 0 {
		t.Errorf("touched: %+v", claim.ObjectMeta)
	}
}

func TestA39_ReasonsAreThoseOfTheAPI(t *testing.T) {
	for _, pair := range [][2]string{
		{life.NodeNotFound, karpv1.ReasonNodeNotFound},
		{life.MultipleNodesFound, karpv1.ReasonMultipleNodesFound},
		{life.NodeNotReady, karpv1.ReasonNodeNotReady},
		{life.StartupTaintsExist, karpv1.ReasonStartupTaintsExist},
		{life.KnownEphemeralTaintsExist, karpv1.ReasonKnownEphemeralTaintsExist},
		{life.ResourceNotRegistered, karpv1.ReasonResourceNotRegistered},
		{life.DRADriverPoolsNotPublished, karpv1.ReasonDRADriverPoolsNotPublished},
		{string(life.Launched), karpv1.ConditionLaunched},
		{string(life.Registered), karpv1.ConditionRegistered},
		{string(life.Initialized), karpv1.ConditionInitialized},
	} {
		if pair[0] != pair[1] {
			t.Errorf("the engine says %s, the API %s", pair[0], pair[1])
		}
	}
}
