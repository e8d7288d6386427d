package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/capi/kinds"
)

// page is how many Machines are listed at once.
const page = 500

// waitingPrefix begins the ids of instances that have been asked for and have no Machine yet. The kind, namespace and name of the scalable
// resource and the claim's UID follow.
const waitingPrefix = "launching:"

// InstanceID is the id of the instance with a provider ID: the namespace and name of its Machine. One that no Machine has stands for
// itself.
func (p *Provider) InstanceID(providerID string) (string, error) {
	if !strings.Contains(providerID, "://") {
		return "", fmt.Errorf("%q is no provider ID; one has the form provider://id", providerID)
	}
	if m := p.store.byProviderID(providerID); m != nil {
		return id(m), nil
	}
	return providerID, nil
}

// instance is a Machine as an instance.
func (p *Provider) instance(m *kinds.Machine) *cloud.Instance {
	in := &cloud.Instance{
		ID: id(m), ProviderID: m.Spec.ProviderID, State: cloud.Running, Launched: m.CreationTimestamp.Time,
		Claim: m.Annotations[v1alpha1.ClaimAnnotationKey], Batch: m.Annotations[v1alpha1.BatchAnnotationKey],
		Pool: m.Annotations[v1alpha1.PoolAnnotationKey], Class: m.Annotations[v1alpha1.ClassAnnotationKey],
		ImageID:  m.Spec.InfrastructureRef.Kind + "/" + m.Spec.InfrastructureRef.Name,
		Unmarked: m.Annotations[v1alpha1.ClaimUIDAnnotationKey] == "", Tags: maps.Clone(m.Annotations),
	}
	switch {
	case !m.DeletionTimestamp.IsZero():
		in.State = cloud.ShuttingDown
	case in.ProviderID == "":
		in.State = cloud.Pending
	}
	k := resourceOf(m)
	if o := p.store.resource(k); o != nil {
		p.store.mu.RLock()
		template := p.store.templates[templateOf(o)]
		p.store.mu.RUnlock()
		if s, err := read(k, o, template, p.opt.Prices); err == nil {
			in.Type, in.Zone, in.CapacityType, in.ImageID = s.name, s.zone, s.purchase, s.image
		}
	}
	if v, err := p.view(in.Class); err == nil { // two scalable resources may give one instance type
		if at := slices.IndexFunc(v.shapes, func(s shape) bool { return s.key == k }); at >= 0 {
			in.Type = v.shapes[at].name
		}
	}
	if domain := m.Spec.FailureDomain; domain != "" {
		in.Zone = domain
	}
	return in
}

// find reads a Machine by the id of its instance from the API server.
func (p *Provider) find(ctx context.Context, op, instance string) (*kinds.Machine, error) {
	absent := &cloud.Error{Class: cloud.NotFound, Op: op, Reason: reasonMachineNotFound}
	if strings.Contains(instance, "://") {
		if m := p.store.byProviderID(instance); m != nil {
			instance = id(m)
		} else {
			return p.findByProviderID(ctx, op, instance, absent)
		}
	}
	namespace, name, ok := strings.Cut(instance, "/")
	if !ok {
		return nil, absent
	}
	m := &kinds.Machine{}
	if err := p.opt.Management.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, m); err != nil {
		return nil, readError(op, err)
	}
	if p.opt.Cluster != "" && m.Spec.ClusterName != p.opt.Cluster {
		return nil, &cloud.Error{Class: cloud.Denied, Op: op, Reason: cloud.ReasonNotOurs, Err: fmt.Errorf("it is of Cluster %s", m.Spec.ClusterName)}
	}
	return m, nil
}

func (p *Provider) findByProviderID(ctx context.Context, op, providerID string, absent error) (*kinds.Machine, error) {
	var found *kinds.Machine
	err := p.each(ctx, func(m *kinds.Machine) {
		if m.Spec.ProviderID == providerID {
			found = m.DeepCopyObject().(*kinds.Machine)
		}
	})
	switch {
	case err != nil:
		return nil, readError(op, err)
	case found == nil:
		return nil, absent
	}
	return found, nil
}

// each lists Machines page by page from the API server.
func (p *Provider) each(ctx context.Context, do func(*kinds.Machine), opts ...client.ListOption) error {
	next := ""
	for {
		list := &kinds.MachineList{}
		if err := p.opt.Management.List(ctx, list, append(opts, client.InNamespace(p.opt.Namespace), client.Limit(page), client.Continue(next))...); err != nil {
			return err
		}
		for i := range list.Items {
			do(&list.Items[i])
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// Get implements cloud.Fleet.
func (p *Provider) Get(ctx context.Context, instance string) (*cloud.Instance, error) {
	op := "look at instance " + instance
	if !p.store.ready() {
		return nil, &cloud.Error{Class: cloud.Transient, Op: op, Reason: cloud.ReasonNotLoaded, Err: errUnread}
	}
	if k, uid, ok := parseWaiting(instance); ok {
		r, err := p.settle(ctx, k)
		if err != nil {
			return nil, readError(op, err)
		}
		if l := r.find(uid); l != nil && l.Machine == "" {
			return waitingInstance(k, l), nil
		} else if l != nil {
			instance = k.namespace + "/" + l.Machine
		} else if m := p.store.byClaim(uid); m != nil {
			instance = id(m)
		} else {
			return nil, &cloud.Error{Class: cloud.NotFound, Op: op, Reason: reasonMachineNotFound}
		}
	}
	m, err := p.find(ctx, op, instance)
	if err != nil {
		return nil, err
	}
	return p.instance(m), nil
}

// List implements cloud.Fleet: the Machines that claims have, claims that wait for one, and spares, which no claim has.
func (p *Provider) List(ctx context.Context) ([]*cloud.Instance, error) {
	const op = "list instances"
	if !p.store.ready() {
		return nil, &cloud.Error{Class: cloud.Transient, Op: op, Reason: cloud.ReasonNotLoaded}
	}
	records, unread, err := p.records(ctx)
	if err == nil {
		err = unread.mentions(`"launching"`) // a list without the claims in there would be no proof that there is nothing for them
	}
	if err != nil {
		return nil, readError(op, err)
	}
	var list []*cloud.Instance
	for k, r := range records {
		if !p.mine(k) {
			continue
		}
		settled := true
		if len(r.Launching) > 0 || r.PausedFor != "" {
			if now, err := p.settle(ctx, k); err == nil || apierrors.IsNotFound(err) {
				r = now
			} else { // claims wait as they did, and Machines may not say yet whose they are; the next launch says what is wrong
				settled = false
			}
		}
		for i := range r.Launching {
			if r.Launching[i].Machine == "" || !settled {
				list = append(list, waitingInstance(k, &r.Launching[i]))
			}
		}
		for _, m := range r.spares(p.store.machinesOf(p.store.resource(k))) {
			in := p.instance(m)
			in.Unmarked = false
			list = append(list, in)
		}
	}
	err = p.each(ctx, func(m *kinds.Machine) {
		if p.opt.Cluster == "" || m.Spec.ClusterName == p.opt.Cluster {
			list = append(list, p.instance(m))
		}
	}, client.HasLabels{v1alpha1.LabelBatch})
	if err != nil {
		return nil, readError(op, err)
	}
	slices.SortFunc(list, func(a, b *cloud.Instance) int {
		if c := a.Launched.Compare(b.Launched); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return slices.CompactFunc(list, func(a, b *cloud.Instance) bool { return a.ID == b.ID }), nil
}

func waitingInstance(k key, l *launching) *cloud.Instance {
	return &cloud.Instance{
		ID: waitingPrefix + strings.Join([]string{k.kind, k.namespace, k.name, l.UID}, "/"), State: cloud.Pending,
		Claim: l.Claim, Batch: l.Batch, Pool: l.Pool, Class: l.Class,
	}
}

func parseWaiting(instance string) (k key, uid string, ok bool) {
	rest, ok := strings.CutPrefix(instance, waitingPrefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 4 {
		return k, "", false
	}
	return key{parts[0], parts[1], parts[2]}, parts[3], true
}

// Tag implements cloud.Fleet: tags are annotations of the Machine.
func (p *Provider) Tag(ctx context.Context, instance string, tags map[string]string) error {
	op := "tag instance " + instance
	m, err := p.find(ctx, op, instance)
	if err != nil {
		return err
	}
	fresh := map[string]string{}
	for k, v := range tags {
		if _, there := m.Annotations[k]; !there {
			fresh[k] = v
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return writeError(op, p.annotate(ctx, m, fresh))
}

func (p *Provider) annotate(ctx context.Context, m *kinds.Machine, annotations map[string]string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": m.UID, "annotations": annotations}})
	if err != nil {
		return err
	}
	return p.opt.Management.Patch(ctx, m, client.RawPatch(types.MergePatchType, body))
}

// Reboot implements cloud.Rebooter: Cluster API has no reboot.
func (p *Provider) Reboot(context.Context, *karpv1.NodeClaim, string) error {
	return &cloud.NodeRebootNotImplementedError{Provider: p.Name()}
}
