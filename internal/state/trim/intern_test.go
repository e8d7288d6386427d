package trim

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestRecentIsBounded(t *testing.T) {
	n := newInterner()
	asking := func(cpu string) *corev1.PodSpec {
		requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		return &corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Resources: corev1.ResourceRequirements{Requests: requests}}}}
	}
	for i := range 3 * commonSize {
		n.spec(asking(fmt.Sprintf("%dm", i)))
		n.labels(map[string]string{"a": fmt.Sprint(i)})
	}
	if len(n.specs.young)+len(n.specs.old) > 2*commonSize || len(n.maps.young)+len(n.maps.old) > 2*commonSize {
		t.Errorf("%d specs are remembered", len(n.specs.young)+len(n.specs.old))
	}
	if got := n.spec(asking("1m")); !got.Containers[0].Resources.Requests.Cpu().Equal(resource.MustParse("1m")) {
		t.Error("another spec is returned")
	}
}
