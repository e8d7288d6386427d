package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/meter"
	"karpenter/internal/wait"
)

const (
	// launchTimeout bounds one call for a batch. What it leaves open the next one finds.
	launchTimeout = 2 * time.Minute
	// recorders is how many claims of a batch are written at once.
	recorders = 8
)

// launch gets the claim an instance, together with the others of its batch. What another worker is doing for the batch, and what
// was tried a moment ago, is waited for.
func (r *Lifecycle) launch(ctx context.Context, claim *karpv1.NodeClaim, left time.Duration) (more bool, after time.Duration, err error) {
	if in := r.inFlight.instance(claim.UID); in != nil {
		if more, err = r.record(ctx, claim, in); more {
			r.recordLaunches([]answer{{claim, cloud.Result{Instance: in}}})
		}
		return more, soon, err
	}
	if r.Overlays != nil && !r.Overlays.Synced() {
		return false, soon, nil
	}
	batch := cloud.BatchID(claim)
	window, err := r.window(ctx, claim)
	if err != nil {
		return false, 0, err
	}
	wait, ok := r.inFlight.start(batch, claim.UID, window, r.Clock.Now())
	if !ok {
		if left > 0 {
			wait = min(wait, left)
		}
		return false, wait, nil
	}
	after, err = r.launchBatch(ctx, batch, claim)
	return claim.Status.ProviderID != "" && err == nil, after, err
}

// window is how long the batch of a claim waits for more of its claims after the last one has come. All of them are launched by
// one call, and a claim that comes after that call finds no instance left.
func (r *Lifecycle) window(ctx context.Context, claim *karpv1.NodeClaim) (time.Duration, error) {
	batch := claim.Annotations[cloud.BatchAnnotationKey]
	if batch == "" {
		return 0, nil
	}
	size := size(batch)
	if size == 0 {
		return gather, nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims, client.MatchingFields{indexClaimBatch: batch}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("counting the claims of batch %s: %w", batch, err)
	}
	if len(claims.Items) < size {
		return patience, nil
	}
	return 0, nil
}

// size is how many claims a batch has, if its id says so: it then ends with an x and the number.
func size(batch string) int {
	n, err := strconv.Atoi(batch[strings.LastIndexByte(batch, 'x')+1:])
	if err != nil || n < 1 || n > cloud.MaxBatch || !strings.Contains(batch, "x") {
		return 0
	}
	return n
}

// answer is what became of one claim of a batch.
type answer struct {
	claim *karpv1.NodeClaim
	cloud.Result
}

// launchBatch launches a batch once and writes down what came of it, for each of its claims. The claim that asked is among them.
func (r *Lifecycle) launchBatch(ctx context.Context, batch string, asking *karpv1.NodeClaim) (again time.Duration, err error) {
	worst := cloud.Unknown // if this ends early
	defer func() {
		if wait := r.inFlight.finish(batch, worst, r.Clock.Now()); wait > 0 {
			again = wait
		}
	}()
	members, taken, err := r.gather(ctx, batch, asking)
	if err == nil {
		members, err = r.confirm(ctx, members, taken)
	}
	// Whoever ends a claim has said so before, or waits from now on.
	members = slices.DeleteFunc(members, func(c *karpv1.NodeClaim) bool { return !r.inFlight.stays(c) })
	if err != nil || len(members) == 0 {
		worst = cloud.Transient
		return 0, err
	}
	answers := r.ask(ctx, batch, members, taken)
	worst = r.worst(ctx, answers)
	if slices.ContainsFunc(answers, func(a answer) bool { return a.Err != nil && cloud.ClassOf(a.Err) == cloud.Unknown }) {
		defer func() { r.inFlight.doubt(batch, r.Clock.Now()) }()
	}
	return soon, r.settle(ctx, answers)
}

// worst is the class of failure that decides when the batch is tried again; empty if no claim needs that.
func (r *Lifecycle) worst(ctx context.Context, answers []answer) cloud.Class {
	var found cloud.Class
	var first error
	for _, a := range answers {
		class := cloud.ClassOf(a.Err)
		if a.Instance != nil && a.Instance.ProviderID == "" {
			class = cloud.InProgress
		}
		if class == "" || class.Response().GiveUp {
			continue
		}
		if found == "" || class.Response().Most > found.Response().Most {
			found, first = class, a.Err
		}
	}
	if first != nil && found != cloud.InProgress && !errors.Is(first, context.Canceled) {
		control.Logger(ctx, r.Log).Error("could not launch nodeclaims, trying again", "batch", cloud.BatchID(answers[0].claim), "count", len(answers), "class", string(found),
			"reason", cloud.ReasonOf(first), "error", first)
	}
	return found
}

// gather finds the claims of a batch that have no instance yet, by name, and the instances that others of it have. Each is kept
// until its instance is gone before there can be one (L2).
func (r *Lifecycle) gather(ctx context.Context, batch string, asking *karpv1.NodeClaim) (members []*karpv1.NodeClaim, taken map[string]bool, err error) {
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims, client.MatchingFields{indexClaimBatch: batch}); err != nil {
		return nil, nil, fmt.Errorf("listing the claims of batch %s: %w", batch, err)
	}
	members, taken = []*karpv1.NodeClaim{asking}, map[string]bool{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		switch held := r.inFlight.instance(claim.UID); {
		case claim.UID == asking.UID || !claim.Spec.NodeClassRef.Is(r.Class):
		case claim.Status.ProviderID != "":
			if id, err := r.InstanceID(claim.Status.ProviderID); err == nil {
				taken[id] = true
			}
		case held != nil:
			taken[held.ID] = true
		case claim.DeletionTimestamp.IsZero():
			before := claim.DeepCopy()
			if controllerutil.AddFinalizer(claim, karpv1.TerminationFinalizer) {
				if written, err := control.Patch(ctx, r.Client, claim, before); err != nil || !written {
					return nil, nil, err // not without it, and not without the claim either
				}
			}
			members = append(members, claim)
		}
	}
	slices.SortFunc(members, func(a, b *karpv1.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
	return members, taken, nil
}

// confirm asks the API server itself about claims that were there before this process: another one may have given them instances
// that a cache which is behind does not show, and one of those must not go to another claim. Those that have one, or are gone, are
// left out.
func (r *Lifecycle) confirm(ctx context.Context, members []*karpv1.NodeClaim, taken map[string]bool) ([]*karpv1.NodeClaim, error) {
	if r.Live == nil {
		return members, nil
	}
	var kept []*karpv1.NodeClaim
	for _, claim := range members {
		if !claim.CreationTimestamp.Time.Before(r.Limits.Watching) {
			kept = append(kept, claim)
			continue
		}
		now := &karpv1.NodeClaim{}
		switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(claim), now); {
		case apierrors.IsNotFound(err), err == nil && now.UID != claim.UID:
		case err != nil:
			return nil, fmt.Errorf("reading NodeClaim %s: %w", claim.Name, err)
		case now.Status.ProviderID == "":
			kept = append(kept, claim)
		default:
			if id, err := r.InstanceID(now.Status.ProviderID); err == nil {
				taken[id] = true
			}
		}
	}
	return kept, nil
}

// ask has the cloud launch the claims. Those that are no longer alike, because a process ended while it was writing one of them
// down, are asked for separately. No instance is taken twice, whatever the cloud says.
func (r *Lifecycle) ask(ctx context.Context, batch string, members []*karpv1.NodeClaim, taken map[string]bool) []answer {
	ctx, cancel := wait.Timeout(ctx, r.Clock, launchTimeout)
	defer cancel()
	var answers []answer
	for _, group := range alike(members) {
		results := r.Launcher.Launch(ctx, cloud.Batch{ID: batch, Claims: group, Taken: maps.Clone(taken), Types: r.overlaid(group[0])})
		if len(results) > 0 && results[0].Advice != "" {
			control.Logger(ctx, r.Log).Info("launched with little choice", "batch", batch, "NodePool", group[0].Labels[karpv1.NodePoolLabelKey], "advice", results[0].Advice)
		}
		for i, claim := range group {
			result := cloud.Result{Err: &cloud.Error{Class: cloud.Unknown, Op: "launch batch " + batch, Reason: "NoAnswer"}}
			if i < len(results) {
				result = results[i]
			}
			if in := result.Instance; in != nil {
				if taken[in.ID] {
					result = cloud.Result{Err: &cloud.Error{
						Class: cloud.NoCapacity, Op: "launch batch " + batch, Reason: "InsufficientCapacity",
						Err: fmt.Errorf("instance %s belongs to another claim", in.ID),
					}}
				} else {
					taken[in.ID] = true
					if in.ProviderID != "" {
						r.inFlight.hold(claim.Name, claim.UID, in)
					}
				}
			}
			answers = append(answers, answer{claim, result})
		}
	}
	return answers
}

// overlaid is what a claim may be launched as where NodeOverlays have a say in that, else nil.
func (r *Lifecycle) overlaid(claim *karpv1.NodeClaim) *cloud.Types {
	if r.Overlays == nil {
		return nil
	}
	resources, list, ok := r.Overlays.Overlaid(claim)
	if !ok {
		return nil
	}
	return &cloud.Types{Resources: resources, List: list}
}

// alike puts claims that an instance of one can serve as well as one of the other into groups, in order.
func alike(members []*karpv1.NodeClaim) [][]*karpv1.NodeClaim {
	var groups [][]*karpv1.NodeClaim
	at := map[string]int{}
	for _, claim := range members {
		print := cloud.Fingerprint(claim)
		i, ok := at[print]
		if !ok || len(groups[i]) >= cloud.MaxBatch {
			i = len(groups)
			at[print] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], claim)
	}
	return groups
}

// settle writes down what became of each claim. One that cannot be written holds up no other.
func (r *Lifecycle) settle(ctx context.Context, answers []answer) error {
	errs, news := make([]error, len(answers)), make([]bool, len(answers))
	wait.Each(r.Clock, len(answers), recorders, func(i int) {
		if a := answers[i]; a.Err != nil {
			news[i], errs[i] = r.refused(ctx, a.claim, a.Err)
		} else {
			news[i], errs[i] = r.record(ctx, a.claim, a.Instance)
		}
	})
	var told []answer
	for i, a := range answers {
		if news[i] {
			told = append(told, a)
		}
	}
	r.recordLaunches(told)
	return errors.Join(errs...)
}

// record writes the instance down on its claim (L5): labels and annotations first, so that whoever sees the instance sees what it
// is. recorded is false if somebody else has changed the claim meanwhile.
func (r *Lifecycle) record(ctx context.Context, claim *karpv1.NodeClaim, in *cloud.Instance) (recorded bool, err error) {
	before := claim.DeepCopy()
	claim.Labels = labels(claim, in)
	for key, value := range in.Annotations {
		control.Annotate(claim, key, value)
	}
	if !equality.Semantic.DeepEqual(before.ObjectMeta, claim.ObjectMeta) {
		if written, err := control.Patch(ctx, r.Client, claim, before); err != nil || !written {
			return false, err
		}
	}
	written, err := r.status(ctx, claim, func(now time.Time) {
		if in.ProviderID == "" { // it is being made; the launch is asked for it again
			claim.StatusConditions().SetUnknown(karpv1.ConditionLaunched, karpv1.ReasonInstanceProvisioning, "instance "+in.ID+" has no provider ID yet", now)
		}
		claim.Status.ProviderID, claim.Status.ImageID = in.ProviderID, in.ImageID
		claim.Status.Capacity, claim.Status.Allocatable = in.Capacity, in.Allocatable
		if r.Overlays != nil {
			claim.Status.Capacity, claim.Status.Allocatable = r.Overlays.Extended(claim, in.Type, in.Capacity, in.Allocatable)
		}
		if in.ProviderID != "" {
			claim.StatusConditions().SetUnknown(karpv1.ConditionRegistered, life.NodeNotFound, "no node carries the instance's provider ID yet", now)
		}
	})
	if written && in.ProviderID != "" {
		pool := claim.Labels[karpv1.NodePoolLabelKey]
		r.Meter.Add(meter.NodeClaimsLaunched, 1, "nodepool", pool)
		control.Logger(ctx, r.Log).Info("launched nodeclaim", "NodeClaim", claim.Name, "NodePool", pool, "provider-id", in.ProviderID,
			"instance-type", in.Type, "zone", in.Zone, "capacity-type", in.CapacityType, "allocatable", amounts(in.Allocatable))
	}
	return written && in.ProviderID != "", err
}

// labels are the claim's with the instance's. Its own win (L5), unless an earlier process has got as far as writing down another
// instance's, which the annotations of an instance show.
func labels(claim *karpv1.NodeClaim, in *cloud.Instance) map[string]string {
	again := false
	for key := range in.Annotations {
		_, there := claim.Annotations[key]
		again = again || there
	}
	own, out := claim.Labels, maps.Clone(in.Labels)
	if again {
		own, out = in.Labels, maps.Clone(claim.Labels)
	}
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, own)
	return out
}

// refused writes down why a claim has no instance, and deletes it if trying again would not help (L4): whoever waits for it reads why.
// news says that this was not known before.
func (r *Lifecycle) refused(ctx context.Context, claim *karpv1.NodeClaim, cause error) (news bool, err error) {
	class, message := cloud.ClassOf(cause), cut(cause.Error(), maxMessage)
	news, err = r.status(ctx, claim, func(now time.Time) {
		claim.StatusConditions().SetUnknown(karpv1.ConditionLaunched, word(cloud.ReasonOf(cause)), message, now)
	})
	if class.Response().GiveUp {
		event, reason := control.EventNoCapacity, causeNoCapacity
		if class == cloud.NotReady {
			event, reason = eventClassNotReady, causeClassNotReady
		}
		told := cut(fmt.Sprintf("NodeClaim %s: %s", claim.Name, cause), maxEvent)
		r.Recorder.Tell(control.Event{Object: claim, Warning: true, Reason: event, Message: told})
		if r.Waiting != nil && class == cloud.NoCapacity {
			r.Waiting.NoCapacity(claim.Name, told)
		}
		return r.remove(ctx, claim, reason, message)
	}
	return news, err
}

// cut shortens a text to so many bytes, at the end of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// word makes a cloud's reason one that a condition may have: letters and digits.
func word(reason string) string {
	out := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, reason)
	if out = strings.TrimLeft(out, "0123456789"); out == "" {
		return karpv1.ReasonLaunchFailed
	}
	return out
}

// amounts is a resource list for a log line.
func amounts(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, quantity := range list {
		out[string(name)] = quantity.String()
	}
	return out
}
