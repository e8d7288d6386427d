package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/capi/v1alpha1"
	"karpenter/internal/cloud/capi/kinds"
	"karpenter/internal/wait"
)

const (
	// swaps bounds how often a write is tried again that somebody else was faster than, and swapPause is the wait between two: Cluster
	// API writes the status of what it is scaling several times a second.
	swaps     = 40
	swapPause = 25 * time.Millisecond
	// writers is how many Machines are written at once.
	writers = 16
)

// object is an empty scalable resource of a kind, and the part of it that both kinds have.
func (k key) object() (client.Object, *kinds.Scalable) {
	if k.kind == kindSet {
		o := &kinds.MachineSet{}
		o.Namespace, o.Name = k.namespace, k.name
		return o, &o.Scalable
	}
	o := &kinds.MachineDeployment{}
	o.Namespace, o.Name = k.namespace, k.name
	return o, &o.Scalable
}

// get reads a scalable resource from the API server.
func (p *Provider) get(ctx context.Context, k key) (*kinds.Scalable, error) {
	obj, o := k.object()
	if err := p.opt.Management.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return nil, err
	}
	return o, nil
}

// change is what one write does to a scalable resource: its record and replicas as they are to be, and annotations to set, or to remove
// where they are nil.
type change struct {
	record
	replicas    int32
	annotations map[string]any
}

var errUnchanged = errors.New("nothing to write")

// swap changes a scalable resource in one write that has no effect if somebody else has changed it meanwhile; then it is read and worked
// out again. decide returns errUnchanged if there is nothing to do. It must be called with the resource's lock held.
func (p *Provider) swap(ctx context.Context, k key, step Step, decide func(o *kinds.Scalable, now change) (change, error)) (*kinds.Scalable, error) {
	for range swaps {
		o, err := p.get(ctx, k)
		if err != nil {
			return nil, err
		}
		r, known, err := recordOf(o)
		if err == nil && !known {
			r.Others, err = p.present(ctx, o)
			r.Replicas = replicas(o)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		next, err := decide(o, change{record: r.clone(), replicas: replicas(o)})
		if errors.Is(err, errUnchanged) {
			return o, nil
		}
		if err != nil {
			return nil, err
		}
		p.reach(step, false)
		err = p.write(ctx, k, o, next)
		p.reach(step, true)
		switch {
		case err == nil:
			return o, nil
		case !apierrors.IsConflict(err):
			return nil, err
		case !wait.For(ctx, p.opt.Clock, swapPause):
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("%s is changed by others all the time", k)
}

// present names the Machines that a scalable resource has, which claims must not be given.
func (p *Provider) present(ctx context.Context, o *kinds.Scalable) ([]string, error) {
	s, err := metav1.LabelSelectorAsSelector(&o.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	list := &kinds.MachineList{}
	if err := p.opt.Management.List(ctx, list, client.InNamespace(o.Namespace), client.MatchingLabelsSelector{Selector: s}); err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if len(names) > maxOthers {
		return nil, fmt.Errorf("it has %d Machines already, and Karpenter can tell apart its own from %d; use another resource", len(names), maxOthers)
	}
	slices.Sort(names)
	return names, nil
}

// write sends a change.
func (p *Provider) write(ctx context.Context, k key, o *kinds.Scalable, next change) error {
	text, err := json.Marshal(next.record)
	if err != nil {
		return err
	}
	annotations := map[string]any{v1alpha1.RecordAnnotationKey: string(text)}
	for name, value := range next.annotations {
		annotations[name] = value
	}
	patch := map[string]any{"metadata": map[string]any{"uid": o.UID, "resourceVersion": o.ResourceVersion, "annotations": annotations}}
	if next.replicas != replicas(o) {
		patch["spec"] = map[string]any{"replicas": next.replicas}
	}
	return p.patch(ctx, k, patch)
}

func (p *Provider) patch(ctx context.Context, k key, patch any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	obj, _ := k.object()
	return p.opt.Management.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body))
}

// settle gives Machines to the claims that wait for one of a scalable resource, and says on the Machines whose they are. It returns the
// record as it is then.
func (p *Provider) settle(ctx context.Context, k key) (record, error) {
	unlock := p.scaling.lock(p.opt.Clock, k)
	defer unlock()
	var now record
	_, err := p.swap(ctx, k, StepAssign, func(o *kinds.Scalable, next change) (change, error) {
		machines := p.store.machinesOf(o)
		next.adjust(next.replicas, machines)
		changed := false
		if n := next.unassigned(); n > 0 {
			free, err := p.certain(ctx, &next.record, machines, n)
			if err != nil {
				return next, err
			}
			changed = next.assign(free)
			if p.lost(o, &next.record, machines) {
				changed = true
			}
		}
		now = next.record
		if !changed {
			return next, errUnchanged
		}
		return next, nil
	})
	if err == nil {
		err = p.resume(ctx, k, now)
	}
	if err != nil || len(now.Launching) == 0 {
		return now, err
	}
	done, err := p.claim(ctx, k, now)
	if err != nil || len(done) == 0 {
		return now, err
	}
	_, err = p.swap(ctx, k, StepPrune, func(_ *kinds.Scalable, next change) (change, error) {
		if !next.drop(func(l *launching) bool { return done[l.UID] }) {
			return next, errUnchanged
		}
		return next, nil
	})
	return now, err
}

// certain are at most n Machines that may be given to claims, oldest first, each as the API server has it: the cache may not show yet
// that a claim has got one.
func (p *Provider) certain(ctx context.Context, r *record, machines []*kinds.Machine, n int) ([]*kinds.Machine, error) {
	var free []*kinds.Machine
	for _, m := range machines {
		if len(free) < n && r.free(m) {
			free = append(free, m)
		}
	}
	live, errs := make([]*kinds.Machine, len(free)), make([]error, len(free))
	wait.Each(p.opt.Clock, len(free), writers, func(i int) {
		m := &kinds.Machine{}
		errs[i] = client.IgnoreNotFound(p.opt.Management.Get(ctx, client.ObjectKeyFromObject(free[i]), m))
		if errs[i] == nil && m.UID == free[i].UID && r.free(m) {
			live[i] = m
		}
	})
	return slices.DeleteFunc(live, func(m *kinds.Machine) bool { return m == nil }), errors.Join(errs...)
}

// lost drops claims for which no Machine will come, because somebody else has lowered the replicas again. Until a Machine that is being
// deleted is gone, Cluster API counts it and makes none in its place, so that it is not counted here: those to come are waited for.
func (p *Provider) lost(o *kinds.Scalable, r *record, machines []*kinds.Machine) bool {
	stay := 0
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() {
			stay++
		}
	}
	if !observed(o) || stay < int(replicas(o)) {
		return false
	}
	deadline := p.opt.Clock.Now().Add(-lostAfter).Unix()
	before := len(r.Launching)
	changed := r.drop(func(l *launching) bool { return l.Machine == "" && l.At < deadline })
	r.Machines = max(r.Machines-(before-len(r.Launching)), 0)
	return changed
}

// claim says on the Machines that claims have been given whose they are. It returns the claims of which that is known.
func (p *Provider) claim(ctx context.Context, k key, r record) (done map[string]bool, err error) {
	var given []launching
	for _, l := range r.Launching {
		if l.Machine != "" {
			given = append(given, l)
		}
	}
	errs := make([]error, len(given))
	wait.Each(p.opt.Clock, len(given), writers, func(i int) { errs[i] = p.claimOne(ctx, k, given[i]) })
	done = map[string]bool{}
	for i, l := range given {
		// The claim of a Machine that is gone has lost it: its next launch begins anew.
		if errs[i] == nil || apierrors.IsNotFound(errs[i]) {
			done[l.UID], errs[i] = true, nil
		}
	}
	return done, errors.Join(errs...)
}

func (p *Provider) claimOne(ctx context.Context, k key, l launching) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]string{v1alpha1.LabelBatch: labelValue(l.Batch)},
		"annotations": map[string]string{
			v1alpha1.ClaimAnnotationKey: l.Claim, v1alpha1.ClaimUIDAnnotationKey: l.UID, v1alpha1.PoolAnnotationKey: l.Pool, v1alpha1.ClassAnnotationKey: l.Class,
			v1alpha1.ResourceAnnotationKey: k.kind + "/" + k.name, v1alpha1.BatchAnnotationKey: l.Batch,
		},
	}})
	if err != nil {
		return err
	}
	m := &kinds.Machine{}
	m.Namespace, m.Name = k.namespace, l.Machine
	p.reach(StepClaim, false)
	err = p.opt.Management.Patch(ctx, m, client.RawPatch(types.MergePatchType, body))
	p.reach(StepClaim, true)
	if err == nil {
		p.store.renew(m) // sooner than the cache shows it
	}
	return err
}
