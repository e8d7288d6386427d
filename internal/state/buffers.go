package state

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	"karpenter/internal/state/dump"
	"karpenter/internal/state/toworld"
)

// Shape is what a buffer keeps room for.
type Shape = toworld.Shape

// BufferReplicas is how many spare pods a buffer asks for; see toworld.BufferReplicas.
func BufferReplicas(b *bufferv1.CapacityBuffer, s Shape) (int32, error) {
	return toworld.BufferReplicas(b, s)
}

// BufferPod is the pod by which a mirror is shown the spare pods of a buffer.
func BufferPod(b *bufferv1.CapacityBuffer, template *corev1.PodTemplateSpec, replicas int32) *corev1.Pod {
	return toworld.BufferPod(b, template, replicas)
}

// SpareOf says which buffer, as namespace/name, such a pod stands for; "" of any other.
func SpareOf(p *corev1.Pod) string {
	buffer, _ := toworld.SpareOf(p)
	return buffer
}

// loadBuffers shows the spare pods of buffers that nobody has resolved: those of files, and of clusters that are read without the
// controller. What a workload's pods look like, and how many there are, is told by its pods. A buffer that stands in a recording as a
// pod is resolved already.
func (m *Mirror) loadBuffers(obj *dump.Objects) (problems []dump.Problem) {
	list := slices.Clone(obj.Buffers)
	slices.SortFunc(list, func(a, b *bufferv1.CapacityBuffer) int {
		return cmp.Or(strings.Compare(toworld.Space(a), toworld.Space(b)), strings.Compare(a.Name, b.Name))
	})
	resolved := map[string]bool{}
	for _, p := range obj.Pods {
		if buffer, _ := toworld.SpareOf(p); buffer != "" {
			resolved[buffer] = true
		}
	}
	for _, b := range list {
		name := toworld.FullName(toworld.Space(b), b.Name)
		if resolved[toworld.Space(b)+"/"+b.Name] || b.Strategy() != bufferv1.ActiveCapacity || b.DeletionTimestamp != nil {
			continue
		}
		shape, wrong := shapeOf(obj, b)
		if wrong != "" {
			problems = append(problems, dump.NewProblem("CapacityBuffer", name, "%s", wrong))
			continue
		}
		n, err := toworld.BufferReplicas(b, shape)
		if err != nil {
			problems = append(problems, dump.NewProblem("CapacityBuffer", name, "%s", err))
			continue
		}
		if n > 0 {
			m.putPod(toworld.BufferPod(b, shape.Template, n))
		}
	}
	return problems
}

// shapeOf finds what a buffer is about among objects, or says what is wrong.
func shapeOf(obj *dump.Objects, b *bufferv1.CapacityBuffer) (toworld.Shape, string) {
	space := toworld.Space(b)
	switch template, scalable := b.Spec.PodTemplateRef, b.Spec.ScalableRef; {
	case template != nil && scalable != nil:
		return toworld.Shape{}, "spec.podTemplateRef and spec.scalableRef cannot be used together: remove one of the two"
	case template != nil:
		for _, t := range obj.Templates {
			if t.Name == template.Name && toworld.Space(t) == space {
				return toworld.Shape{Template: &t.Template}, ""
			}
		}
		return toworld.Shape{}, "spec.podTemplateRef.name: there is no PodTemplate \"" + template.Name + "\" in namespace " + space
	case scalable != nil:
		var last *corev1.Pod
		count := int32(0)
		for _, p := range obj.Pods {
			if toworld.Space(p) != space || p.DeletionTimestamp != nil || terminal(p) || !madeBy(p, scalable) {
				continue
			}
			if count++; last == nil || last.CreationTimestamp.Before(&p.CreationTimestamp) {
				last = p
			}
		}
		if last == nil {
			return toworld.Shape{}, "spec.scalableRef: no pod of " + scalable.Kind + " " + scalable.Name + " was read that shows what its pods look like"
		}
		return toworld.Shape{Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: last.Labels}, Spec: last.Spec}, Scaled: &count}, ""
	}
	return toworld.Shape{}, "nothing says what room is kept for: set spec.podTemplateRef or spec.scalableRef"
}

// madeBy says whether a workload has made a pod, by itself or as a Deployment does.
func madeBy(p *corev1.Pod, ref *bufferv1.ScalableRef) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return false
	}
	hash := p.Labels["pod-template-hash"]
	return owner.Kind == ref.Kind && owner.Name == ref.Name || ref.Kind == "Deployment" && owner.Kind == "ReplicaSet" && hash != "" && owner.Name == ref.Name+"-"+hash
}
