package state

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/engine/world"
)

// draft is a pod spec converted but for what differs between pods of one spec: labels and volumes.
type draft struct {
	id    int
	class world.Class
	err   error
	key   string
}

// podDraft is a pod with its converted spec.
type podDraft struct {
	obj   *PodObject
	draft *draft
	vol   *podVolumes
}

// pods converts every pod's spec, each distinct one once, and finds out which labels matter.
func (b *builder) pods() []podDraft {
	out := make([]podDraft, len(b.obj.Pods))
	byKey := map[string]*draft{}
	last := ""
	for i, o := range b.obj.Pods {
		if o.Meta.Namespace == "" {
			o.Meta.Namespace = "default"
		}
		name := fullName(o.Meta.Namespace, o.Meta.Name)
		if name == last {
			b.report(problem("Pod", name, "is listed twice; the second is left out"))
			out[i] = podDraft{obj: o}
			continue
		}
		last = name
		d := b.draft(o, byKey)
		if d.err != nil {
			b.report(problem("Pod", name, "%v", d.err))
			out[i] = podDraft{obj: o}
			continue
		}
		out[i] = podDraft{obj: o, draft: d, vol: b.podVolumes(o)}
	}
	b.read = b.readKeys(out)
	return out
}

// draft converts a spec, or finds it converted.
func (b *builder) draft(o *PodObject, byKey map[string]*draft) *draft {
	resized := slices.ContainsFunc(o.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.AllocatedResources != nil || s.Resources != nil })
	cacheable := o.shape != 0 && !resized && len(b.opt.DefaultSpread) == 0 && !readsOwnLabels(o.Spec)
	if cacheable {
		if d, ok := b.drafts[o.shape]; ok && d.class.Namespace == o.Meta.Namespace {
			return d
		}
	}
	d := b.convert(o)
	if d.err == nil {
		d.key = string(classKey(&d.class))
		if same, ok := byKey[d.key]; ok {
			d = same
		} else {
			d.id = len(byKey)
			byKey[d.key] = d
		}
	}
	if cacheable {
		b.drafts[o.shape] = d
	}
	return d
}

// readsOwnLabels says whether constraints depend on the labels of the pod itself, which its spec does not show.
func readsOwnLabels(spec *corev1.PodSpec) bool {
	for i := range spec.TopologySpreadConstraints {
		if len(spec.TopologySpreadConstraints[i].MatchLabelKeys) > 0 {
			return true
		}
	}
	keyed := func(t *corev1.PodAffinityTerm) bool { return len(t.MatchLabelKeys)+len(t.MismatchLabelKeys) > 0 }
	if a := spec.Affinity; a != nil {
		if p := a.PodAffinity; p != nil && anyTerm(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, keyed) {
			return true
		}
		if p := a.PodAntiAffinity; p != nil && anyTerm(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, keyed) {
			return true
		}
	}
	return false
}

func anyTerm(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, is func(*corev1.PodAffinityTerm) bool) bool {
	for i := range required {
		if is(&required[i]) {
			return true
		}
	}
	for i := range preferred {
		if is(&preferred[i].PodAffinityTerm) {
			return true
		}
	}
	return false
}

// convert reads everything of a pod's spec that constrains where it may run.
func (b *builder) convert(o *PodObject) *draft {
	d := &draft{}
	c := &d.class
	c.Namespace = o.Meta.Namespace
	requests, err := b.resources(podRequests(o.Spec, &o.Status))
	if err != nil {
		d.err = fmt.Errorf("requests: %w", err)
		return d
	}
	c.Requests = requests
	if o.Spec.Priority != nil {
		c.Priority = *o.Spec.Priority
	}
	for _, t := range o.Spec.Tolerations {
		c.Tolerations = append(c.Tolerations, world.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: world.Effect(t.Effect)})
	}
	slices.SortFunc(c.Tolerations, func(x, y world.Toleration) int {
		return strings.Compare(x.Key+"\x00"+x.Operator+"\x00"+x.Value+"\x00"+string(x.Effect), y.Key+"\x00"+y.Operator+"\x00"+y.Value+"\x00"+string(y.Effect))
	})
	c.Ports = hostPorts(o.Spec)
	b.nodeNeeds(c, o.Spec)
	if err := b.podTerms(c, o); err != nil {
		d.err = err
		return d
	}
	if err := b.spread(c, o); err != nil {
		d.err = err
		return d
	}
	if len(o.Spec.ResourceClaims) > 0 && !b.opt.AllowResourceClaims {
		c.Refused = "uses dynamic resource claims, which are not planned (see IGNORE_DRA_REQUESTS)"
	}
	return d
}

// hostPorts lists ports of containers and of sidecars, which run beside them.
func hostPorts(spec *corev1.PodSpec) []world.Port {
	var out []world.Port
	note := func(c *corev1.Container) {
		for _, p := range c.Ports {
			port := p.HostPort
			if port == 0 && spec.HostNetwork {
				port = p.ContainerPort
			}
			if port == 0 {
				continue
			}
			protocol := string(p.Protocol)
			if protocol == "" {
				protocol = "TCP"
			}
			out = append(out, world.Port{IP: p.HostIP, Protocol: protocol, Port: port})
		}
	}
	for i := range spec.Containers {
		note(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			note(c)
		}
	}
	return out
}

// readKeys lists the label keys that some selector reads: other labels cannot tell pods apart.
func (b *builder) readKeys(pods []podDraft) []string {
	seen, done := map[string]bool{}, map[*draft]bool{}
	note := func(s world.Selector) {
		for _, r := range s.Need {
			seen[r.Key] = true
		}
	}
	for _, p := range pods {
		if p.draft == nil || done[p.draft] {
			continue
		}
		done[p.draft] = true
		for _, s := range p.draft.class.Spread {
			note(s.Selector)
		}
		for _, t := range slices.Concat(p.draft.class.Affinity, p.draft.class.AntiAffinity) {
			note(t.Selector)
		}
	}
	out := make([]string, 0, len(seen))
	for k := range seen {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// class finds the class of a pod, making it on first sight.
func (b *builder) class(p *podDraft) int32 {
	key := binary.AppendVarint(nil, int64(p.draft.id))
	for _, k := range b.read {
		if v, ok := p.obj.Meta.Labels[k]; ok {
			key = append(append(append(key, k...), 0), v...)
			key = append(key, 0)
		}
	}
	if p.vol != nil {
		key = append(key, p.vol.key...)
	}
	id, ok := b.classIndex[string(key)]
	if ok {
		return id
	}
	c := p.draft.class
	c.ID = int32(len(b.classes))
	labels := map[string]string{}
	for _, k := range b.read {
		if v, ok := p.obj.Meta.Labels[k]; ok {
			labels[k] = v
		}
	}
	c.Labels = world.NewLabels(labels)
	if p.vol != nil {
		p.vol.apply(&c)
	}
	b.classIndex[string(key)] = c.ID
	b.classes = append(b.classes, &c)
	return c.ID
}

// classKey is equal exactly for specs that constrain pods in the same way.
func classKey(c *world.Class) []byte {
	k := []byte(c.Namespace + "\x00" + c.Refused + "\x00")
	k = binary.AppendVarint(k, int64(c.Priority))
	for _, v := range c.Requests {
		k = binary.AppendVarint(k, v)
	}
	for _, cl := range c.Needs {
		k = append(k, 'n')
		for _, t := range cl.Terms {
			k = t.AppendKey(k)
		}
	}
	for _, p := range c.Prefers {
		k = binary.AppendVarint(append(k, 'p'), int64(p.Weight))
		k = p.Term.AppendKey(k)
	}
	for _, t := range c.Tolerations {
		k = append(k, "t"+t.Key+"\x00"+t.Operator+"\x00"+t.Value+"\x00"+string(t.Effect)+"\x00"...)
	}
	for _, s := range c.Spread {
		k = fmt.Appendf(k, "s%s %d %d %t %t %t %t", s.Key, s.MaxSkew, s.MinDomains, s.Hard, s.HonorAffinity, s.HonorTaints, s.Selector.Some)
		k = s.Selector.Need.AppendKey(k)
	}
	for kind, terms := range [][]world.PodTerm{c.Affinity, c.AntiAffinity} {
		for _, t := range terms {
			k = fmt.Appendf(k, "a%d%s %d %t %q %t", kind, t.Key, t.Weight, t.AllNamespaces, t.Namespaces, t.Selector.Some)
			k = t.Selector.Need.AppendKey(k)
		}
	}
	for _, p := range c.Ports {
		k = fmt.Appendf(k, "h%s %s %d", p.IP, p.Protocol, p.Port)
	}
	return k
}
