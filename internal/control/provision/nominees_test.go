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

// TestPodsThatCanComeInAnyOrderAreNominated: those that must be even over zones, or follow others, are not.
func TestPodsThatCanComeInAnyOrderAreNominated(t *testing.T) {
	spread := func(key string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": key}
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			}}
		}
	}
	follows := func(p *corev1.Pod) {
		alone(p)
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"any":             {func(*corev1.Pod) {}, "a:c0 b:c0 c:c1 d:c2 e:c2"},
		"alone":           {alone, "a:c0 b:c0 c:c1 d:c2 e:c2"},
		"even over hosts": {spread(corev1.LabelHostname), "a:c0 b:c0 c:c1 d:c2 e:c2"},
		"even over zones": {spread(world.LabelZone), "a: b: c: d: e:"}, // no order is right
		"with others":     {follows, "a: b: c: d: e:"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(typesOf(twoZones, 8), newPool("nominees"))
			var claims []string
			for range 3 {
				c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", len(claims)), UID: types.UID(fmt.Sprintf("c%d", len(claims)))}}
				c.Status.ProviderID = c.Name
				s.Put(c)
				s.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-" + c.Name, UID: types.UID("n-" + c.Name)}, Spec: corev1.NodeSpec{ProviderID: c.Name}})
				claims = append(claims, c.Name)
			}
			expected := map[string]string{"pod-elsewhere": "in-flight"}
			for pod, place := range map[string]string{"a": "c0", "b": "c0", "c": "c1", "d": "c2", "e": "c2"} {
				s.put(newPod(pod, "1", test.change))
				expected["pod-"+pod] = place
			}
			s.put(newPod("elsewhere", "1", test.change))
			nominated := nominees(s.View(), expected, claims)
			var got []string
			for _, pod := range []string{"a", "b", "c", "d", "e"} {
				got = append(got, pod+":"+nominated[types.UID("pod-"+pod)])
			}
			if text := strings.Join(got, " "); text != test.want || nominated["pod-elsewhere"] != "" {
				t.Errorf("nominated %s, want %s", text, test.want)
			}
		})
	}
}
