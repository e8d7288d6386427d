package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/model"
	"karpenter/internal/wait"
)

const (
	// collectEvery is how often claims and instances are compared (L15).
	collectEvery = 2 * time.Minute
	// lookers is how many instances are asked for at once; the provider makes few calls of them.
	lookers = 50
	// eventHeld is the reason of the event, and of the condition, on what is collected later than usual.
	eventHeld = "GarbageCollectionHeld"
)

// What is collected, for the metric label kind.
const (
	kindClaims    = "nodeclaims"
	kindInstances = "instances"
)

// Collect ends what has lost its other half: claims whose instance is gone, and instances whose claim is gone. What a cache says of
// claims is enough to find that nothing is missing; otherwise both sides are read from their source. Absence needs proof: two
// sweeps apart in time, lists that look sane, and one more question about each before it is acted on. What looks more like a fault
// than like the truth is told and acted on later and slowly, but not never. An instance that the cloud shows to have ended needs
// no more proof.
type Collect struct {
	// Client reads from a cache, Live from the API server itself.
	Client client.Client
	Live   client.Reader
	Fleet  cloud.Fleet
	// InstanceID reads the instance's id out of a provider ID.
	InstanceID func(providerID string) (string, error)
	// Class is the kind of node class that this process serves.
	Class schema.GroupKind
	// Quota is shared with everything else that destroys on its own judgement.
	Quota *control.Quota
	Clock control.Clock
	// Recorder is optional.
	Recorder *control.Recorder
	Meter    *meter.Set
	Log      *slog.Logger
	// Ledger keeps what has been collected; optional.
	Ledger *ledger.Ledger

	lost, orphans life.InventoryAudit
}

// Loop is what the manager runs.
func (r *Collect) Loop(beat func(string)) *control.Loop {
	return &control.Loop{Name: "nodeclaim.garbagecollection", Clock: r.Clock, Log: r.Log, Do: r.Sweep, Beat: beat}
}

// Sweep compares once.
func (r *Collect) Sweep(ctx context.Context) (time.Duration, error) {
	// Instances first: the claim of every instance in the list was written before it.
	instances, err := r.Fleet.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("listing instances: %w", err)
	}
	// Where the cache finds everything in its place there is nothing to prove, and no need to read all claims.
	claims, err := r.claims(ctx, r.Client, client.UnsafeDisableDeepCopy)
	if err == nil && !claims.match(instances) {
		claims, err = r.claims(ctx, r.Live)
	}
	if err != nil {
		return 0, err
	}
	return collectEvery, errors.Join(r.collectClaims(ctx, instances, claims), r.collectInstances(ctx, instances, claims))
}

// register is what the claims say about instances.
type register struct {
	claims []karpv1.NodeClaim
	// recorded has the claim of each instance on record; batches and names those of claims without one.
	recorded       map[string]*karpv1.NodeClaim
	batches, names map[string]bool
	// unreadable are provider IDs that no instance can have. They stand in recorded too, for claims that have joined: whose instance is
	// gone must go, whatever its id looks like.
	unreadable map[string]bool
}

// claims reads the claims.
func (r *Collect) claims(ctx context.Context, from client.Reader, opts ...client.ListOption) (*register, error) {
	list := &karpv1.NodeClaimList{}
	if err := from.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("listing claims: %w", err)
	}
	out := &register{recorded: map[string]*karpv1.NodeClaim{}, batches: map[string]bool{}, names: map[string]bool{}, unreadable: map[string]bool{}}
	for i := range list.Items {
		if list.Items[i].Spec.NodeClassRef.Is(r.Class) {
			out.claims = append(out.claims, list.Items[i])
		}
	}
	for i := range out.claims {
		claim := &out.claims[i]
		if id, err := r.InstanceID(claim.Status.ProviderID); err == nil {
			out.recorded[id] = claim
			continue
		}
		out.batches[cloud.BatchID(claim)] = true
		out.names[claim.Name] = true
		if id := claim.Status.ProviderID; id != "" {
			out.recorded[id], out.unreadable[id] = claim, true
		}
	}
	return out, nil
}

// living are the instances on record that are there. Of a claim whose provider ID cannot be read it is one that carries the claim's
// name, or one of its batch that carries none.
func (g *register) living(instances []*cloud.Instance) map[string]bool {
	out := map[string]bool{}
	for _, in := range instances {
		if out[in.ID] = !in.State.Ending(); !out[in.ID] || g.recorded[in.ID] != nil {
			continue
		}
		for id := range g.unreadable {
			if claim := g.recorded[id]; in.Claim == claim.Name || in.Claim == "" && in.Batch == cloud.BatchID(claim) {
				out[id] = true
			}
		}
	}
	return out
}

// match says whether every instance has a claim, and every claim that has had a node its instance.
func (g *register) match(instances []*cloud.Instance) bool {
	living := g.living(instances)
	for _, in := range instances {
		if living[in.ID] && !g.expects(in) {
			return false
		}
	}
	for id, claim := range g.recorded {
		if !living[id] && claim.DeletionTimestamp.IsZero() && claim.StatusConditions().IsTrue(karpv1.ConditionRegistered) {
			return false
		}
	}
	return true
}

// expects says whether a claim has the instance on record, or may still find it.
func (g *register) expects(in *cloud.Instance) bool {
	return g.recorded[in.ID] != nil || g.names[in.Claim] || g.batches[in.Batch]
}

// collectClaims deletes registered claims whose instance is gone and whose node does not say otherwise.
func (r *Collect) collectClaims(ctx context.Context, instances []*cloud.Instance, claims *register) error {
	living := claims.living(instances)
	inventory := life.Inventory{Listed: len(instances)}
	var suspects []string
	for id, claim := range claims.recorded {
		if !claim.DeletionTimestamp.IsZero() || !claim.StatusConditions().IsTrue(karpv1.ConditionRegistered) {
			continue
		}
		inventory.Fleet++
		if living[id] {
			continue
		}
		nodes, err := nodesOf(ctx, r.Client, claim)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return control.Ready(&n) }) {
			suspects = append(suspects, id)
		}
	}
	slices.Sort(suspects)
	var errs []error
	looks := r.look(ctx, suspects, claims.unreadable)
	for i, id := range suspects {
		switch looks[i].found {
		case ended:
			errs = append(errs, r.collectClaim(ctx, claims.recorded[id]))
		case absent, unknown:
			inventory.Missing = append(inventory.Missing, id)
		case alive: // the list is wrong about it
		}
		if looks[i].err != nil {
			errs = append(errs, fmt.Errorf("looking for the instance of NodeClaim %s: %w", claims.recorded[id].Name, looks[i].err))
		}
	}
	verdict := r.lost.Judge(inventory, r.Clock.Now())
	r.tellHeld(ctx, kindClaims, verdict.Held, len(inventory.Missing))
	for _, id := range slices.Sorted(maps.Keys(claims.recorded)) { // writes have an order that does not depend on chance
		if !slices.Contains(verdict.Gone, id) {
			_, missing := slices.BinarySearch(inventory.Missing, id)
			errs = append(errs, r.mark(ctx, claims.recorded[id], verdict.Held, missing))
		}
	}
	for _, id := range verdict.Gone {
		if looks[slices.Index(suspects, id)].found == absent && r.Quota.Take(inventory.Fleet) {
			errs = append(errs, r.collectClaim(ctx, claims.recorded[id]))
		}
	}
	return errors.Join(errs...)
}

// finding is what a question about one instance, by its id, was answered with.
type finding int

const (
	// unknown: the cloud did not say.
	unknown finding = iota
	alive
	// absent: the cloud does not show it, which alone proves nothing.
	absent
	// ended: the cloud shows that it has ended, or is ending, which is proof.
	ended
)

type look struct {
	found finding
	err   error
}

// look asks the cloud about instances by their ids, in order. About what is no id there is nothing to ask.
func (r *Collect) look(ctx context.Context, ids []string, unreadable map[string]bool) []look {
	out := make([]look, len(ids))
	wait.Each(r.Clock, len(ids), lookers, func(i int) {
		if unreadable[ids[i]] {
			out[i].found = absent
			return
		}
		in, err := r.Fleet.Get(ctx, ids[i])
		switch {
		case err == nil && in.State.Ending(), cloud.ClassOf(err) == cloud.NotFound && cloud.ReasonOf(err) == cloud.ReasonTerminated:
			out[i].found = ended
		case err == nil:
			out[i].found = alive
		case cloud.ClassOf(err) == cloud.NotFound:
			out[i].found = absent
		default:
			out[i].err = err
		}
	})
	return out
}

// tellHeld says to the operator that something is collected later than usual, and why.
func (r *Collect) tellHeld(ctx context.Context, kind, why string, count int) {
	if why == "" {
		count = 0
	}
	r.Meter.Set(meter.GarbageCollectionHeld, float64(count), "kind", kind)
	if why != "" {
		r.Log.ErrorContext(ctx, "garbage collection is held back", "kind", kind, "why", why, "count", count)
	}
}

// mark says on a claim whose instance is missing that it is kept for now, and why, or takes that back.
func (r *Collect) mark(ctx context.Context, before *karpv1.NodeClaim, why string, missing bool) error {
	claim := before.DeepCopy() // which may be the cache's own
	conditions := claim.StatusConditions()
	switch {
	case missing && why != "":
		conditions.Set(karpv1.Condition{
			Type: karpv1.ConditionInstanceMissing, Status: metav1.ConditionTrue, Reason: eventHeld,
			Message: "The cloud does not show the instance. The claim is kept for now, because so many missing instances look like a fault of the list",
		}, r.Clock.Now())
		r.Recorder.Tell(control.Event{Object: claim, Warning: true, Reason: eventHeld, Every: time.Hour, Message: "The cloud does not show the instance; the claim is kept for now: " + why})
	case !missing && conditions.IsTrue(karpv1.ConditionInstanceMissing):
		conditions.Set(karpv1.Condition{Type: karpv1.ConditionInstanceMissing, Status: metav1.ConditionFalse, Reason: "InstanceFound"}, r.Clock.Now())
	default:
		return nil
	}
	_, err := control.PatchStatus(ctx, r.Client, claim, before)
	return err
}

// collectClaim deletes one claim, after a last look at its node.
func (r *Collect) collectClaim(ctx context.Context, claim *karpv1.NodeClaim) error {
	node, err := nodeOf(ctx, r.Live, claim)
	if err != nil || node != nil && control.Ready(node) {
		return err
	}
	removed, err := control.DeleteSeen(ctx, r.Client, claim)
	if removed {
		control.Counter{Client: r.Client, Meter: r.Meter}.Disrupted(ctx, claim, causeCollected)
		r.Ledger.Removed(claim, ledger.Removal, causeCollected, "is deleted, because its instance is gone")
		r.Log.Info("deleted nodeclaim", "NodeClaim", claim.Name, "NodePool", claim.Labels[karpv1.NodePoolLabelKey], "Node", claim.Status.NodeName,
			"provider-id", claim.Status.ProviderID, "reason", causeCollected, "message", "its instance is gone")
	}
	return err
}

// collectInstances ends instances of this cluster that no claim has or can still get.
func (r *Collect) collectInstances(ctx context.Context, instances []*cloud.Instance, claims *register) error {
	inventory := life.Inventory{Listed: len(claims.claims)}
	byID := map[string]*cloud.Instance{}
	for _, in := range instances {
		if in.State.Ending() {
			continue
		}
		inventory.Fleet++
		if !claims.expects(in) {
			inventory.Missing = append(inventory.Missing, in.ID)
			byID[in.ID] = in
		}
	}
	slices.Sort(inventory.Missing)
	verdict := r.orphans.Judge(inventory, r.Clock.Now())
	r.tellHeld(ctx, kindInstances, verdict.Held, len(inventory.Missing))
	if verdict.Held != "" {
		r.tellPools(ctx, verdict.Held, byID)
	}
	if len(verdict.Gone) == 0 {
		return nil
	}
	again, err := r.claims(ctx, r.Live)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range verdict.Gone {
		if !again.expects(byID[id]) {
			errs = append(errs, r.collectInstance(ctx, byID[id], inventory.Fleet))
		}
	}
	return errors.Join(errs...)
}

// tellPools has the pools of instances without claims say that these run on for now.
func (r *Collect) tellPools(ctx context.Context, why string, orphans map[string]*cloud.Instance) {
	count := map[string]int{}
	for _, in := range orphans {
		count[in.Pool]++
	}
	for name, n := range count {
		pool := &karpv1.NodePool{}
		if name == "" || r.Client.Get(ctx, client.ObjectKey{Name: name}, pool) != nil {
			continue // what is told by log and metric all the same
		}
		noun := "instances"
		if n == 1 {
			noun = "instance"
		}
		r.Recorder.Tell(control.Event{
			Object: pool, Warning: true, Reason: eventHeld, Every: time.Hour,
			Message: fmt.Sprintf("%d %s of the pool without a NodeClaim will be ended slowly, beginning in half an hour: %s", n, noun, why),
		})
	}
}

// collectInstance ends one instance, after a last look at it, and takes its node out of the way of the scheduler.
func (r *Collect) collectInstance(ctx context.Context, in *cloud.Instance, fleet int) error {
	now, err := r.Fleet.Get(ctx, in.ID)
	switch {
	case cloud.ClassOf(err) == cloud.NotFound:
		return nil
	case err != nil:
		return fmt.Errorf("looking at instance %s: %w", in.ID, err)
	case now.State.Ending() || now.Claim != in.Claim || now.Batch != in.Batch || !r.Quota.Take(fleet):
		return nil
	}
	if err := r.Fleet.Delete(ctx, in.ID); err != nil && cloud.ClassOf(err) != cloud.NotFound {
		return fmt.Errorf("ending instance %s, which has no claim: %w", in.ID, err)
	}
	r.Ledger.Add(ledger.Entry{
		Kind: ledger.Removal, Reason: causeCollected, Outcome: ledger.Done, Summary: fmt.Sprintf("instance %s (%s in %s) is ended, because no claim has it", in.ID, in.Type, in.Zone),
		Remove: []model.Node{{Claim: in.Claim, Pool: in.Pool, Type: in.Type, Zone: in.Zone, CapacityType: in.CapacityType}},
	})
	r.Log.Info("ended instance without nodeclaim", "provider-id", in.ProviderID, "instance-type", in.Type, "zone", in.Zone, "NodePool", in.Pool, "batch", in.Batch)
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, client.MatchingFields{indexNodeProviderID: in.ProviderID}); err != nil {
		return fmt.Errorf("looking for the node of instance %s: %w", in.ID, err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		uid := node.UID
		if err := r.Client.Delete(ctx, node, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Node %s: %w", node.Name, err)
		}
	}
	return nil
}
