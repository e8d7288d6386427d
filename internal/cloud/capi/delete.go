package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/capi/v1alpha1"
	"karpenter/cloud"
	"karpenter/internal/cloud/capi/kinds"
	"karpenter/internal/wait"
)

// Delete implements cloud.Fleet. The Machine is marked, so that Cluster API takes no other one; then the replicas are lowered, once, in a
// write that notes the Machine; then the Machine is deleted. Each step may be repeated, and what a process leaves undone the next call does.
// A Machine that somebody else deletes is left to that: Cluster API makes another one, which is a spare then.
func (p *Provider) Delete(ctx context.Context, instance string) error {
	op := "delete instance " + instance
	if !p.store.ready() {
		return &cloud.Error{Class: cloud.Transient, Op: op, Reason: cloud.ReasonNotLoaded, Err: errUnread}
	}
	if k, uid, ok := parseWaiting(instance); ok {
		found, err := p.awaited(ctx, op, k, uid)
		if err != nil {
			return err
		}
		instance = found
	}
	m, err := p.find(ctx, op, instance)
	if err != nil {
		return err
	}
	k, known := p.owner(m)
	if !known {
		return p.end(ctx, op, m) // nothing counts it any more
	}
	unlock := p.scaling.lock(p.opt.Clock, k)
	defer unlock()
	o, err := p.get(ctx, k)
	if apierrors.IsNotFound(err) {
		return p.end(ctx, op, m)
	}
	if err != nil {
		return readError(op, err)
	}
	r, _, err := recordOf(o)
	if err != nil {
		return &cloud.Error{Class: cloud.Invalid, Op: op, Reason: reasonRecordInvalid, Err: fmt.Errorf("%s: %w", k, err)}
	}
	if slices.Contains(r.Ending, m.Name) {
		return p.end(ctx, op, m)
	}
	if err := p.resume(ctx, k, r); err != nil {
		return writeError(op, err)
	}
	if !m.DeletionTimestamp.IsZero() {
		return nil
	}
	if _, marked := m.Annotations[kinds.DeleteMachineAnnotation]; !marked {
		p.reach(StepMark, false)
		err := p.annotate(ctx, m, map[string]string{kinds.DeleteMachineAnnotation: "true"})
		p.reach(StepMark, true)
		if err != nil {
			return writeError(op, err)
		}
	}
	if err := p.lower(ctx, k, m); err != nil {
		return writeError(op, err)
	}
	return p.end(ctx, op, m)
}

// awaited is the Machine of a claim that waited for one when it was listed.
func (p *Provider) awaited(ctx context.Context, op string, k key, uid string) (instance string, err error) {
	r, err := p.settle(ctx, k)
	if err != nil {
		return "", writeError(op, err)
	}
	switch l := r.find(uid); {
	case l != nil && l.Machine != "":
		return k.namespace + "/" + l.Machine, nil
	case l != nil:
		// To lower the replicas now might end the Machine of another claim: nobody can mark what is not there.
		return "", &cloud.Error{Class: cloud.Transient, Op: op, Reason: reasonMachineMissing, Err: fmt.Errorf("%s has not created the Machine yet, which must be there to be deleted", k)}
	}
	if m := p.store.byClaim(uid); m != nil {
		return id(m), nil
	}
	return "", &cloud.Error{Class: cloud.NotFound, Op: op, Reason: reasonMachineNotFound}
}

// owner is the scalable resource that counts a Machine.
func (p *Provider) owner(m *kinds.Machine) (key, bool) {
	if k := resourceOf(m); k.name != "" {
		return k, true
	}
	for _, k := range p.store.members() {
		if o := p.store.resource(k); o != nil && slices.ContainsFunc(p.store.machinesOf(o), func(have *kinds.Machine) bool { return id(have) == id(m) }) {
			return k, true
		}
	}
	return key{}, false
}

// end deletes a Machine object.
func (p *Provider) end(ctx context.Context, op string, m *kinds.Machine) error {
	if !m.DeletionTimestamp.IsZero() {
		return nil
	}
	p.reach(StepDelete, false)
	err := p.opt.Management.Delete(ctx, m, client.Preconditions{UID: &m.UID})
	p.reach(StepDelete, true)
	return writeError(op, client.IgnoreNotFound(err))
}

// lower lowers the replicas for a Machine that is marked. In a rollout a MachineDeployment decides by itself which of its MachineSets has
// one Machine less, so then it is paused while the right one is scaled. Each step waits until Cluster API has seen the one before: its
// watches of MachineDeployments and MachineSets run beside each other, and one that has seen the second step alone would remove another
// Machine, or add one.
func (p *Provider) lower(ctx context.Context, k key, m *kinds.Machine) error {
	set := ""
	if k.kind == kindDeployment {
		var err error
		if set, err = p.rolling(ctx, k, m); err != nil {
			return err
		}
	}
	least := false // whether the resource has as few replicas as it may have
	if set != "" {
		if err := p.halt(ctx, k, m.Name, &least); err != nil {
			return err
		}
		if !least {
			set := key{kindSet, k.namespace, set}
			if err := p.shrink(ctx, set, m); err != nil {
				return err
			}
			if err := p.heeded(ctx, set, "that it has a replica less", observed); err != nil {
				return err
			}
		}
	}
	return p.lowered(ctx, k, m.Name)
}

// lowered lowers the replicas for a Machine, once, and has the MachineDeployment go on if it was paused.
func (p *Provider) lowered(ctx context.Context, k key, machine string) error {
	_, err := p.swap(ctx, k, StepLower, func(o *kinds.Scalable, next change) (change, error) {
		if next.PausedFor != "" && next.PausedFor != machine {
			return next, notYet("%s is paused until Machine %s, whose deletion was cut off, is deleted", k, next.PausedFor)
		}
		if slices.Contains(next.Ending, machine) {
			if next.PausedFor != machine {
				return next, errUnchanged
			}
			next.goOn() // what was left undone was done by somebody else meanwhile
			return next, nil
		}
		next.adjust(next.replicas, p.store.machinesOf(o))
		limits, err := limitsOf(o)
		if err != nil {
			limits.min = 0
		}
		if err := p.forget(ctx, &next.record, k.namespace); err != nil {
			return next, err
		}
		if next.replicas > limits.min { // otherwise Cluster API replaces the Machine
			next.replicas--
			next.Replicas--
		}
		next.Machines = max(next.Machines-1, 0)
		next.Ending = append(next.Ending, machine)
		next.drop(func(l *launching) bool { return l.Machine == machine })
		next.goOn()
		return next, nil
	})
	return err
}

// goOn has a MachineDeployment go on that Karpenter has paused.
func (c *change) goOn() {
	if c.PausedFor != "" {
		c.PausedFor, c.annotations = "", map[string]any{kinds.PausedAnnotation: nil}
	}
}

// resume does what is left to do for a Machine that a MachineDeployment is paused for and that is gone or going: a process may have ended
// after its MachineSet was scaled, and nobody asks for the deletion of such a Machine again. It must be called with the resource's lock held.
func (p *Provider) resume(ctx context.Context, k key, r record) error {
	if r.PausedFor == "" {
		return nil
	}
	m := &kinds.Machine{}
	err := p.opt.Management.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: r.PausedFor}, m)
	if client.IgnoreNotFound(err) != nil || err == nil && m.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	sets, err := p.sets(ctx, k)
	if err != nil {
		return err
	}
	for i := range sets {
		if o := &sets[i].Scalable; slices.Contains(loweredFor(o), r.PausedFor) {
			if !observed(o) {
				return nil // the next call does it
			}
			return p.lowered(ctx, k, r.PausedFor)
		}
	}
	_, err = p.swap(ctx, k, StepLower, func(_ *kinds.Scalable, next change) (change, error) {
		if next.PausedFor != r.PausedFor {
			return next, errUnchanged
		}
		next.goOn() // somebody else has deleted it, and Cluster API replaces it
		return next, nil
	})
	return err
}

// sets are the MachineSets of a MachineDeployment, as the API server has them.
func (p *Provider) sets(ctx context.Context, k key) ([]kinds.MachineSet, error) {
	list := &kinds.MachineSetList{}
	err := p.opt.Management.List(ctx, list, client.InNamespace(k.namespace), client.MatchingLabels{kinds.DeploymentNameLabel: k.name})
	return list.Items, err
}

// loweredFor are Machines that the replicas of a MachineSet were lowered for.
func loweredFor(o *kinds.Scalable) []string {
	return strings.Split(o.Annotations[v1alpha1.LoweredAnnotationKey], ",")
}

// forget drops Machines from the record that are gone.
func (p *Provider) forget(ctx context.Context, r *record, namespace string) error {
	gone := func(name string) bool { return p.store.machine(namespace+"/"+name) == nil }
	r.Others = slices.DeleteFunc(r.Others, gone)
	var suspects []string
	for _, name := range r.Ending {
		if gone(name) {
			suspects = append(suspects, name)
		}
	}
	errs := make([]error, len(suspects))
	wait.Each(p.opt.Clock, len(suspects), writers, func(i int) {
		errs[i] = p.opt.Management.Get(ctx, client.ObjectKey{Namespace: namespace, Name: suspects[i]}, &kinds.Machine{})
	})
	for i, name := range suspects {
		if apierrors.IsNotFound(errs[i]) {
			r.Ending = slices.DeleteFunc(r.Ending, func(have string) bool { return have == name })
			errs[i] = nil
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(r.Ending) >= maxEnding {
		return fmt.Errorf("%d Machines of it are being deleted already; this one waits", len(r.Ending))
	}
	return nil
}

// rolling is the MachineSet of a Machine if its MachineDeployment has several that have Machines, or "".
func (p *Provider) rolling(ctx context.Context, k key, m *kinds.Machine) (set string, err error) {
	sets, err := p.sets(ctx, k)
	if err != nil {
		return "", err
	}
	others := 0
	for i := range sets {
		o := &sets[i].Scalable
		owner := metav1.GetControllerOf(m)
		switch {
		case owner != nil && owner.UID == o.UID:
			set = o.Name
		case replicas(o) > 0:
			others++
		}
	}
	if others == 0 {
		return "", nil
	}
	return set, nil
}

// halt pauses a MachineDeployment for a Machine, unless somebody has paused it.
func (p *Provider) halt(ctx context.Context, k key, machine string, least *bool) error {
	paused := func(o *kinds.Scalable) bool { _, is := o.Annotations[kinds.PausedAnnotation]; return is }
	says := func(o *kinds.Scalable, status string) bool {
		is := o.Status.Condition(kinds.ConditionPaused).Status
		return is == status || is == "" // Cluster API before 1.9 does not say
	}
	// What it says may be left from the last time.
	err := p.heeded(ctx, k, "that it goes on", func(o *kinds.Scalable) bool { return paused(o) || says(o, "False") })
	if err != nil {
		return err
	}
	_, err = p.swap(ctx, k, StepPause, func(o *kinds.Scalable, next change) (change, error) {
		if limits, err := limitsOf(o); err == nil {
			*least = next.replicas <= limits.min
		}
		if paused(o) {
			return next, errUnchanged
		}
		next.PausedFor, next.annotations = machine, map[string]any{kinds.PausedAnnotation: pausedBy}
		return next, nil
	})
	if err != nil {
		return err
	}
	return p.heeded(ctx, k, "that it is paused", func(o *kinds.Scalable) bool { return says(o, "True") })
}

// heeded waits until Cluster API has seen what was written to a scalable resource. It gives up when that takes long: every step may be
// repeated.
func (p *Provider) heeded(ctx context.Context, k key, what string, is func(*kinds.Scalable) bool) error {
	for range swaps {
		o, err := p.get(ctx, k)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		if is(o) {
			return nil
		}
		if !wait.For(ctx, p.opt.Clock, swapPause) {
			return ctx.Err()
		}
	}
	return notYet("Cluster API has not seen of %s yet %s", k, what)
}

// observed says whether Cluster API has seen a scalable resource as it is.
func observed(o *kinds.Scalable) bool { return o.Status.ObservedGeneration >= o.Generation }

// notYet says what has to be waited for.
func notYet(format string, args ...any) error {
	return &cloud.Error{Class: cloud.Transient, Op: "lower replicas", Reason: reasonNotHeeded, Err: fmt.Errorf(format, args...)}
}

// shrink lowers the replicas of a MachineSet for a Machine, once.
func (p *Provider) shrink(ctx context.Context, k key, m *kinds.Machine) error {
	for range swaps {
		o, err := p.get(ctx, k)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		done := loweredFor(o)
		if slices.Contains(done, m.Name) || replicas(o) == 0 {
			return nil
		}
		// Of those before, only the ones that still are there matter.
		done = slices.DeleteFunc(done, func(name string) bool { return p.store.machine(k.namespace+"/"+name) == nil })
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{
				"uid": o.UID, "resourceVersion": o.ResourceVersion,
				"annotations": map[string]string{v1alpha1.LoweredAnnotationKey: strings.Join(append(done, m.Name), ",")},
			},
			"spec": map[string]any{"replicas": replicas(o) - 1},
		})
		if err != nil {
			return err
		}
		obj, _ := k.object()
		p.reach(StepShrink, false)
		err = p.opt.Management.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body))
		p.reach(StepShrink, true)
		switch {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err):
			return err
		case !wait.For(ctx, p.opt.Clock, swapPause):
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s is changed by others all the time", k)
}
