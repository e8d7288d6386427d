package main

import "testing"

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
