package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/engine/why"
)

// workload is what makes pods.
type workload struct {
	identity
	replicas int
	template *corev1.PodTemplateSpec
	// selector is what picks its pods, revision the hash of the template in the pods of a Deployment.
	selector *metav1.LabelSelector
	revision string
	// claims are volumes that each pod of a StatefulSet has for itself.
	claims []corev1.PersistentVolumeClaim
}

// workload applies something that makes pods.
func (c *Change) workload(m map[string]any, id identity) error {
	switch id.kind {
	case "DaemonSet":
		return c.daemonSet(m, id)
	case "Pod":
		return c.barePod(m, id)
	}
	w, err := readWorkload(m, id)
	if err != nil {
		return err
	}
	if len(w.template.Spec.Containers) == 0 {
		return fmt.Errorf("%s: spec.template.spec.containers is empty; a pod has at least one", id)
	}
	c.fill(id.space, &w.template.Spec)
	c.scale(w)
	return nil
}

// readWorkload reads how many pods of which template are asked for.
func readWorkload(m map[string]any, id identity) (*workload, error) {
	w := &workload{identity: id, replicas: 1, revision: "new"}
	count := func(n *int32) {
		if n != nil {
			w.replicas = max(0, int(*n))
		}
	}
	switch id.kind {
	case "Deployment":
		o := &appsv1.Deployment{}
		if err := decode(m, o, id); err != nil {
			return nil, err
		}
		w.template, w.selector = &o.Spec.Template, o.Spec.Selector
		count(o.Spec.Replicas)
	case "ReplicaSet":
		o := &appsv1.ReplicaSet{}
		if err := decode(m, o, id); err != nil {
			return nil, err
		}
		w.template, w.selector = &o.Spec.Template, o.Spec.Selector
		count(o.Spec.Replicas)
	case "StatefulSet":
		o := &appsv1.StatefulSet{}
		if err := decode(m, o, id); err != nil {
			return nil, err
		}
		w.template, w.selector, w.claims = &o.Spec.Template, o.Spec.Selector, o.Spec.VolumeClaimTemplates
		count(o.Spec.Replicas)
	case "Job":
		o := &batchv1.Job{}
		if err := decode(m, o, id); err != nil {
			return nil, err
		}
		w.template = &o.Spec.Template
		count(o.Spec.Parallelism)
		if o.Spec.Completions != nil {
			w.replicas = min(w.replicas, int(*o.Spec.Completions))
		}
	}
	return w, nil
}

// fillRequests asks for what is only limited, as the API server does.
func fillRequests(spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			for name, q := range r.Limits {
				if _, ok := r.Requests[name]; ok {
					continue
				}
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				r.Requests[name] = q
			}
		}
	}
}

// owns says whether a pod is one of the workload's.
func (w *workload) owns(p *corev1.Pod) bool {
	if cmp.Or(p.Namespace, metav1.NamespaceDefault) != w.space {
		return false
	}
	for _, o := range p.OwnerReferences {
		switch {
		case o.Kind == w.kind && o.Name == w.name:
			return true
		case w.kind == "Deployment" && o.Kind == "ReplicaSet":
			if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" && o.Name == w.name+"-"+hash {
				return true
			}
		}
	}
	return false
}

// scale makes the cluster have the pods that the workload asks for: those that are there stay if they are what a plan would take
// for the same, as far as they are wanted.
func (c *Change) scale(w *workload) {
	var have []*corev1.Pod
	for _, p := range c.Objects.Pods {
		if w.owns(p) && running(p) && p.DeletionTimestamp == nil {
			have = append(have, p)
		}
	}
	keep, like := slices.Clone(have), w.likeness()
	refused := c.outOfRange(w.space, &w.template.Spec)
	if refused == "" && slices.ContainsFunc(have, func(p *corev1.Pod) bool { return !sameShape(like, p) }) {
		keep = nil // pods that cannot be replaced stay as they are
	}
	w.rank(keep, c.Now)
	keep = keep[:min(len(keep), w.replicas)]
	if len(keep) > 0 { // more of the same
		w.revision = cmp.Or(keep[0].Labels[appsv1.DefaultDeploymentUniqueLabelKey], w.revision)
	}
	c.own(w)
	gone := map[*corev1.Pod]bool{}
	for _, p := range have {
		if !slices.Contains(keep, p) {
			gone[p] = true
			c.touched = append(c.touched, podLabels{w.space, p.Labels})
		}
	}
	c.Objects.Pods = slices.DeleteFunc(c.Objects.Pods, func(p *corev1.Pod) bool { return gone[p] })
	made := 0
	if refused == "" {
		made, refused = c.grow(w, keep)
	}
	missing := w.replicas - len(keep) - made
	switch now := len(keep) + made; {
	case refused != "" && missing <= 0:
		c.say("%s: its pods stay as they are, as the API server refuses new ones: %s", w, refused)
	case len(have) == 0:
		c.say("%s is new: %s", w, why.Count(now, "pod"))
	case len(keep) == 0:
		c.say("%s: %s become %d of another shape", w, why.Count(len(have), "pod"), now)
	case len(have) == now:
		c.say("%s is as it is in the cluster", w)
	default:
		c.say("%s: %s become %d", w, why.Count(len(have), "pod"), now)
	}
	if refused != "" && missing > 0 {
		c.say("%s: the API server refuses %d of its %s: %s", w, missing, why.Count(w.replicas, "pod"), refused)
	}
}

// grow makes the pods that are missing, as far as quotas let it. It returns how many, and why not all.
func (c *Change) grow(w *workload, keep []*corev1.Pod) (made int, refused string) {
	names := map[string]bool{}
	for _, p := range keep {
		names[p.Name] = true
	}
	quotas := c.quotasOf(w.space)
	for i := 0; made < w.replicas-len(keep); i++ {
		name := fmt.Sprintf("%s-%d", w.name, i)
		if w.kind != "StatefulSet" {
			name = fmt.Sprintf("%s-new-%d", w.name, i+1)
		}
		if names[name] {
			continue
		}
		for _, q := range quotas {
			if refused = q.take(&w.template.Spec); refused != "" {
				return made, refused
			}
		}
		c.add(w, name, i)
		made++
	}
	return made, ""
}

// likeness is the template with what each pod has for itself, to compare pods with.
func (w *workload) likeness() *corev1.PodTemplateSpec {
	t := w.template.DeepCopy()
	for i := range w.claims {
		t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{
			Name: w.claims[i].Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}},
		})
	}
	return t
}

// add makes a pod of the template, which is pending.
func (c *Change) add(w *workload, name string, ordinal int) {
	p := &corev1.Pod{Spec: *w.template.Spec.DeepCopy()}
	owner, kind := w.name, w.kind
	p.Labels = map[string]string{}
	for k, v := range w.template.Labels {
		p.Labels[k] = v
	}
	if w.kind == "Deployment" {
		owner, kind = w.name+"-"+w.revision, "ReplicaSet"
		p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = w.revision
	}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner, Controller: new(true)}}
	for i := range w.claims {
		c.addVolume(w, p, &w.claims[i], ordinal)
	}
	p.Annotations = w.template.Annotations
	c.wait(p, w.space, name)
}

// own adds what the pods of a workload will be owned by, as default topology spread goes by its selector (N1).
func (c *Change) own(w *workload) {
	meta := metav1.ObjectMeta{Namespace: w.space, Name: w.name}
	selector := w.selector.DeepCopy()
	switch {
	case selector == nil:
		return
	case w.kind == "StatefulSet":
		named := func(o *appsv1.StatefulSet) bool {
			return o.Name == meta.Name && cmp.Or(o.Namespace, metav1.NamespaceDefault) == meta.Namespace
		}
		c.Objects.StatefulSet = append(slices.DeleteFunc(slices.Clone(c.Objects.StatefulSet), named), &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}})
		return
	case w.kind == "Deployment":
		meta.Name += "-" + w.revision
		metav1.AddLabelToSelector(selector, appsv1.DefaultDeploymentUniqueLabelKey, w.revision)
	}
	named := func(o *appsv1.ReplicaSet) bool {
		return o.Name == meta.Name && cmp.Or(o.Namespace, metav1.NamespaceDefault) == meta.Namespace
	}
	c.Objects.ReplicaSets = append(slices.DeleteFunc(slices.Clone(c.Objects.ReplicaSets), named), &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}})
}

// wait adds a pod that is pending.
func (c *Change) wait(p *corev1.Pod, space, name string) {
	p.Namespace, p.Name, p.UID = space, name, types.UID("forecast/"+space+"/"+name)
	p.CreationTimestamp = metav1.NewTime(c.Now)
	p.Spec.NodeName = ""
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
	}}
	c.Objects.Pods = append(c.Objects.Pods, p)
	c.touched = append(c.touched, podLabels{space, p.Labels})
}

// addVolume gives a pod of a StatefulSet a volume of its own.
func (c *Change) addVolume(w *workload, p *corev1.Pod, template *corev1.PersistentVolumeClaim, ordinal int) {
	claim := template.DeepCopy()
	claim.Namespace, claim.Name = w.space, fmt.Sprintf("%s-%s-%d", template.Name, w.name, ordinal)
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
	}})
	if !slices.ContainsFunc(c.Objects.VolumeUses, func(x *corev1.PersistentVolumeClaim) bool { return spaceOf(x) == w.space && x.Name == claim.Name }) {
		c.Objects.VolumeUses = append(c.Objects.VolumeUses, claim)
	}
}

// barePod applies a pod that nothing owns.
func (c *Change) barePod(m map[string]any, id identity) error {
	p := &corev1.Pod{}
	if err := decode(m, p, id); err != nil {
		return err
	}
	c.fill(id.space, &p.Spec)
	for _, o := range c.Objects.Pods {
		if o.Name == id.name && cmp.Or(o.Namespace, metav1.NamespaceDefault) == id.space {
			c.say("%s is there already and cannot be changed", id)
			return nil
		}
	}
	refused := c.outOfRange(id.space, &p.Spec)
	for _, q := range c.quotasOf(id.space) {
		if refused == "" {
			refused = q.take(&p.Spec)
		}
	}
	if refused != "" {
		c.say("%s is not made, as the API server refuses it: %s", id, refused)
		return nil
	}
	c.say("%s is new", id)
	c.wait(p, id.space, id.name)
	return nil
}

// daemonSet applies a DaemonSet: its pods that run take the new shape where they are.
func (c *Change) daemonSet(m map[string]any, id identity) error {
	d := &appsv1.DaemonSet{}
	if err := decode(m, d, id); err != nil {
		return err
	}
	d.Namespace = id.space
	fillRequests(&d.Spec.Template.Spec)
	was := slices.ContainsFunc(c.Objects.DaemonSets, func(o *appsv1.DaemonSet) bool { return o.Name == d.Name && spaceOf(o) == id.space })
	c.Objects.DaemonSets = replaced(c.Objects.DaemonSets, []*appsv1.DaemonSet{d})
	// Pods get what LimitRanges say; what new nodes keep free for the DaemonSet is what its template says.
	template := d.Spec.Template.DeepCopy()
	c.fill(id.space, &template.Spec)
	w := &workload{identity: id}
	for i, p := range c.Objects.Pods {
		if !w.owns(p) || sameShape(template, p) {
			continue
		}
		next := *p
		next.Spec = *template.Spec.DeepCopy()
		next.Spec.NodeName, next.Spec.Affinity = p.Spec.NodeName, p.Spec.Affinity // which ties it to its node
		c.Objects.Pods[i] = &next
	}
	if was {
		c.say("%s changes", id)
	} else {
		c.say("%s is new", id)
	}
	return nil
}

// shape is what of a pod a plan reads.
type shape struct {
	Selector    map[string]string
	Affinity    *corev1.Affinity
	Tolerations []corev1.Toleration
	Spread      []corev1.TopologySpreadConstraint
	Priority    string
	Requests    []corev1.ResourceList
	Ports       []int32
	Volumes     []string
}

// sameShape says whether a plan would take a pod for one of the template's. What the API server adds is not counted.
func sameShape(t *corev1.PodTemplateSpec, p *corev1.Pod) bool {
	for k, v := range t.Labels {
		if p.Labels[k] != v {
			return false
		}
	}
	return same(shapeOf(&t.Spec), shapeOf(&p.Spec))
}

func shapeOf(s *corev1.PodSpec) shape {
	out := shape{Selector: s.NodeSelector, Affinity: s.Affinity, Spread: s.TopologySpreadConstraints, Priority: s.PriorityClassName}
	if len(out.Selector) == 0 {
		out.Selector = nil
	}
	for _, t := range s.Tolerations {
		if t.Effect == corev1.TaintEffectNoExecute && strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			continue
		}
		out.Tolerations = append(out.Tolerations, t)
	}
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			r := corev1.ResourceList{}
			for k, q := range list[i].Resources.Requests {
				r[k] = q
			}
			out.Requests = append(out.Requests, r)
			for _, port := range list[i].Ports {
				if port.HostPort != 0 {
					out.Ports = append(out.Ports, port.HostPort)
				}
			}
		}
	}
	for _, v := range s.Volumes {
		if v.PersistentVolumeClaim != nil {
			out.Volumes = append(out.Volumes, v.Name)
		}
	}
	slices.Sort(out.Volumes)
	return out
}
