package state

import (
	"testing"
	"time"

	"karpenter/api/convert"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// TestA68_PoolsWithKubeletSettingsHaveTypesOfTheirOwn: what v1beta1 pools say of the kubelet decides how much room their instances
// have, for the pool and for its claims, and pools without are not touched by it.
func TestA68_PoolsWithKubeletSettingsHaveTypesOfTheirOwn(t *testing.T) {
	room := map[string]int64{"": 29, `{"maxPods":17}`: 17, `{"maxPods":18}`: 18}
	l := &lab{now: epoch}
	l.Mirror = NewMirror(MirrorOptions{Now: func() time.Time { return l.now }, Types: func(name string) ([]string, []*world.InstanceType, uint64, error) {
		class, kubelet := SplitClass(name)
		if class != "default" {
			return nil, nil, 1, nil
		}
		pods := world.Resources{4000, 1 << 34, room[kubelet], 1 << 34}
		return []string{"cpu", "memory", "pods", "ephemeral-storage"}, []*world.InstanceType{{Name: "large", Capacity: pods, Allocatable: pods}}, 1, nil
	}})
	pool := func(name, kubelet string) *v1.NodePool {
		p := &v1.NodePool{ObjectMeta: l.meta(name)}
		p.Namespace = ""
		if kubelet != "" {
			p.Annotations = map[string]string{convert.KubeletAnnotation: kubelet}
		}
		p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Name: "default"}
		return p
	}
	pods := func(name string) int64 {
		t.Helper()
		types := l.View().Pool(name).World.Types
		if len(types) != 1 {
			t.Fatalf("pool %s has %d types", name, len(types))
		}
		return types[0].Allocatable[world.PodSlot]
	}
	old, plain := pool("old", `{"maxPods":17}`), pool("plain", "")
	l.put(old, plain)
	if a, b := pods("old"), pods("plain"); a != 17 || b != 29 {
		t.Errorf("%d and %d pods, want 17 and 29", a, b)
	}
	l.put(again(l, old, func(p *v1.NodePool) { p.Annotations[convert.KubeletAnnotation] = `{"maxPods":18}` }))
	if a, b := pods("old"), pods("plain"); a != 18 || b != 29 {
		t.Errorf("after a change %d and %d pods, want 18 and 29", a, b)
	}
	claim := l.claim("c")
	claim.Annotations = map[string]string{convert.KubeletAnnotation: `{"maxPods":18}`}
	if got := claimClass(claim); got != ClassWith("default", `{"maxPods":18}`) {
		t.Errorf("the claim's class is %q", got)
	}
}
