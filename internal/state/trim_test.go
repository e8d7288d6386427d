package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state/toworld"
	"karpenter/internal/state/trim"
)

func trimmed[T Object](t testing.TB, obj T) T {
	t.Helper()
	out, err := trim.Object(obj.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	return out.(T)
}

func TestTrimPod(t *testing.T) {
	grace, always := int64(7), corev1.ContainerRestartPolicyAlways
	now := at(3)
	p := newFleet(1, 1, 0).pods[0]
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = &now, &grace, []string{"f"}
	p.Annotations[v1.DoNotDisruptAnnotationKey], p.Annotations[corev1.PodDeletionCost] = "true", "5"
	p.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	p.Spec.PriorityClassName = "system-cluster-critical"
	p.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "x", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: amounts("1", "1Gi")}}}
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}})
	p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: 80, ContainerPort: 8080})
	p.Status.NominatedNodeName = "n"
	got := trimmed(t, p)

	want := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion, CreationTimestamp: p.CreationTimestamp, DeletionTimestamp: &now,
		DeletionGracePeriodSeconds: &grace, Finalizers: []string{"f"}, Labels: p.Labels, OwnerReferences: p.OwnerReferences,
		Annotations: map[string]string{v1.DoNotDisruptAnnotationKey: "true", corev1.PodDeletionCost: "5"},
	}}
	want.Spec = corev1.PodSpec{
		NodeName: p.Spec.NodeName, Tolerations: p.Spec.Tolerations, TopologySpreadConstraints: p.Spec.TopologySpreadConstraints, Priority: p.Spec.Priority,
		PriorityClassName: "system-cluster-critical", TerminationGracePeriodSeconds: p.Spec.TerminationGracePeriodSeconds, SchedulerName: "default-scheduler",
		RestartPolicy: "Always", Volumes: p.Spec.Volumes[2:],
		Containers:     []corev1.Container{{Name: "main", Resources: p.Spec.Containers[0].Resources, Ports: []corev1.ContainerPort{{HostPort: 80, ContainerPort: 8080}}}},
		InitContainers: []corev1.Container{{Name: "side", RestartPolicy: &always, Resources: p.Spec.InitContainers[0].Resources}},
	}
	want.Status = corev1.PodStatus{Phase: p.Status.Phase, NominatedNodeName: "n", StartTime: p.Status.StartTime, Conditions: []corev1.PodCondition{p.Status.Conditions[2], p.Status.Conditions[4]}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if again := trimmed(t, got); !cmp.Equal(again, got) {
		t.Error("trimming twice is not trimming once")
	}
	other := trimmed(t, p)
	if &other.Spec.Containers[0] != &got.Spec.Containers[0] || &other.OwnerReferences[0] != &got.OwnerReferences[0] {
		t.Error("equal specs are not shared")
	}
}

func TestTrimKeepsResizes(t *testing.T) {
	p := newFleet(1, 1, 0).pods[0]
	if got := trimmed(t, p); len(got.Status.ContainerStatuses) != 0 {
		t.Errorf("a status that says what the spec says is kept: %v", got.Status.ContainerStatuses)
	}
	p.Status.ContainerStatuses[0].AllocatedResources = amounts("32", "1Gi")
	want := toworld.PodRequests(&p.Spec, &corev1.PodStatus{ContainerStatuses: p.Status.ContainerStatuses})
	got := trimmed(t, p)
	if have := toworld.PodRequests(&got.Spec, &corev1.PodStatus{ContainerStatuses: got.Status.ContainerStatuses}); !have.Cpu().Equal(*want.Cpu()) || have.Cpu().String() != "32" {
		t.Errorf("requests %v, want %v", have, want)
	}
}

func TestTrimOthers(t *testing.T) {
	n := newFleet(1, 0, 0).nodes[0]
	n.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	want := n.DeepCopy()
	want.ManagedFields, want.Status.Images = nil, nil
	delete(want.Annotations, corev1.LastAppliedConfigAnnotation)
	if diff := cmp.Diff(want, trimmed(t, n)); diff != "" {
		t.Error(diff)
	}
	d := &appsv1.DaemonSet{}
	d.Spec.Template.Spec = podSpec("x", "1", "1Gi")
	if c := trimmed(t, d).Spec.Template.Spec.Containers[0]; c.Image != "" || c.Resources.Requests.Cpu().String() != "1" {
		t.Errorf("container %v", c)
	}
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{ManagedFields: managed(1), Annotations: map[string]string{"a": "b"}}}
	if got := trimmed(t, pool); got.ManagedFields != nil || got.Annotations["a"] != "b" {
		t.Errorf("pool %v", got)
	}
	for _, odd := range []any{"text", nil, cache.DeletedFinalStateUnknown{}} {
		if got, err := trim.Object(odd); err != nil || got != odd {
			t.Errorf("%v becomes %v, %v", odd, got, err)
		}
	}
}

func TestTrimSharesWhatNodesAndClaimsHaveInCommon(t *testing.T) {
	f := newFleet(2, 0, 0)
	for i, c := range f.claims {
		c.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{{Key: "k", Operator: "In", Values: []string{"a", "b"}, MinValues: new(2)}}
		if diff := cmp.Diff(func() *v1.NodeClaim { want := c.DeepCopy(); want.ManagedFields = nil; return want }(), trimmed(t, c)); diff != "" {
			t.Errorf("claim %d: %s", i, diff)
		}
	}
	x, y := trimmed(t, f.claims[0]), trimmed(t, f.claims[1])
	if &x.Spec.Requirements[0] != &y.Spec.Requirements[0] {
		t.Error("equal requirements are not shared")
	}
	f.claims[1].Spec.Requirements[0].MinValues = nil
	if other := trimmed(t, f.claims[1]); other.Spec.Requirements[0].MinValues != nil {
		t.Error("requirements that differ are shared")
	}
	a, b := trimmed(t, f.nodes[0]), trimmed(t, f.nodes[1])
	a.Status.Capacity["marked"] = resource.MustParse("1")
	if _, shared := b.Status.Capacity["marked"]; !shared {
		t.Error("equal capacities are not shared")
	}
	if _, shared := b.Status.Allocatable["marked"]; shared {
		t.Error("capacities that differ are shared")
	}
	delete(a.Status.Capacity, "marked")
	if a.Labels[corev1.LabelHostname] != "node-0" || b.Labels[corev1.LabelHostname] != "node-1" {
		t.Error("labels are mixed up")
	}
}

// TestTrimChangesNoView feeds two mirrors, one with what is left of the objects.
func TestTrimChangesNoView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{t: t, live: map[string]Object{}}
		whole, rest := NewMirror(benchOptions()), NewMirror(benchOptions())
		for range rapid.IntRange(1, 30).Draw(t, "objects") {
			kind := kinds[h.pick("kind", len(kinds))]
			key := fmt.Sprintf("%s/%d", kind, h.pick("name", 5))
			h.live[key] = h.object(kind, key)
		}
		for _, key := range slices.Sorted(maps.Keys(h.live)) {
			whole.Put(h.live[key])
			cut, _ := trim.Object(h.live[key].DeepCopyObject())
			rest.Put(cut.(Object))
		}
		if diff := cmp.Diff(tell(whole.View()), tell(rest.View())); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestMirrorIsSafeForConcurrentUse is for the race detector.
func TestMirrorIsSafeForConcurrentUse(t *testing.T) {
	m, f := NewMirror(MirrorOptions{Types: sampleTypes, Now: time.Now}), newFleet(20, 5, 20)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 50 {
				for k := w; k < len(f.pods); k += 4 {
					p := trimmed(t, f.pods[k])
					p.ResourceVersion = fmt.Sprint(1000 + i)
					m.Put(p)
				}
				m.Put(f.nodes[(w*50+i)%20])
				m.Assume(f.claims[i%20])
				m.Leaving(f.claims[i%20].Name)
				v := m.View()
				v.Usage("general")
				for _, n := range v.Nodes {
					n.World.Load(v.World.Classes)
				}
				for _, p := range f.pods {
					v.Pod(p.UID)
				}
			}
		}()
	}
	wg.Wait()
}

// FuzzMirror feeds whatever can be read as an object, trims it, takes some of it away again and must not panic.
func FuzzMirror(f *testing.F) {
	f.Add(list(pod("a", `{"nodeName":"n","containers":[{"resources":{"requests":{"cpu":"1"}}}],"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]}`),
		`{"kind":"Node","metadata":{"name":"n","labels":{"karpenter.sh/nodepool":"p"}},"spec":{"providerID":"x"}}`,
		`{"kind":"NodeClaim","metadata":{"name":"c"},"spec":{"requirements":[{"key":"k","operator":"In","values":["a"]}]},"status":{"providerID":"x","nodeName":"n"}}`), uint8(1))
	f.Add(list(`{"kind":"NodePool","metadata":{"name":"p"},"spec":{"limits":{"cpu":"1"}}}`, `{"kind":"Pod"}`, `{"kind":"NodeClaim"}`), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, taken uint8) {
		var doc struct {
			Items []json.RawMessage `json:"items"`
		}
		if json.Unmarshal(data, &doc) != nil {
			return
		}
		m := NewMirror(benchOptions())
		for i, raw := range doc.Items {
			obj := decodeKind(raw)
			if obj == nil {
				continue
			}
			if i%2 == 0 {
				if _, err := trim.Object(obj); err != nil {
					t.Fatal(err)
				}
			}
			m.Put(obj)
			if claim, ok := obj.(*v1.NodeClaim); ok {
				m.Leaving(claim.Name)
				m.Assume(claim)
			}
			if i%3 == int(taken%3) {
				tell(m.View())
				m.Drop(obj)
			}
		}
		tell(m.View())
	})
}

func decodeKind(raw []byte) Object {
	var head struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return nil
	}
	obj, ok := map[string]Object{"Pod": &corev1.Pod{}, "Node": &corev1.Node{}, "NodeClaim": &v1.NodeClaim{}, "NodePool": &v1.NodePool{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaim{}}[head.Kind]
	if !ok || json.Unmarshal(raw, obj) != nil {
		return nil
	}
	return obj
}
