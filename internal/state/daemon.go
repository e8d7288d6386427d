package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"karpenter/internal/engine/world"
)

func newQuantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

// daemonTolerations are added to daemon pods by their controller.
var daemonTolerations = []world.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: "Exists", Effect: world.NoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: "Exists", Effect: world.NoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: "Exists", Effect: world.NoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: "Exists", Effect: world.NoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: "Exists", Effect: world.NoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: "Exists", Effect: world.NoSchedule},
}

// daemons converts DaemonSets. Their pods' shape is that of the newest live pod, which shows what webhooks have done to the
// template; where they run is taken from the template.
func (b *builder) daemons(pods []podDraft) []*world.Daemon {
	var out []*world.Daemon
	for _, ds := range b.obj.DaemonSets {
		name := fullName(ds.Namespace, ds.Name)
		tmpl := &PodObject{Meta: PodMeta{Name: ds.Name, Namespace: ds.Namespace, Labels: ds.Spec.Template.Labels}, Spec: &ds.Spec.Template.Spec}
		d := b.convert(tmpl)
		if d.err != nil {
			b.report(problem("DaemonSet", name, "%v", d.err))
			continue
		}
		if d.class.Refused != "" && len(ds.Spec.Template.Spec.ResourceClaims) > 0 {
			continue // its pods will not be admitted to new nodes as planned here
		}
		c := d.class
		if live := newest(pods, ds.Namespace, ds.Name); live != nil {
			if r, err := b.resources(podRequests(live.Spec, &live.Status)); err == nil {
				c.Requests = r
			}
			c.Ports = hostPorts(live.Spec)
		}
		c.Tolerations = slices.Concat(c.Tolerations, daemonTolerations)
		out = append(out, &world.Daemon{Name: name, Class: &c})
	}
	return out
}

func newest(pods []podDraft, namespace, set string) *PodObject {
	var best *PodObject
	for i := range pods {
		o := pods[i].obj
		if o.Meta.Namespace != namespace || terminal(o) || controller(o) != "DaemonSet" {
			continue
		}
		if !slices.ContainsFunc(o.Meta.OwnerReferences, func(r Owner) bool { return r.Kind == "DaemonSet" && r.Name == set }) {
			continue
		}
		if best == nil || o.Meta.CreationTimestamp > best.Meta.CreationTimestamp {
			best = o
		}
	}
	return best
}

// budget is a disruption budget with its selector read.
type budget struct {
	selector world.Selector
	full     bool // it never lets a pod go
}

// readBudgets reads disruption budgets once, by namespace. One whose selector cannot be read covers nobody.
func (b *builder) readBudgets() {
	b.budgets = map[string][]budget{}
	for _, p := range b.obj.Budgets {
		s, err := selector(p.Spec.Selector, nil)
		if err != nil {
			b.report(problem("PodDisruptionBudget", fullName(p.Namespace, p.Name), "%v", err))
			continue
		}
		b.budgets[p.Namespace] = append(b.budgets[p.Namespace], budget{s, fullyBlocking(p)})
	}
}

// blocked says whether a disruption budget never lets the pod go, or two budgets cover it, which no eviction gets past.
func (b *builder) blocked(o *PodObject) bool {
	list := b.budgets[o.Meta.Namespace]
	if len(list) == 0 {
		return false
	}
	labels, covering := world.NewLabels(o.Meta.Labels), 0
	for _, x := range list {
		if !x.selector.Matches(labels) {
			continue
		}
		covering++
		if x.full {
			return true
		}
	}
	return covering > 1
}

func fullyBlocking(p *policyv1.PodDisruptionBudget) bool {
	if m := p.Spec.MaxUnavailable; m != nil {
		return (m.Type == intstr.Int && m.IntVal == 0) || m.StrVal == "0%"
	}
	if m := p.Spec.MinAvailable; m != nil {
		return m.StrVal == "100%"
	}
	return false
}
