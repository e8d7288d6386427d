package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Policies are what the API server fills pods in from and refuses them by when they are made. Pods that are there have passed them.
type Policies struct {
	Ranges []*corev1.LimitRange
	Quotas []*corev1.ResourceQuota
}

// policy applies a LimitRange or a ResourceQuota.
func (c *Change) policy(m map[string]any, id identity) error {
	if id.kind == "LimitRange" {
		r := &corev1.LimitRange{}
		if err := decode(m, r, id); err != nil {
			return err
		}
		r.Namespace = id.space
		c.Policies.Ranges = replaced(c.Policies.Ranges, []*corev1.LimitRange{r})
	} else {
		q := &corev1.ResourceQuota{}
		if err := decode(m, q, id); err != nil {
			return err
		}
		q.Namespace = id.space
		c.Policies.Quotas = replaced(c.Policies.Quotas, []*corev1.ResourceQuota{q})
	}
	c.say("%s is applied: it counts for pods that this change makes", id)
	return nil
}

// fill makes of a pod's spec what the API server makes of it: what is only limited is asked for as well, and where nothing is said
// the namespace's LimitRanges say it.
func (c *Change) fill(space string, spec *corev1.PodSpec) {
	fillRequests(spec)
	for _, r := range c.rangesOf(space) {
		for i := range r.Spec.Limits {
			item := &r.Spec.Limits[i]
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			limits, requests := containerDefaults(item)
			for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
				for k := range list {
					list[k].Resources.Limits = filled(list[k].Resources.Limits, limits)
					list[k].Resources.Requests = filled(list[k].Resources.Requests, requests)
				}
			}
		}
	}
}

// rangesOf are the LimitRanges of a namespace, by name.
func (c *Change) rangesOf(space string) []*corev1.LimitRange {
	out := slices.DeleteFunc(slices.Clone(c.Policies.Ranges), func(r *corev1.LimitRange) bool { return spaceOf(r) != space })
	slices.SortFunc(out, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// containerDefaults is what containers get that say nothing: limits, for want of a default the largest; requests, for want of a
// default the limit, or else the smallest.
func containerDefaults(item *corev1.LimitRangeItem) (limits, requests corev1.ResourceList) {
	limits = filled(maps.Clone(item.Default), item.Max)
	requests = filled(filled(maps.Clone(item.DefaultRequest), limits), item.Min)
	return limits, requests
}

// filled is a list with what it lacks taken from another.
func filled(list, from corev1.ResourceList) corev1.ResourceList {
	for name, q := range from {
		if _, has := list[name]; has {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = q
	}
	return list
}

// outOfRange says why a LimitRange of the namespace refuses a pod, or nothing. The spec has been filled in.
func (c *Change) outOfRange(space string, spec *corev1.PodSpec) string {
	for _, r := range c.rangesOf(space) {
		for i := range r.Spec.Limits {
			item := &r.Spec.Limits[i]
			why := ""
			switch item.Type {
			case corev1.LimitTypeContainer:
				for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
					for k := range list {
						why = cmp.Or(why, within(item, list[k].Resources.Requests, list[k].Resources.Limits))
					}
				}
			case corev1.LimitTypePod:
				requests := total(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
				limits := total(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
				why = within(item, requests, limits)
			}
			if why != "" {
				return fmt.Sprintf("LimitRange %s/%s: %s", space, r.Name, why)
			}
		}
	}
	return ""
}

// within says why amounts are not within an item's bounds, or nothing.
func within(item *corev1.LimitRangeItem, requests, limits corev1.ResourceList) string {
	of := strings.ToLower(string(item.Type))
	for _, name := range slices.Sorted(maps.Keys(item.Min)) {
		least := item.Min[name]
		if q, asked := requests[name]; !asked {
			return fmt.Sprintf("a %s asks for at least %s %s, and one asks for none", of, least.String(), name)
		} else if q.Cmp(least) < 0 {
			return fmt.Sprintf("a %s asks for at least %s %s, and one asks for %s", of, least.String(), name, q.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		most := item.Max[name]
		if q, limited := limits[name]; !limited {
			return fmt.Sprintf("a %s is limited to at most %s %s, and one has no limit", of, most.String(), name)
		} else if q.Cmp(most) > 0 {
			return fmt.Sprintf("a %s is limited to at most %s %s, and one has a limit of %s", of, most.String(), name, q.String())
		}
		if q := requests[name]; q.Cmp(most) > 0 {
			return fmt.Sprintf("a %s asks for at most %s %s, and one asks for %s", of, most.String(), name, q.String())
		}
	}
	return ""
}

// total is what a pod's containers come to together: those that run side by side add up, and each that runs before them must fit too.
func total(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	sum, most := corev1.ResourceList{}, corev1.ResourceList{}
	beside := corev1.ResourceList{} // those that start before the others and go on
	for i := range spec.InitContainers {
		x := &spec.InitContainers[i]
		if x.RestartPolicy != nil && *x.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(beside, of(x))
			raise(most, beside)
			continue
		}
		alone := corev1.ResourceList{}
		add(alone, beside)
		add(alone, of(x))
		raise(most, alone)
	}
	for i := range spec.Containers {
		add(sum, of(&spec.Containers[i]))
	}
	add(sum, beside)
	raise(sum, most)
	return sum
}

func add(to, more corev1.ResourceList) {
	for name, q := range more {
		have := to[name]
		have.Add(q)
		to[name] = have
	}
}

func raise(to, at corev1.ResourceList) {
	for name, q := range at {
		if have, ok := to[name]; !ok || have.Cmp(q) < 0 {
			to[name] = q.DeepCopy()
		}
	}
}

// namespaceQuota is a ResourceQuota with what is used of it.
type namespaceQuota struct {
	object *corev1.ResourceQuota
	used   corev1.ResourceList
}

// quotasOf are the ResourceQuotas of a namespace, with what its pods use now. Those with scopes are set aside, and so are limits.
func (c *Change) quotasOf(space string) []*namespaceQuota {
	var out []*namespaceQuota
	for _, q := range c.Policies.Quotas {
		if spaceOf(q) != space {
			continue
		}
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			c.ignore(fmt.Sprintf("ResourceQuota %s/%s: it has scopes, which planning does not read", space, q.Name))
			continue
		}
		out = append(out, &namespaceQuota{q, corev1.ResourceList{}})
	}
	if len(out) == 0 {
		return nil
	}
	slices.SortFunc(out, func(a, b *namespaceQuota) int { return strings.Compare(a.object.Name, b.object.Name) })
	used := corev1.ResourceList{}
	for _, p := range c.Objects.Pods {
		if cmp.Or(p.Namespace, corev1.NamespaceDefault) == space && running(p) {
			add(used, charge(&p.Spec))
		}
	}
	for _, q := range out {
		add(q.used, used)
	}
	return out
}

// running says whether a pod still counts.
func running(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// one is a pod, or a node.
var one = resource.MustParse("1")

// charge is what quotas count of a pod, by the names that they have for it.
func charge(spec *corev1.PodSpec) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	requests := total(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	for name, q := range requests {
		out[corev1.DefaultResourceRequestsPrefix+name] = q
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			out[name] = q
		}
	}
	return out
}

// take charges a pod, or says why the quota refuses it.
func (q *namespaceQuota) take(spec *corev1.PodSpec) string {
	costs := charge(spec)
	for _, name := range slices.Sorted(maps.Keys(q.object.Spec.Hard)) {
		hard := q.object.Spec.Hard[name]
		cost, counted := costs[name]
		if !counted {
			if mustAsk(name) {
				return fmt.Sprintf("ResourceQuota %s/%s counts %s, and the pods ask for none", q.object.Namespace, q.object.Name, name)
			}
			continue
		}
		then := q.used[name].DeepCopy()
		then.Add(cost)
		if then.Cmp(hard) > 0 {
			return fmt.Sprintf("ResourceQuota %s/%s allows %s %s, and %s would be in use", q.object.Namespace, q.object.Name, hard.String(), name, then.String())
		}
	}
	add(q.used, costs)
	return ""
}

// mustAsk says whether pods must ask for what a quota counts by that name.
func mustAsk(name corev1.ResourceName) bool {
	name = corev1.ResourceName(strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix))
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory
}

// ignore notes something that is not understood, once.
func (c *Change) ignore(text string) {
	if !slices.Contains(c.Ignored, text) {
		c.Ignored = append(c.Ignored, text)
	}
}
