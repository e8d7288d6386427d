package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
)

// collectEvery is how often claims and machines are compared (L15).
const collectEvery = 2 * time.Minute

// Collect ends what has lost its other half: claims whose machine is gone, and machines whose claim is gone. What a cache says of
// claims is enough to find that nothing is missing; otherwise both sides are read from their source. Absence needs proof: two
// sweeps apart in time, lists that look sane, and one more question about each before it is acted on.
type Collect struct {
	// Client reads from a cache, Live from the API server itself.
	Client client.Client
	Live   client.Reader
	Fleet  cloud.Fleet
	// InstanceID reads the machine's id out of a provider ID.
	InstanceID func(providerID string) (string, error)
	// Class is the kind of node class that this process serves.
	Class schema.GroupKind
	// Purse is shared with everything else that destroys on its own judgement.
	Purse *control.Purse
	Clock control.Clock
	Meter *meter.Set
	Log   *slog.Logger
	// Ledger keeps what has been collected; optional.
	Ledger *ledger.Ledger

	lost, orphans life.Muster
}

// Loop is what the manager runs.
func (r *Collect) Loop(beat func(string)) *control.Loop {
	return &control.Loop{Name: "nodeclaim.garbagecollection", Clock: r.Clock, Log: r.Log, Do: r.Sweep, Beat: beat}
}

// Sweep compares once.
func (r *Collect) Sweep(ctx context.Context) (time.Duration, error) {
	// Machines first: the claim of every machine in the list was written before it.
	machines, err := r.Fleet.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("listing machines: %w", err)
	}
	// Where the cache finds everything in its place there is nothing to prove, and no need to read all claims.
	claims, err := r.claims(ctx, r.Client, client.UnsafeDisableDeepCopy)
	if err == nil && !claims.match(machines) {
		claims, err = r.claims(ctx, r.Live)
	}
	if err != nil {
		return 0, err
	}
	return collectEvery, errors.Join(r.collectClaims(ctx, machines, claims), r.collectMachines(ctx, machines, claims))
}

// register is what the claims say about machines.
type register struct {
	claims []karpv1.NodeClaim
	// recorded has the claim of each machine on record; batches and names those of claims without one.
	recorded       map[string]*karpv1.NodeClaim
	batches, names map[string]bool
}

// claims reads the claims.
func (r *Collect) claims(ctx context.Context, from client.Reader, opts ...client.ListOption) (*register, error) {
	list := &karpv1.NodeClaimList{}
	if err := from.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("listing claims: %w", err)
	}
	out := &register{recorded: map[string]*karpv1.NodeClaim{}, batches: map[string]bool{}, names: map[string]bool{}}
	for i := range list.Items {
		if ours(&list.Items[i], r.Class) {
			out.claims = append(out.claims, list.Items[i])
		}
	}
	for i := range out.claims {
		claim := &out.claims[i]
		if id, err := r.InstanceID(claim.Status.ProviderID); err == nil {
			out.recorded[id] = claim
		} else {
			out.batches[cloud.BatchID(claim)] = true
			out.names[claim.Name] = true
		}
	}
	return out, nil
}

// match says whether every machine has a claim, and every claim that has had a node its machine.
func (g *register) match(machines []*cloud.Instance) bool {
	living := map[string]bool{}
	for _, in := range machines {
		if living[in.ID] = !in.State.Ending(); living[in.ID] && !g.expects(in) {
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

// expects says whether a claim has the machine on record, or may still find it.
func (g *register) expects(in *cloud.Instance) bool {
	return g.recorded[in.ID] != nil || g.names[in.Claim] || g.batches[in.Batch]
}

// collectClaims deletes registered claims whose machine is gone and whose node does not say otherwise.
func (r *Collect) collectClaims(ctx context.Context, machines []*cloud.Instance, claims *register) error {
	living := map[string]bool{}
	for _, in := range machines {
		living[in.ID] = !in.State.Ending()
	}
	census := life.Census{Listed: len(machines)}
	for id, claim := range claims.recorded {
		if !claim.DeletionTimestamp.IsZero() || !claim.StatusConditions().IsTrue(karpv1.ConditionRegistered) {
			continue
		}
		census.Fleet++
		if living[id] {
			continue
		}
		nodes, err := nodesOf(ctx, r.Client, claim)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return isReady(&n) }) {
			census.Missing = append(census.Missing, id)
		}
	}
	slices.Sort(census.Missing)
	verdict := r.lost.Judge(census, r.Clock.Now())
	if verdict.Refused != "" {
		r.Log.Error("garbage collection of nodeclaims refused", "why", verdict.Refused, "count", len(census.Missing))
	}
	var errs []error
	for _, id := range verdict.Gone {
		errs = append(errs, r.collectClaim(ctx, id, claims.recorded[id], census.Fleet))
	}
	return errors.Join(errs...)
}

// collectClaim deletes one claim, after a last look at its machine by its id and at its node.
func (r *Collect) collectClaim(ctx context.Context, id string, claim *karpv1.NodeClaim, fleet int) error {
	in, err := r.Fleet.Get(ctx, id)
	switch {
	case err == nil && !in.State.Ending():
		return nil
	case err != nil && cloud.ClassOf(err) != cloud.NotFound:
		return fmt.Errorf("looking for the machine of NodeClaim %s: %w", claim.Name, err)
	}
	node, err := nodeOf(ctx, r.Live, claim)
	if err != nil {
		return err
	}
	if node != nil && isReady(node) || !r.Purse.Take(fleet) {
		return nil
	}
	removed, err := remove(ctx, r.Client, claim)
	if removed {
		control.CountDisrupted(r.Meter, claim, causeCollected)
		r.Ledger.Removed(claim, ledger.Removal, causeCollected, "goes, because its machine is gone")
		r.Log.Info("deleted nodeclaim", "NodeClaim", claim.Name, "NodePool", claim.Labels[karpv1.NodePoolLabelKey], "Node", claim.Status.NodeName,
			"provider-id", claim.Status.ProviderID, "reason", causeCollected, "message", "its machine is gone")
	}
	return err
}

// collectMachines ends machines of this cluster that no claim has or can still get.
func (r *Collect) collectMachines(ctx context.Context, machines []*cloud.Instance, claims *register) error {
	census := life.Census{Listed: len(claims.claims)}
	byID := map[string]*cloud.Instance{}
	for _, in := range machines {
		if in.State.Ending() {
			continue
		}
		census.Fleet++
		if !claims.expects(in) {
			census.Missing = append(census.Missing, in.ID)
			byID[in.ID] = in
		}
	}
	slices.Sort(census.Missing)
	verdict := r.orphans.Judge(census, r.Clock.Now())
	if verdict.Refused != "" {
		r.Log.Error("garbage collection of machines refused", "why", verdict.Refused, "count", len(census.Missing))
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
			errs = append(errs, r.collectMachine(ctx, byID[id], census.Fleet))
		}
	}
	return errors.Join(errs...)
}

// collectMachine ends one machine, after a last look at it, and takes its node out of the way of the scheduler.
func (r *Collect) collectMachine(ctx context.Context, in *cloud.Instance, fleet int) error {
	now, err := r.Fleet.Get(ctx, in.ID)
	switch {
	case cloud.ClassOf(err) == cloud.NotFound:
		return nil
	case err != nil:
		return fmt.Errorf("looking at machine %s: %w", in.ID, err)
	case now.State.Ending() || now.Claim != in.Claim || now.Batch != in.Batch || !r.Purse.Take(fleet):
		return nil
	}
	if err := r.Fleet.Delete(ctx, in.ID); err != nil && cloud.ClassOf(err) != cloud.NotFound {
		return fmt.Errorf("ending machine %s, which has no claim: %w", in.ID, err)
	}
	r.Ledger.Add(ledger.Entry{
		Kind: ledger.Removal, Reason: causeCollected, Outcome: ledger.Done, Summary: fmt.Sprintf("machine %s (%s in %s) is ended, because no claim has it", in.ID, in.Type, in.Zone),
		Remove: []ledger.Machine{{Claim: in.Claim, Pool: in.Pool, Type: in.Type, Zone: in.Zone, CapacityType: in.CapacityType}},
	})
	r.Log.Info("ended machine without nodeclaim", "provider-id", in.ProviderID, "instance-type", in.Type, "zone", in.Zone, "NodePool", in.Pool, "batch", in.Batch)
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, client.MatchingFields{indexNodeProviderID: in.ProviderID}); err != nil {
		return fmt.Errorf("looking for the node of machine %s: %w", in.ID, err)
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
