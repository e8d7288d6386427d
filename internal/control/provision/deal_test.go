package provision

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// TestPodsAreDealtInTheSchedulersOrder: of pods that are alike, those that the scheduler comes to first are for one zone after the other,
// and then for one node after the other, whichever the plan gave which place.
func TestPodsAreDealtInTheSchedulersOrder(t *testing.T) {
	s := newShelf(typesOf(twoZones, 8), newPool("deals"))
	var claims []string
	for _, zone := range []string{"a", "a", "b"} { // nodes 0 and 1 in zone a, 2 in zone b
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", len(claims)), UID: types.UID(fmt.Sprintf("c%d", len(claims)))}}
		c.Status.ProviderID = c.Name
		s.Put(c)
		s.Put(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n-" + c.Name, UID: types.UID("n-" + c.Name), Labels: map[string]string{world.LabelZone: zone}},
			Spec:       corev1.NodeSpec{ProviderID: c.Name},
		})
		claims = append(claims, c.Name)
	}
	web := func(version int) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.ResourceVersion = fmt.Sprint(version) }
	}
	// One runs in zone a already. The scheduler comes to e first and to a last; big is another class, between them.
	s.Put(newPod("old", "1", web(1), func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status = "n-c0", corev1.PodStatus{Phase: corev1.PodRunning}
	}))
	expected := map[string]string{}
	for name, place := range map[string]string{"a": "c0", "b": "c0", "c": "c1", "d": "c2", "e": "c2"} {
		s.put(newPod(name, "1", web(10*int('f'-name[0]))))
		expected["pod-"+name] = place
	}
	s.put(newPod("big", "3", web(5)), newPod("elsewhere", "1", web(0)))
	expected["pod-big"], expected["pod-elsewhere"] = "c1", "in-flight"
	dealt, order := deal(s.View(), expected, claims)
	var got []string
	for _, name := range []string{"big", "e", "d", "c", "b", "a", "elsewhere"} {
		got = append(got, name+":"+dealt[types.UID("pod-"+name)])
	}
	if text := strings.Join(got, " "); text != "big:c1 e:c2 d:c1 c:c2 b:c0 a:c0 elsewhere:" {
		t.Errorf("dealt %s", text)
	}
	if text := strings.Join(order, " "); text != "c1 c2 c0" {
		t.Errorf("in the order %s", text)
	}
}
