package main

import (
	"reflect"
	"testing"
)

// A workload must be the same for everybody who names its seed, and another one for another seed.
func TestWorkloadsAreDrawnFromTheSeed(t *testing.T) {
	if !reflect.DeepEqual(workloads(1, 1), workloads(1, 1)) {
		t.Error("the same seed gives two sets of workloads")
	}
	for i, w := range workloads(1, 1) {
		if reflect.DeepEqual(w.shapes, workloads(2, 1)[i].shapes) {
			t.Errorf("%s is the same for two seeds", w.name)
		}
	}
}

func TestWorkloadsHaveTheirSize(t *testing.T) {
	want := map[string][]int{barWide: {1000, 700}, barBasic: {1000, 700}, barHostSpread: {1000, 700}, barInterference: {500, 750, 600}}
	for seed := range uint64(20) {
		for _, w := range workloads(seed, 1) {
			if len(w.phases) != len(want[w.name]) || len(bars[w.name].out)+1 != len(w.phases) {
				t.Fatalf("%s has %d phases", w.name, len(w.phases))
			}
			for i, p := range w.phases {
				// Seventy of a hundred are rounded for each Deployment.
				if n := p.pods() - want[w.name][i]; n < -15 || n > 15 || n != 0 && w.name != barWide {
					t.Errorf("seed %d: %s %s has %d pods; want %d", seed, w.name, p.name, p.pods(), want[w.name][i])
				}
			}
			for _, s := range w.shapes {
				if s.milliCPU < 199 || s.milliCPU > 4000 || s.mib < 300 || s.mib > 64<<10 {
					t.Errorf("seed %d: %s has pods of %dm and %d MiB", seed, s.name, s.milliCPU, s.mib)
				}
			}
		}
	}
}

// A plan from scratch must not know any node of a pool, nor where pods ran.
func TestEmptied(t *testing.T) {
	pod := func(namespace, owner string) map[string]any {
		return map[string]any{
			"kind":     "Pod",
			"metadata": map[string]any{"namespace": namespace, "ownerReferences": []any{map[string]any{"kind": owner}}},
			"spec":     map[string]any{"nodeName": "a"}, "status": map[string]any{"phase": "Running"},
		}
	}
	workload := pod("default", "ReplicaSet")
	for _, c := range []struct {
		name   string
		object map[string]any
		stays  bool
	}{
		{"a workload's pod", workload, true},
		{"a daemon's pod", pod("kube-system", "DaemonSet"), false},
		{"a pod of the system", pod("kube-system", "ReplicaSet"), true},
		{"a claim", map[string]any{"kind": "NodeClaim"}, false},
		{"a pool", map[string]any{"kind": "NodePool"}, true},
		{"a pool's node", map[string]any{"kind": "Node", "metadata": map[string]any{"labels": map[string]any{"karpenter.sh/nodepool": "live"}}}, false},
		{"the system's node", map[string]any{"kind": "Node", "metadata": map[string]any{}}, true},
	} {
		if got := stays(c.object); got != c.stays {
			t.Errorf("%s stays: %v; want %v", c.name, got, c.stays)
		}
	}
	if spec := workload["spec"].(map[string]any); spec["nodeName"] != nil {
		t.Error("a workload's pod is still on its node")
	}
}
