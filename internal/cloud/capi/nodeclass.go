package capi

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

const (
	// classEvery is how often a class is looked at without a reason, unreadyEvery one that is not ready.
	classEvery   = 5 * time.Minute
	unreadyEvery = 10 * time.Second
	// maxProblems is how many problems a class shows; the message of its condition names the first.
	maxProblems = 50
)

// Reconcile writes what the class can launch into its status, in memory, and says when to look again.
func (p *Provider) Reconcile(_ context.Context, class *v1alpha1.ClusterAPINodeClass) (again time.Duration) {
	now, conditions := p.opt.Clock.Now(), class.StatusConditions()
	if _, err := selector(class); err != nil {
		conditions.SetFalse(v1alpha1.ConditionValidationSucceeded, v1alpha1.ReasonSelectorInvalid, fmt.Sprintf("%v; give matchLabels, or matchExpressions with operator In, NotIn, Exists or DoesNotExist", err), now)
		conditions.SetFalse(v1alpha1.ConditionScalableResourcesReady, v1alpha1.ReasonScalableResourcesNotFound, "spec.scalableResourceSelector cannot be read", now)
		return classEvery
	}
	conditions.SetTrue(v1alpha1.ConditionValidationSucceeded, now)
	if !p.store.ready() {
		conditions.SetUnknown(v1alpha1.ConditionScalableResourcesReady, v1alpha1.ReasonManagementClusterUnreachable, "The management cluster has not been read yet", now)
		return unreadyEvery
	}
	v := p.build(inputs{class: class, version: p.store.version.Load(), stock: p.stock.Look()})
	class.Status.ScalableResources, class.Status.Problems = nil, nil
	for _, s := range v.shapes {
		r := v1alpha1.ScalableResource{Kind: s.key.kind, Namespace: s.key.namespace, Name: s.key.name, InstanceType: s.name, Zones: []string{s.zone}, PriceSource: s.priceSource}
		if s.priceSource != v1alpha1.PriceEstimated {
			r.Price = strconv.FormatFloat(s.price, 'f', -1, 64)
		}
		class.Status.ScalableResources = append(class.Status.ScalableResources, r)
	}
	class.Status.Problems = v.problems[:min(len(v.problems), maxProblems)]
	switch {
	case v.selected == 0:
		conditions.SetFalse(v1alpha1.ConditionScalableResourcesReady, v1alpha1.ReasonScalableResourcesNotFound,
			fmt.Sprintf("No MachineDeployment or MachineSet with the label %s matches spec.scalableResourceSelector%s; label one, or correct the selector", v1alpha1.LabelMember, p.where()), now)
		return unreadyEvery
	case len(v.shapes) == 0:
		conditions.SetFalse(v1alpha1.ConditionScalableResourcesReady, v1alpha1.ReasonScalableResourcesUnusable, summary(v.problems), now)
		return unreadyEvery
	case len(v.problems) > 0:
		conditions.Set(karpv1.Condition{Type: v1alpha1.ConditionScalableResourcesReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSomeLeftOut, Message: summary(v.problems)}, now)
	default:
		conditions.SetTrue(v1alpha1.ConditionScalableResourcesReady, now)
	}
	return classEvery
}

// where says which part of the management cluster is looked at.
func (p *Provider) where() string {
	out := ""
	if p.opt.Namespace != "" {
		out += " in namespace " + p.opt.Namespace
	}
	if p.opt.Cluster != "" {
		out += " for Cluster " + p.opt.Cluster
	}
	return out
}

// summary is the first problem, and how many more there are.
func summary(problems []v1alpha1.Problem) string {
	text := problems[0].Resource + " is left out: " + problems[0].Message
	if more := len(problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more, see status.problems)", more)
	}
	return text
}

// RefreshTemplates reads what infrastructure templates say of the nodes of scalable resources that do not say it themselves.
func (p *Provider) RefreshTemplates(ctx context.Context) error {
	wanted := map[templateKey]bool{}
	for _, k := range p.store.members() {
		if o := p.store.resource(k); o != nil && p.mine(k) && !described(o) {
			wanted[templateOf(o)] = true
		}
	}
	found := map[templateKey]templateStatus{}
	var failed error
	for t := range wanted {
		status, err := p.template(ctx, t)
		if err != nil && cloud.ClassOf(err) != cloud.NotFound {
			failed = err
			p.store.mu.RLock()
			status = p.store.templates[t] // what was known stays in use
			p.store.mu.RUnlock()
		}
		found[t] = status
	}
	p.store.mu.Lock()
	changed := fmt.Sprint(found) != fmt.Sprint(p.store.templates)
	p.store.templates = found
	p.store.mu.Unlock()
	if changed {
		p.store.bump()
	}
	return failed
}

// template reads status.capacity and status.nodeInfo of an infrastructure template. What it does not say is left empty.
func (p *Provider) template(ctx context.Context, t templateKey) (out templateStatus, err error) {
	op := fmt.Sprintf("read %s %s/%s", t.kind, t.namespace, t.name)
	mapping, err := p.opt.Management.RESTMapper().RESTMapping(schema.GroupKind{Group: t.group, Kind: t.kind})
	if meta.IsNoMatchError(err) {
		return out, &cloud.Error{Class: cloud.NotFound, Op: op, Reason: "KindNotFound", Err: err}
	}
	if err != nil {
		return out, readError(op, err)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := p.opt.Management.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: t.name}, o); err != nil {
		return out, readError(op, err)
	}
	capacity, _, _ := unstructured.NestedMap(o.Object, "status", "capacity")
	for name, value := range capacity {
		q, err := resource.ParseQuantity(fmt.Sprint(value))
		if err != nil || q.Sign() < 0 {
			continue // the scalable resource is said to lack it
		}
		if out.capacity == nil {
			out.capacity = corev1.ResourceList{}
		}
		out.capacity[corev1.ResourceName(name)] = q
	}
	out.os, _, _ = unstructured.NestedString(o.Object, "status", "nodeInfo", "operatingSystem")
	out.arch, _, _ = unstructured.NestedString(o.Object, "status", "nodeInfo", "architecture")
	return out, nil
}
