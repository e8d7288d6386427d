package claim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/meter"
	"karpenter/internal/wait"
)

// hookWait is when a pending hook is asked again that does not say, and devicesWait when devices are looked for again.
const (
	hookWait    = time.Second
	devicesWait = 5 * time.Second
)

// register makes the node the claim's: what the claim says is put on the node, pods are let in, and the claim remembers the
// node (L7, L10). While a hook is pending the node gets everything but pods (L9).
func (r *Lifecycle) register(ctx context.Context, t *task) (more bool, after time.Duration, err error) {
	claim, node := t.claim, t.node()
	asked, err := r.runHooks(ctx, claim)
	if err != nil || asked.stale {
		return false, soon, err
	}
	var written bool
	open := func() (err error) {
		written, err = r.join(ctx, claim, node, len(asked.pending) == 0)
		return err
	}
	if len(asked.pending) == 0 && r.Opener != nil && slices.ContainsFunc(node.Spec.Taints, isUnregistered) {
		after, err = r.Opener.Open(ctx, claim, node, open)
	} else {
		err = open()
	}
	if err != nil || after > 0 || !written {
		return false, max(after, soon), err
	}
	if len(asked.pending) > 0 {
		return r.awaitHooks(ctx, t, asked)
	}
	written, err = r.status(ctx, claim, func(now time.Time) {
		claim.Status.NodeName = node.Name
		claim.StatusConditions().SetTrue(karpv1.ConditionRegistered, now)
	})
	if !written {
		return false, soon, err
	}
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	r.Meter.Add(meter.NodeClaimsRegistered, 1, "nodepool", pool)
	r.Meter.Add(meter.NodesCreated, 1, "nodepool", pool, "zone", claim.Labels[corev1.LabelTopologyZone])
	control.Logger(ctx, r.Log).Info("registered nodeclaim", "NodeClaim", claim.Name, "NodePool", pool, "Node", node.Name, "provider-id", claim.Status.ProviderID)
	if r.Health != nil {
		r.Health.Joined(claim)
	}
	return true, 0, nil
}

// join puts on the node what its claim says, and lets pods in if it is to be opened. joined is false if somebody else has changed
// the node meanwhile.
func (r *Lifecycle) join(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, open bool) (joined bool, err error) {
	before := node.DeepCopy()
	if r.adorn(claim, node); open {
		admit(node)
	}
	if equality.Semantic.DeepEqual(before, node) {
		return true, nil
	}
	written, err := control.Patch(ctx, r.Client, node, before)
	if written && r.Wrote != nil {
		r.Wrote(node)
	}
	return written, err
}

// adorn puts on the node what its claim says: finalizer, owner, labels, annotations and, unless the node came with them or has
// been let in already, taints (L8).
func (r *Lifecycle) adorn(claim *karpv1.NodeClaim, node *corev1.Node) {
	registered := node.Labels[karpv1.NodeRegisteredLabelKey] == "true" && slices.ContainsFunc(node.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == claim.UID })
	if !registered && !slices.ContainsFunc(node.Spec.Taints, isUnregistered) {
		for _, obj := range []client.Object{claim, node} {
			r.Recorder.Tell(control.Event{
				Object: obj, Warning: true, Reason: eventTaintMissing,
				Message: fmt.Sprintf("Node %s joined without the taint %s, so that pods may have been bound before its taints and labels were set", node.Name, karpv1.UnregisteredTaintKey),
			})
		}
	}
	controllerutil.AddFinalizer(node, karpv1.TerminationFinalizer)
	own(claim, node)
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	for key, value := range claim.Labels {
		node.Labels[key] = value
	}
	for key, value := range claim.Annotations {
		// What was applied was a claim, and which pods that was made for is no matter of its node.
		if key != corev1.LastAppliedConfigAnnotation && key != karpv1.PlannedPodsAnnotationKey {
			control.Annotate(node, key, value)
		}
	}
	if registered || node.Labels[karpv1.DoNotSyncTaintsLabelKey] == "true" {
		return
	}
	for _, t := range slices.Concat(claim.Spec.Taints, claim.Spec.StartupTaints) {
		there := func(have corev1.Taint) bool { return have.Key == t.Key && have.Effect == t.Effect }
		if !slices.ContainsFunc(node.Spec.Taints, there) {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
}

// own makes the claim the node's owner.
func own(claim *karpv1.NodeClaim, node *corev1.Node) {
	owner := metav1.OwnerReference{
		APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodeClaim", Name: claim.Name, UID: claim.UID, BlockOwnerDeletion: new(true),
	}
	if at := slices.IndexFunc(node.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == claim.UID }); at < 0 {
		node.OwnerReferences = append(node.OwnerReferences, owner)
	}
}

// admit lets pods in.
func admit(node *corev1.Node) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isUnregistered)
	node.Labels[karpv1.NodeRegisteredLabelKey] = "true"
}

func isUnregistered(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey }

// hooks is what came of asking all hooks.
type hooks struct {
	// pending names those that are not done, sorted, and wait is when to ask again.
	pending []string
	wait    time.Duration
	// stale says that the claim has changed meanwhile, so that the answers are about another one.
	stale bool
}

// runHooks asks all hooks at once. Labels that they give are on the claim afterwards.
func (r *Lifecycle) runHooks(ctx context.Context, claim *karpv1.NodeClaim) (hooks, error) {
	answers, errs := make([]HookAnswer, len(r.Hooks)), make([]error, len(r.Hooks))
	wait.Each(r.Clock, len(r.Hooks), len(r.Hooks), func(i int) { answers[i], errs[i] = r.Hooks[i].Registered(ctx, claim.DeepCopy()) })
	var out hooks
	before := claim.DeepCopy()
	for i, answer := range answers {
		if errs[i] != nil {
			control.Logger(ctx, r.Log).Error("registration hook failed, asking again", "NodeClaim", claim.Name, "hook", r.Hooks[i].Name(), "error", errs[i])
		}
		if errs[i] != nil || answer.Pending {
			out.pending = append(out.pending, r.Hooks[i].Name())
			if answer.After <= 0 {
				answer.After = hookWait
			}
			if out.wait == 0 || answer.After < out.wait {
				out.wait = answer.After
			}
		}
		for key, value := range answer.Labels {
			metav1.SetMetaDataLabel(&claim.ObjectMeta, key, value)
		}
	}
	slices.Sort(out.pending)
	if equality.Semantic.DeepEqual(before, claim) {
		return out, nil
	}
	written, err := control.Patch(ctx, r.Client, claim, before)
	out.stale = !written
	return out, err
}

// awaitHooks writes down which hooks are pending, unless the claim has had its time.
func (r *Lifecycle) awaitHooks(ctx context.Context, t *task, asked hooks) (more bool, after time.Duration, err error) {
	t.step = life.Step{
		Do: life.Hold, Of: life.Registered, Reason: karpv1.ReasonRegistrationHookPending,
		Message: "waiting for " + strings.Join(asked.pending, ", "),
	}
	if cause, _ := life.Late(facts(t.claim, false), r.Limits, r.Clock.Now()); cause != "" {
		t.step.Do, t.step.Cause = life.GiveUp, cause
		after, err = r.giveUp(ctx, t)
		return false, after, err
	}
	return false, asked.wait, r.note(ctx, t.claim, t.step)
}

// initialize says on node and claim that the node is ready for the pods it was made for (L11).
func (r *Lifecycle) initialize(ctx context.Context, t *task) (more bool, after time.Duration, err error) {
	claim, node := t.claim, t.node()
	if r.Opener != nil {
		r.Opener.Opened(ctx, claim)
	}
	before := node.DeepCopy()
	metav1.SetMetaDataLabel(&node.ObjectMeta, karpv1.NodeInitializedLabelKey, "true")
	if !equality.Semantic.DeepEqual(before, node) {
		written, err := control.Patch(ctx, r.Client, node, before)
		if err != nil || !written {
			return false, soon, err
		}
		if r.Wrote != nil {
			r.Wrote(node)
		}
	}
	written, err := r.status(ctx, claim, func(now time.Time) {
		claim.StatusConditions().SetTrue(karpv1.ConditionInitialized, now)
		if len(shortages(claim, node)) == 0 { // Consistency would say so in a moment, and need another write for it
			claim.StatusConditions().SetTrue(karpv1.ConditionConsistentStateFound, now)
		}
	})
	if written {
		pool := claim.Labels[karpv1.NodePoolLabelKey]
		r.Meter.Add(meter.NodeClaimsInitialized, 1, "nodepool", pool)
		control.Logger(ctx, r.Log).Info("initialized nodeclaim", "NodeClaim", claim.Name, "NodePool", pool, "Node", node.Name,
			"provider-id", claim.Status.ProviderID, "allocatable", amounts(node.Status.Allocatable))
	}
	return written, soon, err
}

// published names the drivers whose devices on the node are complete (L25).
func (r *Lifecycle) published(ctx context.Context, node string) ([]string, error) {
	list := &resourcev1.ResourceSliceList{}
	if err := r.Devices.List(ctx, list, client.MatchingFields{resourcev1.ResourceSliceSelectorNodeName: node}); err != nil {
		return nil, fmt.Errorf("listing the devices of Node %s: %w", node, err)
	}
	var parts []life.Slice
	for i := range list.Items {
		spec := &list.Items[i].Spec
		parts = append(parts, life.Slice{Driver: spec.Driver, Pool: spec.Pool.Name, Generation: spec.Pool.Generation, Count: spec.Pool.ResourceSliceCount})
	}
	return life.Published(parts), nil
}
