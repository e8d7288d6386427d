package disruption

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control/pool"
	"karpenter/internal/engine/world"
	"karpenter/internal/meter"
)

// condition is one condition of a claim as "Status/Reason".
func (b *bench) condition(name, condition string) string {
	b.Helper()
	c := b.claim(name).StatusConditions().Get(condition)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}

func TestD24_ConsolidatableFollowsPodEvents(t *testing.T) {
	b := newBench(t)
	p := b.pool("general", whenEmpty)
	b.instance("node", "general", "m5.large")
	quiet := &Quiet{Client: b.client, Class: class, Clock: b.clock}
	left := b.run(quiet, "node")
	if left <= 0 || left > 30*time.Second || b.condition("node", karpv1.ConditionConsolidatable) != "" {
		t.Errorf("again in %s, %q", left, b.condition("node", karpv1.ConditionConsolidatable))
	}
	b.clock.Step(left)
	if after := b.run(quiet, "node"); after != 0 || b.condition("node", karpv1.ConditionConsolidatable) != "True/Consolidatable" {
		t.Errorf("at the moment of expiry: again in %s, %q", after, b.condition("node", karpv1.ConditionConsolidatable))
	}
	b.clock.Step(10 * time.Second)
	c := b.claim("node")
	c.Status.LastPodEventTime = metav1.NewTime(b.clock.Now().Truncate(time.Second))
	b.must(b.client.WithWatch.Status().Update(t.Context(), c))
	if after := b.run(quiet, "node"); after <= 29*time.Second || b.condition("node", karpv1.ConditionConsolidatable) != "" {
		t.Errorf("after a pod event: again in %s, %q", after, b.condition("node", karpv1.ConditionConsolidatable))
	}
	b.clock.Step(time.Minute)
	b.run(quiet, "node")
	p.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration()
	b.must(b.client.Update(t.Context(), p))
	if after := b.run(quiet, "node"); after != 0 || b.condition("node", karpv1.ConditionConsolidatable) != "" {
		t.Errorf("when disabled: again in %s, %q", after, b.condition("node", karpv1.ConditionConsolidatable))
	}
}

// judgeStub is a cloud that says what it is told to.
type judgeStub struct {
	reason string
	err    error
	asked  int
}

func (j *judgeStub) Drifted(context.Context, *karpv1.NodeClaim) (string, error) {
	j.asked++
	return j.reason, j.err
}

func (b *bench) drift(j Judge) *Drift {
	return &Drift{
		Client: b.client, Judge: j, Types: b.world.Provider.Types, Class: class, ClassObject: &awsv1.EC2NodeClass{}, Rules: awsv1.LabelRules(),
		Clock: b.clock, Meter: b.meter, Log: slog.New(slog.DiscardHandler),
	}
}

func TestD43_DriftIsFoundAndForgotten(t *testing.T) {
	b := newBench(t)
	p := b.pool("general")
	hash := &pool.Hash{Client: b.client, Class: awsv1.EC2NodeClassGroupKind}
	b.run(hash, "general")
	b.must(b.client.Get(t.Context(), clientKey("general"), p))
	b.instance("node", "general", "m5.large", func(c *karpv1.NodeClaim) {
		c.Annotations = map[string]string{
			karpv1.NodePoolHashAnnotationKey:        p.Annotations[karpv1.NodePoolHashAnnotationKey],
			karpv1.NodePoolHashVersionAnnotationKey: p.Annotations[karpv1.NodePoolHashVersionAnnotationKey],
		}
	})
	stub := &judgeStub{}
	r := b.drift(stub)
	is := func(want, when string) {
		t.Helper()
		if got := b.condition("node", karpv1.ConditionDrifted); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	if after := b.run(r, "node"); after != judgeEvery {
		t.Errorf("again in %s", after)
	}
	is("", "as made")

	stub.reason = awsv1.ReasonAMIDrift
	b.run(r, "node")
	is("True/AMIDrift", "D47 by the provider")
	since := b.claim("node").StatusConditions().Get(karpv1.ConditionDrifted).LastTransitionTime

	stub.reason, stub.err = "", errors.New("the cloud does not answer")
	if _, err := r.Reconcile(t.Context(), request("node")); err == nil {
		t.Error("no error")
	}
	is("True/AMIDrift", "an error clears nothing")
	stub.err = &cloud.Error{Class: cloud.NotFound, Op: "test"}
	b.run(r, "node")
	is("True/AMIDrift", "a missing instance clears nothing")
	stub.err = nil

	p.Spec.Template.Spec.Taints = []karpv1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
	b.must(b.client.Update(t.Context(), p))
	b.run(hash, "general")
	b.clock.Step(time.Minute)
	asked := stub.asked
	b.run(r, "node")
	is("True/NodePoolDrifted", "D44 another template")
	if stub.asked != asked {
		t.Error("D47: the cloud was asked although the objects say it")
	}
	if now := b.claim("node").StatusConditions().Get(karpv1.ConditionDrifted).LastTransitionTime; !now.Equal(&since) {
		t.Errorf("drifted since %s, then since %s", since, now)
	}
	c := b.claim("node")
	c.Annotations[karpv1.NodePoolHashVersionAnnotationKey] = "v0"
	b.must(b.client.Update(t.Context(), c))
	b.run(r, "node")
	is("", "D49 hashes of different kinds")

	b.must(b.client.Get(t.Context(), clientKey("general"), p))
	p.Spec.Template.Spec.Requirements[1].Values = []string{"c5"}
	b.must(b.client.Update(t.Context(), p))
	b.run(r, "node")
	is("True/RequirementsDrifted", "D45 another family")
	p.Spec.Template.Spec.Requirements[1].Values = []string{"c5", "m5"}
	b.must(b.client.Update(t.Context(), p))
	b.run(r, "node")
	is("", "D45 a wider choice")
	if got := b.counted(meter.NodeClaimsDrifted, "nodepool", "general"); got != 2 {
		t.Errorf("%v claims were counted as drifted, want 2", got)
	}
}

func TestD46_TypesThatAreGone(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.instance("node", "general", "m5.large")
	r := b.drift(&judgeStub{})
	all, err := b.world.Provider.Types("default")
	b.must(err)
	calls, list := 0, all.List
	r.Types = func(string) (*cloud.Types, error) {
		calls++
		return &cloud.Types{List: list}, nil
	}
	without := func() (out []*world.InstanceType) {
		for _, x := range all.List {
			if x.Name != "m5.large" {
				out = append(out, x)
			}
		}
		return out
	}
	list = without()
	b.run(r, "node")
	if calls != 0 || b.condition("node", karpv1.ConditionDrifted) != "" {
		t.Errorf("a young claim was searched for %d times, %s", calls, b.condition("node", karpv1.ConditionDrifted))
	}
	b.clock.Step(typesFrom)
	list = nil
	if b.run(r, "node"); b.condition("node", karpv1.ConditionDrifted) != "" {
		t.Error("an empty list is no proof")
	}
	list = without()
	b.run(r, "node")
	b.run(r, "node")
	if got := b.condition("node", karpv1.ConditionDrifted); calls != 2 || got != "True/InstanceTypeNotFound" {
		t.Errorf("%d searches, %s", calls, got)
	}
	list = all.List
	b.clock.Step(typesEvery)
	b.run(r, "node")
	if got := b.condition("node", karpv1.ConditionDrifted); calls != 3 || got != "" {
		t.Errorf("%d searches, %s", calls, got)
	}
}

func TestD46_ReservedInstancesAreOfTheirType(t *testing.T) {
	types := []*world.InstanceType{{Name: "m5.large", Offerings: []world.Offering{{Zone: "a", CapacityType: "on-demand"}, {Zone: "b", CapacityType: "spot"}}}}
	for _, c := range []struct {
		typ, zone, capacityType string
		gone                    bool
	}{
		{"m5.large", "a", "on-demand", false},
		{"m5.large", "a", "reserved", false},
		{"m5.large", "b", "spot", false},
		{"m5.large", "b", "on-demand", true},
		{"m5.large", "c", "spot", true},
		{"m4.large", "a", "on-demand", true},
		{"", "a", "on-demand", true},
	} {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			corev1.LabelInstanceTypeStable: c.typ, corev1.LabelTopologyZone: c.zone, karpv1.CapacityTypeLabelKey: c.capacityType,
		}}}
		if got := missingType(claim, types); (got != "") != c.gone {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestD45_Requirements(t *testing.T) {
	labels := map[string]string{"family": "m5", "beta.kubernetes.io/arch": "amd64", "cpu": "4"}
	for _, c := range []struct {
		key    string
		op     corev1.NodeSelectorOperator
		values []string
		drifts bool
	}{
		{"family", "In", []string{"m5", "c5"}, false},
		{"family", "In", []string{"c5"}, true},
		{"family", "NotIn", []string{"m5"}, true},
		{"family", "Exists", nil, false},
		{"family", "DoesNotExist", nil, true},
		{"cpu", "Gt", []string{"3"}, false},
		{"cpu", "Lt", []string{"3"}, true},
		{"missing", "In", []string{"x"}, true},
		{"missing", "Exists", nil, true},
		{"missing", "Gt", []string{"1"}, true},
		{"missing", "NotIn", []string{"x"}, false},
		{"missing", "DoesNotExist", nil, false},
		{"kubernetes.io/arch", "In", []string{"amd64"}, false},
	} {
		p := &karpv1.NodePool{}
		p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: c.key, Operator: c.op, Values: c.values}}
		f, err := requirementsDrift(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: labels}}, p, karpv1.CoreLabelRules())
		if err != nil || (f.reason != "") != c.drifts {
			t.Errorf("%s %s %v: %+v, %v", c.key, c.op, c.values, f, err)
		}
		if c.drifts && !strings.Contains(f.message, c.key) {
			t.Errorf("message %q", f.message)
		}
	}
}

func TestD48_AnotherImageReplacesNodes(t *testing.T) {
	b := newBench(t)
	b.pool("general", func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration() })
	b.instance("old", "general", "m5.large")
	b.pod("old", "1")
	r := b.drift(b.world.Provider)
	if b.run(r, "old"); b.condition("old", karpv1.ConditionDrifted) != "" {
		t.Fatal("drifted from the start")
	}
	other := b.world.AddClass("other", func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest" })
	changed := b.world.AddClass("default")
	changed.Status.AMIs = other.Status.AMIs
	b.world.SetClass(changed)
	b.run(r, "old")
	if got := b.condition("old", karpv1.ConditionDrifted); got != "True/AMIDrift" {
		t.Fatalf("got %s", got)
	}
	b.clock.Step(time.Minute)
	b.pass()
	made := b.made()
	if len(made) != 1 || b.going("old") {
		t.Fatalf("%d replacements, old going %v", len(made), b.going("old"))
	}
	b.launch(made[0].Name)
	b.join(made[0].Name)
	if b.run(r, made[0].Name); b.condition(made[0].Name, karpv1.ConditionDrifted) != "" {
		t.Error("T15: the replacement has drifted")
	}
	b.pass()
	b.drain()
	b.pass()
	if left := b.claims(); len(left) != 1 || left[0].Name != made[0].Name {
		t.Errorf("%d claims are left", len(left))
	}
	labels := []string{"reason", "drifted", "consolidation_policy", ""} // which is of consolidation alone
	if claims, pods := b.counted(meter.NodeClaimsDisrupted, labels...), b.counted(meter.PodsDisruptionInitiated, labels...); claims != 1 || pods != 1 {
		t.Errorf("O3, O4: %v claims, %v pods", claims, pods)
	}
}
