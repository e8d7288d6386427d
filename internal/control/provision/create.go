package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/internal/wait"
)

const (
	// createWorkers is how many claims are created at once: enough to use up the client's burst in a moment, few enough not to
	// crowd out everything else.
	createWorkers = 32
	// createAttempts is how often a claim is sent before its pods are planned anew.
	createAttempts = 3
	// createWait is the pause before the second attempt; it doubles with each.
	createWait = 100 * time.Millisecond
)

// Mirror shows the cluster, with what has been decided and not been seen yet; state.Mirror is one.
type Mirror interface {
	View() *state.View
	// Assume counts claims as in flight from now on, before any watch has shown them.
	Assume(claims ...*karpv1.NodeClaim)
	// Refute ends the counting of a claim that turns out not to have been created.
	Refute(claim string)
	// Wrote shows the mirror an object as the API server has it now.
	Wrote(obj state.Object)
	// Synced says whether the mirror has been filled once.
	Synced() bool
}

// Creator creates claims within the limits of their pools. Everything that makes nodes uses one and the same.
type Creator struct {
	Client client.Client
	// Live reads from the API server itself: there, claims are looked for whose creation got no answer.
	Live   client.Reader
	Mirror Mirror
	Clock  control.Clock
	Meter  *meter.Set
	Log    *slog.Logger

	mu       sync.Mutex
	underway map[string]*charge // by pool: what is being created and is not in the mirror yet
	plans    int
	pins     pins
	// roomy are the claims with room for pods that are known to come.
	roomy map[string]bool
	// doubts are the claims of which nobody knows whether they were created.
	doubts map[string]*doubt
	// unseen are the claims that were created and that no watch had shown yet, and when to look for each.
	unseen map[string]time.Time
	// tookOver says that the mirror has been shown what came from the process that led before.
	tookOver atomic.Bool

	// Coming, if any, says whether pods are still being created that nodes with room for them should wait for; ComingWait is how long
	// they wait at most.
	Coming     func(now time.Time) bool
	ComingWait time.Duration
}

// comingStep is how soon a node that waits for pods to be created is looked at again.
const comingStep = 500 * time.Millisecond

// awaits is how long the node of a claim, which has been up since a time, is to stay closed still so that the pods that it has room for
// can be planned there. Otherwise whatever comes first would take the room, and what needs it would find it in pieces.
func (c *Creator) awaits(claim string, since, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.roomy[claim] {
		return 0
	}
	if left := since.Add(c.ComingWait).Sub(now); left > 0 && c.Coming != nil && c.Coming(now) {
		return min(left, comingStep)
	}
	delete(c.roomy, claim)
	return 0
}

// World is the view as plans are to see it: pods that a claim has been made for are on its node already, though it is not there
// yet.
func (c *Creator) World(view *state.View) *world.Snapshot {
	return view.Expect(c.Expected(view))
}

// Expected says on which claim's node pods are expected that need a node, by their UID.
func (c *Creator) Expected(view *state.View) map[string]string {
	return c.pins.expected(look{view: view, now: c.Clock.Now(), pins: c.pins.count()}).Expected
}

// Drafts makes claims for the nodes of a plan over the view. Nothing is created yet.
func (c *Creator) Drafts(view *state.View, nodes []*pack.NewNode, reason string) []*Draft {
	c.mu.Lock()
	c.plans++
	seed := strconv.FormatInt(c.Clock.Now().UnixNano(), 36) + "-" + strconv.Itoa(c.plans)
	c.mu.Unlock()
	return drafts(view, nodes, seed, reason)
}

// Create creates the claims and returns what went wrong with each, in order. A claim that fails holds up no other (P8). What is
// created, or may have been, counts in the mirror from then on.
func (c *Creator) Create(ctx context.Context, list []*Draft) []error {
	charges, errs := c.reserve(list)
	wait.Each(c.Clock, len(list), createWorkers, func(i int) {
		if errs[i] == nil {
			errs[i] = c.create(ctx, list[i], charges[i])
		}
	})
	c.complain(list, errs)
	return errs
}

// complain logs the first few failures of each pool, and counts the rest.
func (c *Creator) complain(list []*Draft, errs []error) {
	failed := map[string]int{}
	var pools []string
	for i, d := range list {
		pool := d.Node.Pool.Name
		if errs[i] == nil {
			continue
		}
		if failed[pool]++; failed[pool] <= control.MaxNamed {
			c.Log.Error("could not create nodeclaim", "NodePool", pool, "NodeClaim", d.Claim.Name, "error", errs[i])
		}
		if failed[pool] == control.MaxNamed+1 {
			pools = append(pools, pool)
		}
	}
	for _, pool := range pools {
		c.Log.Error("could not create more nodeclaims", "NodePool", pool, "nodeclaims", failed[pool]-control.MaxNamed)
	}
}

// reserve checks each draft against what its pool has now and what others are creating, and enters those that may be created.
func (c *Creator) reserve(list []*Draft) ([]charge, []error) {
	charges, errs := make([]charge, len(list)), make([]error, len(list))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underway == nil {
		c.underway = map[string]*charge{}
	}
	l := newTally(c.Mirror.View().World, c.underway)
	for i, d := range list {
		charges[i], errs[i] = l.take(d)
		if errs[i] != nil {
			continue
		}
		pool := d.Node.Pool.Name
		if c.underway[pool] == nil {
			c.underway[pool] = &charge{}
		}
		c.underway[pool].add(charges[i], 1)
	}
	return charges, errs
}

// create creates one claim.
func (c *Creator) create(ctx context.Context, d *Draft, paid charge) error {
	made, err := c.send(ctx, d.Claim)
	c.settle(d, paid, made)
	if err != nil {
		return fmt.Errorf("creating NodeClaim %s: %w", d.Claim.Name, err)
	}
	c.Meter.Add(meter.NodeClaimsCreated, 1, "reason", d.Reason, "nodepool", d.Node.Pool.Name,
		"min_values_relaxed", d.Claim.Annotations[karpv1.MinValuesRelaxedAnnotationKey])
	c.Log.Info("created nodeclaim", "NodePool", d.Node.Pool.Name, "NodeClaim", d.Claim.Name, "requests", requestsText(d.Claim),
		"instance-types", control.FirstFew(d.Node.Types()), "price", why.Money(d.Node.Price()), "pod-count", len(d.Node.Pods), "reason", d.Reason, "why", reasonsText(d.Node.Why))
	return nil
}

// settle hands what a draft has reserved over to the mirror, if the claim exists or may exist, or gives it back.
func (c *Creator) settle(d *Draft, paid charge, made outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch made {
	case maybe:
		c.doubt(d.Claim.Name)
	case yes:
		c.expect(d.Claim.Name)
	case no:
	}
	if made != no {
		c.Mirror.Assume(d.Claim)
		c.pins.add(d.Claim.Name, d.Node.Pods, c.Clock.Now())
		if slices.ContainsFunc(d.Node.Why, func(r why.Reason) bool { return r.Code == why.Room }) {
			if c.roomy == nil {
				c.roomy = map[string]bool{}
			}
			c.roomy[d.Claim.Name] = true
		}
	}
	c.underway[d.Node.Pool.Name].add(paid, -1)
}

// outcome says whether a claim is there.
type outcome int

const (
	no outcome = iota
	yes
	maybe
)

// send creates the claim. An answer that leaves its fate open has it sent again under the same name, which nobody else uses:
// should it be there then, the first one came through.
func (c *Creator) send(ctx context.Context, claim *karpv1.NodeClaim) (outcome, error) {
	made := no
	for attempt := 1; ; attempt++ {
		err := c.Client.Create(ctx, claim)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err) && made == maybe:
			return yes, nil
		case refused(err):
			return made, err
		case !apierrors.IsTooManyRequests(err) && !utilnet.IsConnectionRefused(err): // neither got as far as storing it
			made = maybe
		}
		if attempt == createAttempts || !wait.For(ctx, c.Clock, createWait<<(attempt-1)) {
			return made, err
		}
	}
}

// refused says whether the API server has certainly not stored the object and would not store it on a second try.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests
}

func requestsText(claim *karpv1.NodeClaim) map[string]string {
	out := map[string]string{}
	for name, q := range claim.Spec.Resources.Requests {
		out[string(name)] = q.String()
	}
	return out
}
