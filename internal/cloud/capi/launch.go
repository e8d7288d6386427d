package capi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
	"karpenter/internal/cloud/capi/kinds"
	"karpenter/internal/engine/world"
)

// Launch implements cloud.Launcher. Replicas are raised at most once for a claim: the write that raises them notes the claim. A Machine
// that has no provider ID yet is returned without one.
func (p *Provider) Launch(ctx context.Context, batch cloud.Batch) []cloud.Result {
	results := make([]cloud.Result, len(batch.Claims))
	op := "launch batch " + batch.ID
	if err := batch.Check(); err != nil {
		return all(results, &cloud.Error{Class: cloud.Invalid, Op: op, Reason: "BatchInvalid", Err: err})
	}
	if !p.store.ready() {
		return all(results, &cloud.Error{Class: cloud.Transient, Op: op, Reason: cloud.ReasonNotLoaded, Err: errUnread})
	}
	unlock := p.launches.lock(p.opt.Clock, key{name: batch.ID})
	defer unlock()
	found := map[string]*kinds.Machine{}
	for _, claim := range batch.Claims {
		if m := p.store.byClaim(string(claim.UID)); m != nil {
			found[string(claim.UID)] = m
		}
	}
	failed := map[string]error{}
	if len(found) < len(batch.Claims) {
		if err := p.obtain(ctx, batch, found, failed); err != nil {
			err = writeError(op, err)
			for _, claim := range batch.Claims {
				failed[string(claim.UID)] = err
			}
		}
	}
	for i, claim := range batch.Claims {
		m := found[string(claim.UID)]
		switch err := failed[string(claim.UID)]; {
		case m != nil:
			results[i] = p.result(op, claim, m)
		case err != nil:
			results[i] = cloud.Result{Err: err}
		default:
			results[i] = cloud.Result{Err: &cloud.Error{Class: cloud.InProgress, Op: op, Reason: reasonMachineMissing, Err: errors.New("the replicas are raised, and Cluster API has not created the Machine yet")}}
		}
	}
	return results
}

// all gives every claim the same error.
func all(results []cloud.Result, err error) []cloud.Result {
	for i := range results {
		results[i] = cloud.Result{Err: err}
	}
	return results
}

// obtain looks at the API server itself for claims of which the cache shows no Machine, raises replicas for those that nothing was done for,
// and gives Machines to those that wait for one.
func (p *Provider) obtain(ctx context.Context, batch cloud.Batch, found map[string]*kinds.Machine, failed map[string]error) error {
	waiting, err := p.look(ctx, batch, found)
	if err != nil {
		return err
	}
	var fresh []*karpv1.NodeClaim
	touched := map[key]bool{}
	for _, claim := range batch.Claims {
		if found[string(claim.UID)] != nil {
			continue
		}
		if k, ok := waiting[string(claim.UID)]; ok {
			touched[k] = true
		} else {
			fresh = append(fresh, claim)
		}
	}
	if len(fresh) > 0 {
		raised, err := p.order(ctx, batch, fresh)
		for _, claim := range fresh {
			if k, ok := raised[string(claim.UID)]; ok {
				touched[k] = true
			} else {
				failed[string(claim.UID)] = err
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(touched), compareKeys) {
		r, err := p.settle(ctx, k)
		if err != nil {
			return err
		}
		for _, claim := range batch.Claims {
			uid := string(claim.UID)
			if m := p.store.byClaim(uid); m != nil {
				found[uid] = m
			} else if waiting[uid] == k && r.find(uid) == nil {
				failed[uid] = &cloud.Error{
					Class: cloud.NoCapacity, Op: "launch batch " + batch.ID, Reason: reasonLowered,
					Err: fmt.Errorf("%s: somebody else has lowered spec.replicas before the Machine was created", k),
				}
			}
		}
	}
	return nil
}

// look asks the API server for Machines of the batch, and for claims of it that replicas have been raised for.
func (p *Provider) look(ctx context.Context, batch cloud.Batch, found map[string]*kinds.Machine) (waiting map[string]key, err error) {
	waiting = map[string]key{}
	// Scalable resources first: a claim leaves their record only when its Machine carries its name.
	records, unread, err := p.records(ctx)
	if err != nil {
		return nil, err
	}
	for _, claim := range batch.Claims {
		if err := unread.mentions(string(claim.UID)); err != nil {
			return nil, err // replicas may have been raised for it
		}
	}
	for k, r := range records {
		for _, l := range r.Launching {
			waiting[l.UID] = k
		}
	}
	made, err := p.made(ctx, batch.ID)
	if err != nil {
		return nil, err
	}
	for _, claim := range batch.Claims {
		if m := made[string(claim.UID)]; m != nil {
			found[string(claim.UID)] = m
		}
	}
	return waiting, nil
}

// unread are records that cannot be read, as they are, and why. The classes of their scalable resources say so too.
type unread map[string]error

// mentions says why a record cannot be read that has a text in it.
func (u unread) mentions(text string) error {
	for _, record := range slices.Sorted(maps.Keys(u)) {
		if strings.Contains(record, text) {
			return u[record]
		}
	}
	return nil
}

// records are those of all scalable resources that carry one, as the API server has them.
func (p *Provider) records(ctx context.Context) (map[key]record, unread, error) {
	out, bad := map[key]record{}, unread{}
	add := func(kind string, o *kinds.Scalable) {
		text, there := o.Annotations[v1alpha1.RecordAnnotationKey]
		copied := kind == kindSet && metav1.GetControllerOf(o) != nil // Cluster API copies annotations of MachineDeployments to their MachineSets
		if !there || copied || p.opt.Cluster != "" && o.Spec.ClusterName != p.opt.Cluster {
			return
		}
		k := key{kind, o.Namespace, o.Name}
		r, _, err := recordOf(o)
		if err != nil {
			bad[text] = &cloud.Error{Class: cloud.Unknown, Op: "read what was asked for", Reason: reasonRecordInvalid, Err: fmt.Errorf("%s: %w", k, err)}
			return
		}
		out[k] = r
	}
	deployments, sets := &kinds.MachineDeploymentList{}, &kinds.MachineSetList{}
	for _, list := range []client.ObjectList{deployments, sets} {
		if err := p.opt.Management.List(ctx, list, client.InNamespace(p.opt.Namespace)); err != nil {
			return nil, nil, err
		}
	}
	for i := range deployments.Items {
		add(kindDeployment, &deployments.Items[i].Scalable)
	}
	for i := range sets.Items {
		add(kindSet, &sets.Items[i].Scalable)
	}
	return out, bad, nil
}

// order raises replicas for claims, which are alike. It returns the scalable resources by claim; the error is for claims without one.
func (p *Provider) order(ctx context.Context, batch cloud.Batch, claims []*karpv1.NodeClaim) (raised map[string]key, err error) {
	op := "launch batch " + batch.ID
	choices, err := p.choose(batch, claims[0])
	if err != nil {
		return nil, err
	}
	raised = map[string]key{}
	for _, s := range choices {
		var left []*karpv1.NodeClaim
		for _, claim := range claims {
			if _, done := raised[string(claim.UID)]; !done {
				left = append(left, claim)
			}
		}
		if len(left) == 0 {
			return raised, nil
		}
		served, err := p.raise(ctx, s.key, batch.ID, left)
		if err != nil {
			return raised, writeError(op, err)
		}
		for _, uid := range served {
			raised[uid] = s.key
		}
	}
	if len(raised) < len(claims) {
		return raised, &cloud.Error{Class: cloud.NoCapacity, Op: op, Reason: reasonNoCapacity, Err: fmt.Errorf("every scalable resource that suits the claim has as many replicas as the annotation %s allows", kinds.MaxSizeAnnotation)}
	}
	return raised, nil
}

// choose lists the scalable resources that suit a claim, cheapest first.
func (p *Provider) choose(batch cloud.Batch, claim *karpv1.NodeClaim) ([]shape, error) {
	op, ref := "launch batch "+batch.ID, claim.Spec.NodeClassRef
	if ref == nil {
		return nil, &cloud.Error{Class: cloud.Invalid, Op: op, Reason: "NodeClassRefMissing", Err: errors.New("spec.nodeClassRef is not given")}
	}
	v, err := p.view(ref.Name)
	if err != nil {
		return nil, err
	}
	if err := launchable(v.from.class); err != nil {
		return nil, err
	}
	types := v.types
	if batch.Types != nil {
		types = batch.Types
	}
	rules := v1alpha1.LabelRules()
	w, err := kit.NewWish(claim, func(key string) (string, bool) {
		key = rules.Normalize(key)
		decided := key == karpv1.NodePoolLabelKey || key == v1alpha1.LabelNodeClass || key == corev1.LabelHostname
		return key, (rules.WellKnown.Has(key) || v.keys[key]) && !decided
	}, types.Resources)
	if err != nil {
		return nil, &cloud.Error{Class: cloud.Invalid, Op: op, Reason: "RequirementsInvalid", Err: err}
	}
	choice, err := kit.Choose(types.List, &w, kit.Rules{Reserved: func(o []kit.Option) []kit.Option { return o }, Exotic: devices(types.Resources)})
	if err != nil {
		return nil, &cloud.Error{Class: cloud.NoCapacity, Op: op, Reason: reasonNoCapacity, Err: err}
	}
	var out []shape
	for _, o := range choice.Options {
		for _, s := range v.shapes {
			suits := s.name == o.Type.Name && s.zone == o.Offering.Zone && s.purchase == o.Offering.CapacityType
			if suits && !s.full && !v.from.stock.Out[s.pool()] && tolerates(claim, &s) {
				out = append(out, s)
			}
		}
	}
	if len(out) == 0 {
		return nil, &cloud.Error{Class: cloud.NoCapacity, Op: op, Reason: reasonNoCapacity, Err: errors.New("every scalable resource that suits the claim is out of stock, or has taints that the claim has not")}
	}
	return out, nil
}

// devices says of a type that it has devices, which are kept for pods that need them.
func devices(names []string) func(*world.InstanceType) bool {
	return func(t *world.InstanceType) bool {
		for i := len(basic); i < len(names); i++ {
			if t.Capacity.Get(i) > 0 && !world.UnlimitedWhenAbsent(names[i]) {
				return true
			}
		}
		return false
	}
}

// tolerates says whether the claim has every taint that keeps pods from nodes of the shape.
func tolerates(claim *karpv1.NodeClaim, s *shape) bool {
	return !slices.ContainsFunc(s.hard(), func(t corev1.Taint) bool {
		return !declares(claim.Spec.Taints, t) && !declares(claim.Spec.StartupTaints, t)
	})
}

// launchable says why nothing can be launched for a class now, or returns nil.
func launchable(class *v1alpha1.ClusterAPINodeClass) error {
	fail := func(kind cloud.Class, reason, why string) error {
		return &cloud.Error{Class: kind, Op: "use class " + class.Name, Reason: reason, Err: errors.New(why)}
	}
	ready := class.StatusConditions().Root()
	switch {
	case class.DeletionTimestamp != nil:
		return fail(cloud.NotReady, karpv1.ReasonNodeClassTerminating, "the class is being deleted")
	case ready.Status == metav1.ConditionFalse:
		return fail(cloud.NotReady, "NodeClassNotReady", ready.Message)
	case ready.Status != metav1.ConditionTrue:
		return fail(cloud.Transient, karpv1.ReasonNodeClassReadinessUnknown, "the class is not Ready yet: "+ready.Message)
	}
	return nil
}

// raise raises the replicas of a scalable resource for as many of the claims as it may have, and returns the UIDs of these, with those of
// claims that turn out to be served already.
func (p *Provider) raise(ctx context.Context, k key, batch string, claims []*karpv1.NodeClaim) (served []string, err error) {
	unlock := p.scaling.lock(p.opt.Clock, k)
	defer unlock()
	_, err = p.swap(ctx, k, StepRaise, func(o *kinds.Scalable, next change) (change, error) {
		served = nil
		// Claims leave a record when their Machine says whose it is. So whoever is not in the record that was just read, and has no Machine
		// now, has been served by nobody, or the write will fail.
		made, err := p.made(ctx, batch)
		if err != nil {
			return next, err
		}
		machines := p.store.machinesOf(o)
		next.adjust(next.replicas, machines)
		var fresh []*karpv1.NodeClaim
		for _, claim := range claims {
			if uid := string(claim.UID); next.find(uid) != nil || made[uid] != nil {
				served = append(served, uid)
			} else {
				fresh = append(fresh, claim)
			}
		}
		spares, err := p.certain(ctx, &next.record, next.skim(machines), len(fresh))
		if err != nil {
			return next, err
		}
		spares = slices.DeleteFunc(spares, next.withhold) // what the cache did not show yet
		limits, err := limitsOf(o)
		if err != nil {
			return next, err
		}
		room := min(max(limits.room(o), 0)+len(spares), maxLaunching-len(next.Launching))
		fresh = fresh[:min(max(room, 0), len(fresh))]
		if len(fresh) == 0 {
			return next, errUnchanged
		}
		for _, claim := range fresh {
			served = append(served, string(claim.UID))
		}
		next.replicas += int32(next.raise(fresh, spares, p.opt.Clock.Now()))
		return next, nil
	})
	return served, err
}

// made are the Machines of a batch by the UID of their claim, as the API server has them.
func (p *Provider) made(ctx context.Context, batch string) (map[string]*kinds.Machine, error) {
	list := &kinds.MachineList{}
	if err := p.opt.Management.List(ctx, list, client.InNamespace(p.opt.Namespace), client.MatchingLabels{v1alpha1.LabelBatch: labelValue(batch)}); err != nil {
		return nil, err
	}
	out := map[string]*kinds.Machine{}
	for i := range list.Items {
		if m := &list.Items[i]; m.Annotations[v1alpha1.BatchAnnotationKey] == batch {
			out[m.Annotations[v1alpha1.ClaimUIDAnnotationKey]] = m
		}
	}
	return out, nil
}

// scarce are reasons by which infrastructure providers say that there is nothing left to make an instance of.
var scarce = regexp.MustCompile(`(?i)insufficient|outofstock|out_of_stock|quota|exhausted|nocapacity|noavailablehost|notenough`)

// failing is the reason by which infrastructure providers say that they could not make an instance. Many try again and succeed, so that it
// counts only when a Machine is older than failingFor.
var failing = regexp.MustCompile(`(?i)failed$`)

const failingFor = time.Minute

// result is what a claim learns of its Machine.
func (p *Provider) result(op string, claim *karpv1.NodeClaim, m *kinds.Machine) cloud.Result {
	refuse := func(reason, format string, args ...any) cloud.Result {
		return cloud.Result{Err: &cloud.Error{Class: cloud.NoCapacity, Op: op, Reason: reason, Err: fmt.Errorf(format, args...)}}
	}
	in := p.instance(m)
	p.describe(in, m)
	from := kit.Pool{CapacityType: in.CapacityType, Type: in.Type, Zone: in.Zone, Group: resourceOf(m).String()}
	if !m.DeletionTimestamp.IsZero() {
		return refuse(reasonMachineDeleted, "Machine %s is being deleted by somebody else", id(m))
	}
	if why, failed := m.Status.Failed(); failed {
		p.stock.Empty(from)
		return refuse(reasonMachineFailed, "Machine %s has failed: %s", id(m), why)
	}
	if in.ProviderID != "" {
		p.stock.Had(from)
		return cloud.Result{Instance: in}
	}
	if c := m.Status.Condition(kinds.ConditionInfrastructureReady); c.Status != "True" && scarce.MatchString(c.Reason) {
		p.stock.Empty(from)
		return refuse(reasonNoCapacity, "Machine %s cannot be provisioned: %s: %s", id(m), c.Reason, c.Message)
	}
	if c := m.Status.Condition(kinds.ConditionInfrastructureReady); c.Status != "True" && failing.MatchString(c.Reason) && p.opt.Clock.Now().Sub(m.CreationTimestamp.Time) > failingFor {
		p.stock.Empty(from)
		return refuse(reasonMachineFailed, "Machine %s cannot be provisioned: %s: %s", id(m), c.Reason, c.Message)
	}
	if age := p.opt.Clock.Now().Sub(m.CreationTimestamp.Time); age > p.opt.ProvisionTimeout {
		p.stock.Empty(from)
		return refuse(reasonProvisionLate, "Machine %s has no spec.providerID after %v; its infrastructure provider says: %s", id(m), p.opt.ProvisionTimeout, m.Status.Condition(kinds.ConditionInfrastructureReady).Message)
	}
	return cloud.Result{Instance: in}
}

// describe adds what a claim learns from having the Machine: labels, annotations, capacity.
func (p *Provider) describe(in *cloud.Instance, m *kinds.Machine) {
	in.Annotations = map[string]string{
		v1alpha1.MachineAnnotationKey: m.Name, v1alpha1.ClusterNameAnnotationKey: m.Spec.ClusterName, v1alpha1.ClusterNamespaceAnnotationKey: m.Namespace,
	}
	v, err := p.view(in.Class)
	if err != nil {
		return
	}
	k := resourceOf(m)
	at := slices.IndexFunc(v.shapes, func(s shape) bool { return s.key == k })
	if at < 0 {
		return
	}
	s := &v.shapes[at]
	in.Labels = maps.Clone(s.labels)
	in.Labels[corev1.LabelTopologyZone], in.Labels[karpv1.CapacityTypeLabelKey], in.Labels[v1alpha1.LabelNodeClass] = in.Zone, in.CapacityType, in.Class
	capacity, allocatable := s.vectors(v.types.Resources)
	in.Capacity, in.Allocatable = resourceList(capacity, v.types.Resources), resourceList(allocatable, v.types.Resources)
}

// resourceList puts a vector into Kubernetes' form.
func resourceList(r world.Resources, names []string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i, v := range r {
		name := corev1.ResourceName(names[i])
		switch {
		case v == 0 || world.UnlimitedWhenAbsent(names[i]): // of volumes, drivers tell what a node takes
		case i == world.CPU:
			out[name] = *resource.NewMilliQuantity(v, resource.DecimalSI)
		case i == world.Memory || i == world.Storage:
			out[name] = *resource.NewQuantity(v, resource.BinarySI)
		default:
			out[name] = *resource.NewQuantity(v, resource.DecimalSI)
		}
	}
	return out
}

// resourceOf is the scalable resource of a Machine that a claim has.
func resourceOf(m *kinds.Machine) key {
	kind, name, _ := strings.Cut(m.Annotations[v1alpha1.ResourceAnnotationKey], "/")
	return key{kind, m.Namespace, name}
}
