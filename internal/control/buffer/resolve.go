package buffer

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	"karpenter/internal/state"
)

// found is what a buffer's reference names.
type found struct {
	shape state.Shape
	// template names the PodTemplate, if it is one; generation is that of the object.
	template   *bufferv1.LocalObjectRef
	generation int64
	// kind is what to watch; polled kinds are looked at now and then instead.
	kind   schema.GroupVersionKind
	polled bool
}

// unresolved says why a buffer cannot be resolved, for its condition.
type unresolved struct{ reason, message string }

// Error implements error.
func (u *unresolved) Error() string { return u.message }

func failed(format string, args ...any) error {
	return &unresolved{bufferv1.ReasonResolutionFailed, fmt.Sprintf(format, args...)}
}

var podTemplates = corev1.SchemeGroupVersion.WithKind("PodTemplate")

// resolve finds what a buffer is about (P110). An *unresolved error is the buffer's own; any other is that of the API server.
func (r *Reconciler) resolve(ctx context.Context, b *bufferv1.CapacityBuffer) (*found, error) {
	switch template, scalable := b.Spec.PodTemplateRef, b.Spec.ScalableRef; {
	case template != nil && scalable != nil:
		return nil, failed("spec.podTemplateRef and spec.scalableRef cannot be used together: remove one of the two")
	case template != nil:
		return r.podTemplate(ctx, b, template)
	case scalable != nil:
		return r.scalable(ctx, b, scalable)
	}
	return nil, failed("nothing says what room is kept for: set spec.podTemplateRef or spec.scalableRef")
}

func (r *Reconciler) podTemplate(ctx context.Context, b *bufferv1.CapacityBuffer, ref *bufferv1.LocalObjectRef) (*found, error) {
	f, t := &found{kind: podTemplates, template: ref}, &corev1.PodTemplate{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: ref.Name}, t)
	if apierrors.IsNotFound(err) {
		return f, &unresolved{bufferv1.ReasonPodTemplateNotFound, fmt.Sprintf("spec.podTemplateRef.name: there is no PodTemplate %q in namespace %s", ref.Name, b.Namespace)}
	}
	if err != nil {
		return f, refused("PodTemplate "+ref.Name, err)
	}
	f.generation, f.shape = t.Generation, state.Shape{Template: &t.Template}
	return f, nil
}

// workload is a kind whose template we know how to read.
type workload struct {
	kind  schema.GroupVersionKind
	empty func() client.Object
	shape func(client.Object) (template *corev1.PodTemplateSpec, replicas *int32)
}

var workloads = []workload{
	{appsv1.SchemeGroupVersion.WithKind("Deployment"), func() client.Object { return &appsv1.Deployment{} }, func(o client.Object) (*corev1.PodTemplateSpec, *int32) {
		d := o.(*appsv1.Deployment)
		return &d.Spec.Template, d.Spec.Replicas
	}},
	{appsv1.SchemeGroupVersion.WithKind("StatefulSet"), func() client.Object { return &appsv1.StatefulSet{} }, func(o client.Object) (*corev1.PodTemplateSpec, *int32) {
		s := o.(*appsv1.StatefulSet)
		return &s.Spec.Template, s.Spec.Replicas
	}},
	{appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), func() client.Object { return &appsv1.ReplicaSet{} }, func(o client.Object) (*corev1.PodTemplateSpec, *int32) {
		s := o.(*appsv1.ReplicaSet)
		return &s.Spec.Template, s.Spec.Replicas
	}},
	{corev1.SchemeGroupVersion.WithKind("ReplicationController"), func() client.Object { return &corev1.ReplicationController{} }, func(o client.Object) (*corev1.PodTemplateSpec, *int32) {
		c := o.(*corev1.ReplicationController)
		return c.Spec.Template, c.Spec.Replicas
	}},
	{batchv1.SchemeGroupVersion.WithKind("Job"), func() client.Object { return &batchv1.Job{} }, func(o client.Object) (*corev1.PodTemplateSpec, *int32) {
		j := o.(*batchv1.Job)
		return &j.Spec.Template, j.Spec.Parallelism
	}},
}

// known is the workload that a reference means; an empty group is that of the kind.
func known(ref *bufferv1.ScalableRef) *workload {
	for i := range workloads {
		if w := &workloads[i]; w.kind.Kind == ref.Kind && (ref.APIGroup == "" || ref.APIGroup == w.kind.Group) {
			return w
		}
	}
	return nil
}

func (r *Reconciler) scalable(ctx context.Context, b *bufferv1.CapacityBuffer, ref *bufferv1.ScalableRef) (*found, error) {
	w := known(ref)
	if w == nil {
		return r.scaled(ctx, b, ref)
	}
	f, obj := &found{kind: w.kind}, w.empty()
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: ref.Name}, obj)
	if apierrors.IsNotFound(err) {
		return f, notThere(b, ref)
	}
	if err != nil {
		return f, refused(ref.Kind+" "+ref.Name, err)
	}
	template, replicas := w.shape(obj)
	if template == nil {
		return f, failed("spec.scalableRef: %s %s has no pod template", ref.Kind, ref.Name)
	}
	if replicas == nil {
		replicas = new(int32(1))
	}
	f.generation, f.shape = obj.GetGeneration(), state.Shape{Template: template, Scaled: replicas}
	return f, nil
}

func notThere(b *bufferv1.CapacityBuffer, ref *bufferv1.ScalableRef) error {
	return &unresolved{bufferv1.ReasonScalableRefNotFound, fmt.Sprintf("spec.scalableRef: there is no %s %q in namespace %s", ref.Kind, ref.Name, b.Namespace)}
}

// refused is an error of the API server: the buffer's own if it will be the same next time.
func refused(what string, err error) error {
	if apierrors.IsForbidden(err) {
		return failed("%s cannot be read: %s; allow it with the chart's additionalClusterRoleRules", what, apierrors.ReasonForError(err))
	}
	return fmt.Errorf("reading %s: %w", what, err)
}

// scaled is about any other kind: it says how many pods it has by its scale, and its pods show what they look like (W66).
func (r *Reconciler) scaled(ctx context.Context, b *bufferv1.CapacityBuffer, ref *bufferv1.ScalableRef) (*found, error) {
	f := &found{polled: true}
	mapping, err := r.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if meta.IsNoMatchError(err) {
		return f, failed("spec.scalableRef: the API server serves no kind %s in API group %q: give Deployment, StatefulSet, ReplicaSet, ReplicationController, Job, or a kind that can be scaled with its apiGroup", ref.Kind, ref.APIGroup)
	}
	if err != nil {
		return f, fmt.Errorf("looking for kind %s: %w", ref.Kind, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return f, failed("spec.scalableRef: %s is not in a namespace: give a kind whose pods are in namespace %s", ref.Kind, b.Namespace)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(mapping.GroupVersionKind)
	obj.SetNamespace(b.Namespace)
	obj.SetName(ref.Name)
	scale := &unstructured.Unstructured{}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	err = r.Client.SubResource("scale").Get(ctx, obj, scale)
	switch {
	case apierrors.IsNotFound(err):
		e := notThere(b, ref).(*unresolved)
		e.message += ", or it has no scale subresource"
		return f, e
	case apierrors.IsMethodNotSupported(err):
		return f, failed("spec.scalableRef: %s cannot be scaled: it has no scale subresource", ref.Kind)
	case err != nil:
		return f, refused("the scale of "+ref.Kind+" "+ref.Name, err)
	}
	replicas, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	selector, _, _ := unstructured.NestedString(scale.Object, "status", "selector")
	template, err := r.newest(ctx, b.Namespace, selector)
	if err != nil {
		return f, err
	}
	if template == nil {
		return f, failed("spec.scalableRef: %s %s has no pods yet that show what they look like (selector %q)", ref.Kind, ref.Name, selector)
	}
	f.shape = state.Shape{Template: template, Scaled: new(int32(replicas))}
	return f, nil
}

// newest is what the newest pod that a selector picks looks like; nil if it picks none.
func (r *Reconciler) newest(ctx context.Context, namespace, selector string) (*corev1.PodTemplateSpec, error) {
	picks, err := labels.Parse(selector)
	if err != nil || selector == "" {
		return nil, failed("spec.scalableRef: the scale's status.selector %q is no selector", selector)
	}
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: picks}); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var last *corev1.Pod
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp != nil || last != nil && !newer(p, last) {
			continue
		}
		last = p
	}
	if last == nil {
		return nil, nil
	}
	t := &corev1.PodTemplateSpec{Spec: last.Spec}
	t.Labels = last.Labels
	return t, nil
}

func newer(a, b *corev1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.Name > b.Name
}
