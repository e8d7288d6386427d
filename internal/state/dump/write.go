package dump

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/state/toworld"
	"karpenter/internal/state/trim"
)

// object is any object of the API.
type object interface {
	metav1.Object
	runtime.Object
}

// Write writes objects as kubectl prints them: what Read reads. It leaves out what decisions do not read: environment, commands, images,
// and annotations of others on pods.
func (o *Objects) Write(w io.Writer) error {
	out := &listWriter{w: bufio.NewWriterSize(w, 1<<16), specs: map[*corev1.Container]*writtenSpec{}}
	out.text(`{"apiVersion":"v1","kind":"List","items":[`)
	writeItems(out, "v1", "Namespace", o.Namespaces)
	writeItems(out, "karpenter.sh/v1", "NodePool", o.Pools)
	writeItems(out, "karpenter.sh/v1alpha1", "NodeOverlay", o.Overlays)
	writeItems(out, "karpenter.sh/v1", "NodeClaim", o.Claims)
	writeItems(out, "v1", "Node", o.Nodes)
	writeItems(out, "v1", "Pod", o.Pods)
	writeItems(out, "apps/v1", "DaemonSet", o.DaemonSets)
	writeItems(out, "policy/v1", "PodDisruptionBudget", o.Budgets)
	writeItems(out, "v1", "PersistentVolume", o.Volumes)
	writeItems(out, "v1", "PersistentVolumeClaim", o.VolumeUses)
	writeItems(out, "storage.k8s.io/v1", "StorageClass", o.Storage)
	writeItems(out, "storage.k8s.io/v1", "CSINode", o.CSINodes)
	writeItems(out, "v1", "Service", o.Services)
	writeItems(out, "v1", "ReplicationController", o.Controllers)
	writeItems(out, "apps/v1", "ReplicaSet", o.ReplicaSets)
	writeItems(out, "apps/v1", "StatefulSet", o.StatefulSet)
	writeItems(out, "autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", o.Buffers)
	writeItems(out, "v1", "PodTemplate", o.Templates)
	out.text("]}")
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return fmt.Errorf("write objects: %w", out.err)
	}
	return nil
}

// listWriter writes text until something goes wrong.
type listWriter struct {
	w     *bufio.Writer
	items int
	err   error
	specs map[*corev1.Container]*writtenSpec
}

// writtenSpec is a pod spec with what was written for it, without node and volumes, which differ between pods of one template.
type writtenSpec struct {
	spec corev1.PodSpec
	text []byte
}

func (w *listWriter) marshal(obj object) ([]byte, error) {
	if p, ok := obj.(*corev1.Pod); ok {
		return w.pod(p)
	}
	return json.Marshal(plain(obj))
}

// pod writes a pod. Most have the spec of others, which is then not written anew.
func (w *listWriter) pod(p *corev1.Pod) ([]byte, error) {
	doc := struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     json.RawMessage   `json:"spec"`
		Status   corev1.PodStatus  `json:"status"`
	}{Metadata: plainMeta(p), Status: plainStatus(p)}
	var err error
	if doc.Spec, err = w.spec(&p.Spec); err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

func (w *listWriter) spec(s *corev1.PodSpec) ([]byte, error) {
	trimmed := trim.Spec(s)
	if len(s.Containers) == 0 || len(trimmed.Volumes) > 0 {
		return json.Marshal(trimmed)
	}
	trimmed.NodeName = ""
	written := w.specs[&s.Containers[0]]
	if written == nil || !trim.SameSpec(&written.spec, s) || !sameRest(&written.spec, s) {
		text, err := json.Marshal(trimmed)
		if err != nil {
			return nil, err
		}
		written = &writtenSpec{*s, text}
		w.specs[&s.Containers[0]] = written
	}
	if s.NodeName == "" {
		return written.text, nil
	}
	node, err := json.Marshal(s.NodeName)
	return slices.Concat([]byte(nodeFirst), node, []byte(","), written.text[1:]), err
}

// nodeFirst begins specs of bound pods, so that whoever reads them sees which are equal but for the node.
const nodeFirst = `{"nodeName":`

// sameRest compares what sameSpec leaves out, of what is written.
func sameRest(a, b *corev1.PodSpec) bool {
	return a.PriorityClassName == b.PriorityClassName && a.PreemptionPolicy == b.PreemptionPolicy && a.SchedulerName == b.SchedulerName &&
		trim.SameSlice(a.SchedulingGates, b.SchedulingGates) && a.TerminationGracePeriodSeconds == b.TerminationGracePeriodSeconds &&
		a.ActiveDeadlineSeconds == b.ActiveDeadlineSeconds && a.RestartPolicy == b.RestartPolicy && a.RuntimeClassName == b.RuntimeClassName
}

func (w *listWriter) text(s string) {
	if w.err == nil {
		_, w.err = w.w.WriteString(s)
	}
}

func writeItems[T object](w *listWriter, version, kind string, list []T) {
	for _, obj := range list {
		if w.err != nil {
			return
		}
		data, err := w.marshal(obj)
		if err != nil {
			w.err = fmt.Errorf("%s %s: %w", kind, toworld.FullName(obj.GetNamespace(), obj.GetName()), err)
			return
		}
		if w.items++; w.items > 1 {
			w.text(",")
		}
		w.text("\n" + `{"kind":"` + kind + `","apiVersion":"` + version + `",`)
		w.text(string(data[1:])) // what is after its brace: an object has metadata at least
	}
}

// plain is a copy of the object without what decisions do not read and others need not see.
func plain(obj object) any {
	switch o := obj.(type) {
	case *corev1.Node:
		c := *o
		c.Status.Images, c.Status.VolumesInUse, c.Status.VolumesAttached = nil, nil, nil
		return bare(&c)
	case *appsv1.DaemonSet:
		c := *o
		c.Spec.Template.Spec, c.Status = trim.Spec(&o.Spec.Template.Spec), appsv1.DaemonSetStatus{}
		return bare(&c)
	case *corev1.PersistentVolume:
		c := *o
		c.Spec = plainVolume(&o.Spec)
		return bare(&c)
	case *v1.NodeClaim:
		c := *o
		return bare(&c)
	case *v1.NodePool:
		c := *o
		return bare(&c)
	case *v1alpha1.NodeOverlay:
		c := *o
		return bare(&c)
	case *policyv1.PodDisruptionBudget:
		c := *o
		return bare(&c)
	case *corev1.PersistentVolumeClaim:
		c := *o
		return bare(&c)
	case *storagev1.StorageClass:
		c := *o
		c.Parameters = nil
		return bare(&c)
	case *storagev1.CSINode:
		c := *o
		return bare(&c)
	case *corev1.Namespace:
		c := *o
		return bare(&c)
	}
	return obj
}

// bare drops kind, which is written apart, and what other programs leave on objects for themselves.
func bare[T object](o T) T {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	o.SetManagedFields(nil)
	trim.DropManifest(o)
	return o
}

func plainMeta(p *corev1.Pod) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Labels, Annotations: trim.Annotations(p.Annotations),
		CreationTimestamp: p.CreationTimestamp, DeletionTimestamp: p.DeletionTimestamp, DeletionGracePeriodSeconds: p.DeletionGracePeriodSeconds,
		OwnerReferences: p.OwnerReferences,
	}
}

func plainStatus(p *corev1.Pod) corev1.PodStatus {
	given := trim.Given(p)
	given.Phase, given.NominatedNodeName, given.StartTime = p.Status.Phase, p.Status.NominatedNodeName, p.Status.StartTime
	given.Conditions = trim.Conditions(p.Status.Conditions)
	return given
}

// plainVolume keeps where a volume can be used and which driver attaches it.
func plainVolume(s *corev1.PersistentVolumeSpec) corev1.PersistentVolumeSpec {
	out := corev1.PersistentVolumeSpec{
		Capacity: s.Capacity, AccessModes: s.AccessModes, ClaimRef: s.ClaimRef, StorageClassName: s.StorageClassName, VolumeMode: s.VolumeMode, NodeAffinity: s.NodeAffinity,
	}
	if s.CSI != nil {
		out.CSI = &corev1.CSIPersistentVolumeSource{Driver: s.CSI.Driver, VolumeHandle: s.CSI.VolumeHandle}
	}
	out.AWSElasticBlockStore, out.Local, out.HostPath = s.AWSElasticBlockStore, s.Local, s.HostPath
	return out
}
