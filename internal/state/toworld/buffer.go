package toworld

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// MaxSparePods bounds the spare pods of one buffer: what a decision that takes a second can reckon with. Whoever may create a buffer in
// a namespace must not be able to stop the controller with it.
const MaxSparePods = 10_000

// Shape is what a buffer keeps room for: pods of a template. Scaled is how many pods the workload has that the template is of; nil for a
// PodTemplate.
type Shape struct {
	Template *corev1.PodTemplateSpec
	Scaled   *int32
}

// BufferReplicas is how many spare pods a buffer asks for (A50, P110): the larger of spec.replicas and spec.percentage of the workload,
// rounded up and at least one, and no more than spec.limits allow all of them to request.
func BufferReplicas(b *bufferv1.CapacityBuffer, s Shape) (int32, error) {
	var n int64
	given := b.Spec.Replicas != nil
	if given {
		n = int64(*b.Spec.Replicas)
	}
	if b.Spec.Percentage != nil && s.Scaled != nil {
		share := (int64(*s.Scaled)*int64(*b.Spec.Percentage) + 99) / 100
		n, given = max(n, share, 1), true
	}
	most, limited := fitting(b.Spec.Limits, PodRequests(&s.Template.Spec, &corev1.PodStatus{}))
	switch {
	case limited && given:
		n = min(n, most)
	case limited:
		n = most
	case !given && len(b.Spec.Limits) > 0:
		return 0, fmt.Errorf("spec.limits bounds %s, of which the pods request nothing, so that it says nothing about how many: add spec.replicas, or requests for it to the template",
			strings.Join(limitNames(b), ", "))
	case !given:
		return 0, errors.New("nothing says how many pods room is kept for: set spec.replicas, spec.limits, or with spec.scalableRef spec.percentage")
	}
	return int32(min(n, MaxSparePods)), nil
}

func limitNames(b *bufferv1.CapacityBuffer) (out []string) {
	for name := range b.Spec.Limits {
		out = append(out, string(name))
	}
	slices.Sort(out)
	return out
}

// fitting is how many pods fit into limits, by the resources that are both limited and requested; limited is false if there is none.
func fitting(limits, requests corev1.ResourceList) (n int64, limited bool) {
	for name, limit := range limits {
		request, ok := requests[name]
		each := Units(string(name), request)
		if !ok || each <= 0 {
			continue
		}
		if fit := max(0, Units(string(name), limit)/each); !limited || fit < n {
			n, limited = fit, true
		}
	}
	return n, limited
}

// bufferUID begins the UIDs of pods that stand for a buffer. The API server never gives such UIDs, so that no pod of a user is taken
// for one.
const bufferUID = "capacity-buffer/"

// BufferPod is a pod that stands for the spare pods of a buffer. It is never written to a cluster: the mirror is given one for each
// buffer, and recordings hold it. What ties a pod to a node or to a volume is left out (P111).
func BufferPod(b *bufferv1.CapacityBuffer, template *corev1.PodTemplateSpec, replicas int32) *corev1.Pod {
	spec := template.Spec.DeepCopy()
	spec.NodeName, spec.SchedulingGates, spec.PriorityClassName = "", nil, ""
	spec.Priority = new(int32(world.SparePriority))
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Space(b), Name: bufferUID + b.Name, UID: types.UID(bufferUID + Space(b) + "/" + b.Name), Labels: maps.Clone(template.Labels),
			Annotations: map[string]string{
				v1.BufferPodAnnotationKey: "true", v1.BufferNameAnnotationKey: b.Name, v1.BufferNamespaceAnnotationKey: Space(b),
				v1.BufferReplicasAnnotationKey: strconv.Itoa(int(replicas)),
			},
		},
		Spec: *spec,
	}
}

// SpareOf says which buffer, as namespace/name, a pod of BufferPod stands for, and for how many spare pods. Of any other pod the name
// is empty.
func SpareOf(p *corev1.Pod) (buffer string, pods int) {
	if !strings.HasPrefix(string(p.UID), bufferUID) || p.Annotations[v1.BufferPodAnnotationKey] == "" {
		return "", 0
	}
	n, _ := strconv.Atoi(p.Annotations[v1.BufferReplicasAnnotationKey])
	return p.Annotations[v1.BufferNamespaceAnnotationKey] + "/" + p.Annotations[v1.BufferNameAnnotationKey], min(max(n, 0), MaxSparePods)
}

// Imagined says whether a pod is no pod of the cluster but an example of pods that there may be.
func Imagined(p *corev1.Pod) bool {
	_, example := p.Annotations[v1.ExamplePodAnnotationKey]
	buffer, _ := SpareOf(p)
	return example || buffer != ""
}

// SparePods are the spare pods of a buffer.
func SparePods(buffer string, class int32, n int) []*world.Pod {
	_, name, _ := strings.Cut(buffer, "/")
	out := make([]*world.Pod, n)
	for k := range out {
		number := strconv.Itoa(k)
		out[k] = &world.Pod{
			Name: name + "-spare-" + number, UID: bufferUID + buffer + "/" + number, Class: class, Created: int64(k), Spare: true, Movable: true,
		}
	}
	return out
}
