package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	karpv1 "karpenter/api/karpenter/v1"
)

// idle makes a node that nothing is on one of a static pool.
func (f *fixture) idle() {
	static := f.pool.DeepCopy()
	static.Name, static.Spec.Replicas, static.Spec.Template.Labels = "fixed", new(int64(1)), nil
	f.items = slices.DeleteFunc(f.items, func(o any) bool {
		p, ok := o.(*corev1.Pod)
		return ok && p.Spec.NodeName == "ip-10-0-2-22.us-west-2.compute.internal"
	})
	for _, o := range f.items {
		if c, ok := o.(*karpv1.NodeClaim); ok && c.Status.NodeName == "ip-10-0-2-22.us-west-2.compute.internal" {
			c.Labels[karpv1.NodePoolLabelKey] = "fixed" // the node has the same map
			c.Annotations[karpv1.NodePoolHashAnnotationKey] = static.Hash()
		}
	}
	f.items = append(f.items, static)
}

// failedReplacements writes on the pool that its replacements have failed.
func (f *fixture) failedReplacements() {
	f.pool.UID, f.pool.Generation = "u-1", 3
	f.pool.Annotations = map[string]string{karpv1.FailedReplacementsAnnotationKey: fmt.Sprintf(
		"count=3 until=%s version=u-1/3/7 why=no node came up within 15m", noon.Add(40*time.Minute).Format(time.RFC3339))}
}

func TestPlanSaysWhatHoldsPodsAndPoolsBack(t *testing.T) {
	for _, x := range []struct {
		name    string
		prepare func(*fixture)
	}{
		{"static-pool", (*fixture).idle},
		{"held-pool", (*fixture).failedReplacements},
		{"held-lifted", (*fixture).failedReplacements},
		{"not-ready", func(f *fixture) {
			f.pool.StatusConditions().Set(karpv1.Condition{
				Type: karpv1.ConditionNodeClassReady, Status: metav1.ConditionFalse, Reason: "NodeClassNotReady", Message: "EC2NodeClass default finds no subnet",
			}, noon)
		}},
		{"limit-range", func(f *fixture) {
			f.add(`{apiVersion: v1, kind: LimitRange, metadata: {name: usual, namespace: default}, spec: {limits: [
				{type: Container, defaultRequest: {cpu: 900m}, default: {memory: 2Gi}}, {type: Pod, max: {memory: 8Gi}}]}}`)
			f.add(`{apiVersion: v1, kind: LimitRange, metadata: {name: other, namespace: elsewhere}, spec: {limits: [{type: Container, defaultRequest: {cpu: "7"}}]}}`)
		}},
		{"limit-range-refused", func(*fixture) {}},
		{"quota", func(f *fixture) {
			f.add(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: team, namespace: default}, spec: {hard: {requests.cpu: "8", pods: "50"}}}`)
			f.add(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: best, namespace: default}, spec: {hard: {pods: "1"}, scopes: [BestEffort]}}`)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFixture(t)
			x.prepare(f)
			out, err := whatIfOf(t, f, filepath.Join("testdata", "whatif", x.name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "whatif", x.name+".txt"), out)
		})
	}
}

// Without -f the pods that wait say why: the pool is held back by what stands on it.
func TestPlanOfPendingPodsKnowsHeldPools(t *testing.T) {
	f := newFixture(t)
	f.failedReplacements()
	f.pods("late", 1, "1500m", "1Gi", "")
	snapshot, catalog := f.write()
	out, _, err := execute(t, newPlan(atNoon), "--snapshot", snapshot, "--catalog", catalog, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var r planReport
	if err := yaml.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Nodes) != 0 || len(r.Pending) != 1 || r.Pending[0].Summary !=
		"pool general is held back: 3 of its replacements failed in a row, the last one because: no node came up within 15m; none is tried before 2026-08-01T12:40:00Z unless the pool or its class changes" {
		t.Errorf("it plans %s", out)
	}
}

// P103, P105: static pools have a table of their own, and what they launch takes pods.
func TestP103_PlanKnowsStaticPools(t *testing.T) {
	for _, x := range []struct {
		name string
		edit func(*karpv1.NodePool)
	}{
		{"static-grows", func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64(4)) }},
		{"static-at-limit", func(p *karpv1.NodePool) {
			p.Spec.Replicas, p.Spec.Limits = new(int64(4)), karpv1.Limits{karpv1.LimitsNodes: resource.MustParse("3")}
		}},
		{"static-shrinks", func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64(0)) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFixture(t)
			f.idle()
			for _, o := range f.items {
				if p, ok := o.(*karpv1.NodePool); ok && p.Name == "fixed" {
					x.edit(p)
				}
			}
			f.pods("late", 1, "1500m", "1Gi", "")
			snapshot, catalog := f.write()
			out, _, err := execute(t, newPlan(atNoon), "--snapshot", snapshot, "--catalog", catalog)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "plan", x.name+".txt"), timing.ReplaceAllString(out, "Planned in 0.0 ms"))
		})
	}
}

var timing = regexp.MustCompile(`Planned in [0-9.]+ ms`)
