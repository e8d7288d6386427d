package class

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/wait"
)

const (
	// pollers is how many receive from the queue at once while something comes: a storm of some hundred notices is then read in a second or
	// two.
	pollers = 4
	// staleAfter is the age from which a notice is no longer acted on: what it announced has long happened, or somebody
	// replays old messages.
	staleAfter = time.Hour
	// maxNotices bounds the memory of notices that have been dealt with.
	maxNotices = 10_000
)

// verdict is what a kind of notice means for a claim.
type verdict struct {
	reason  string
	message string
	// remove says whether the instance is to be replaced; the others are only reported.
	remove bool
	// stock says whether the pool that the instance came from has run dry.
	stock bool
}

var verdicts = map[cloud.NoticeKind]verdict{
	cloud.SpotInterrupted:                {"SpotInterrupted", "EC2 takes the spot instance back in about two minutes", true, true},
	cloud.RebalanceRecommendation:        {"SpotRebalanceRecommendation", "EC2 sees a higher risk that the spot instance is taken back", false, false},
	cloud.InstanceStopped:                {"InstanceStopping", "The instance is stopping or has stopped", true, false},
	cloud.InstanceTerminated:             {"InstanceTerminating", "The instance is being terminated", true, false},
	cloud.CapacityReservationInterrupted: {"CapacityReservationInstanceInterrupted", "EC2 takes the reserved instance back", true, true},
	cloud.ScheduledChange:                {"InstanceUnhealthy", "AWS Health has scheduled a change that ends the instance", true, false},
}

// Interruption acts on what the cloud announces about our instances: their claims are deleted, so that replacements are
// planned at once and pods are drained while the instance still runs.
type Interruption struct {
	Client client.Client
	Inbox  cloud.Inbox
	// Interrupted takes over what the end of an instance says of stock; labels are its claim's.
	Interrupted func(labels map[string]string)
	// InstanceID reads the instance's id out of a provider ID.
	InstanceID func(providerID string) (string, error)
	Clock      control.Clock
	Recorder   *control.Recorder
	Meter      *meter.Set
	Log        *slog.Logger
	// Ledger keeps what is announced; optional.
	Ledger *ledger.Ledger

	mu   sync.Mutex
	done map[string]time.Time // notices that have been dealt with
}

// Loop is what the manager runs.
func (r *Interruption) Loop() *control.Loop {
	return &control.Loop{Name: "interruption", Clock: r.Clock, Log: r.Log, Do: r.Poll}
}

// Poll receives and deals with what came. Once something comes, others receive as well meanwhile, for it may be the first of many; where
// nothing does, one waiting call every twenty seconds is all that the queue costs.
func (r *Interruption) Poll(ctx context.Context) (time.Duration, error) {
	first, err := r.Inbox.Receive(ctx)
	if err != nil || len(first) == 0 {
		return 0, err
	}
	errs := make([]error, pollers)
	wait.Each(r.Clock, pollers, pollers, func(i int) {
		messages := first
		if i > 0 {
			messages, errs[i] = r.Inbox.Receive(ctx)
		}
		if len(messages) > 0 {
			errs[i] = r.handleAll(ctx, messages)
		}
	})
	return 0, errors.Join(errs...)
}

// handleAll deals with messages. One that could not be dealt with is left for a later delivery.
func (r *Interruption) handleAll(ctx context.Context, messages []cloud.Message) error {
	claims, err := owned(ctx, r.Client, r.InstanceID)
	if err != nil {
		return err
	}
	var failed error
	for _, m := range messages {
		r.Meter.Add(meter.InterruptionReceived, 1, "message_type", string(kindOf(m)))
		if err := r.handle(ctx, m, claims); err != nil {
			failed = err
			continue
		}
		if err := r.Inbox.Delete(ctx, m); err != nil {
			failed = err
			continue
		}
		r.Meter.Add(meter.InterruptionDeleted, 1)
		if !m.Notice.At.IsZero() {
			r.Meter.Observe(meter.InterruptionQueueDuration, max(0, r.Clock.Since(m.Notice.At).Seconds()))
		}
	}
	return failed
}

func kindOf(m cloud.Message) cloud.NoticeKind {
	if m.Err != nil || m.Notice.Kind == "" {
		return cloud.NoOp
	}
	return m.Notice.Kind
}

// owned are our claims by the id of their instance. They are shared with the cache: whoever acts on one takes a copy.
func owned(ctx context.Context, c client.Client, instanceID func(string) (string, error)) (map[string]*karpv1.NodeClaim, error) {
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing claims: %w", err)
	}
	byID := make(map[string]*karpv1.NodeClaim, len(claims.Items))
	for i := range claims.Items {
		claim := &claims.Items[i]
		if !claim.Spec.NodeClassRef.Is(awsv1.EC2NodeClassGroupKind) || claim.Status.ProviderID == "" {
			continue
		}
		if id, err := instanceID(claim.Status.ProviderID); err == nil {
			byID[id] = claim
		}
	}
	return byID, nil
}

// handle acts on one message. Instances that are not ours, notices that were dealt with and those that are long over are passed
// by.
func (r *Interruption) handle(ctx context.Context, m cloud.Message, claims map[string]*karpv1.NodeClaim) error {
	if m.Err != nil {
		r.Log.Warn("message in the interruption queue cannot be read, removing it", "error", m.Err)
		return nil
	}
	n := m.Notice
	what, known := verdicts[n.Kind]
	if !known || r.handled(n.ID) {
		return nil
	}
	if age := r.Clock.Since(n.At); !n.At.IsZero() && age > staleAfter {
		r.Log.Warn("interruption notice is too old to act on, removing it", "id", n.ID, "kind", n.Kind, "age", age.Round(time.Second))
		return nil
	}
	for _, id := range n.Instances {
		claim := claims[id]
		if claim == nil {
			continue
		}
		if err := r.act(ctx, n, what, claim.DeepCopy()); err != nil {
			return err
		}
	}
	r.remember(n.ID)
	return nil
}

// What metrics have always called what is done about a notice.
const (
	actionDrain = "CordonAndDrain"
	actionNone  = "NoAction"
)

// act does what the notice asks for one claim.
func (r *Interruption) act(ctx context.Context, n cloud.Notice, what verdict, claim *karpv1.NodeClaim) error {
	message := what.message
	if !n.NotBefore.IsZero() {
		message = fmt.Sprintf("%s, not before %s", message, n.NotBefore.UTC().Format(time.RFC3339))
	}
	about := withNode(ctx, r.Client, claim)
	for _, obj := range about {
		r.Recorder.Tell(control.Event{Object: obj, Warning: what.remove, Reason: what.reason, Message: message})
	}
	if what.stock {
		r.Interrupted(claim.Labels)
	}
	if !claim.DeletionTimestamp.IsZero() {
		return nil // most often the echo of our own doing
	}
	if !what.remove {
		r.Meter.Add(meter.InterruptionActions, 1, "action", actionNone)
		r.book(what, claim, message)
		return nil
	}
	if _, err := control.Delete(ctx, r.Client, claim); err != nil {
		return err
	}
	for _, obj := range about {
		r.Recorder.Tell(control.Event{Object: obj, Warning: true, Reason: "TerminatingOnInterruption", Message: "Replacing the node: " + message})
	}
	r.Meter.Add(meter.InterruptionActions, 1, "action", actionDrain)
	control.Counter{Client: r.Client, Meter: r.Meter}.Disrupted(ctx, claim, string(n.Kind))
	r.Ledger.Removed(claim, ledger.Interruption, what.reason, "is replaced: "+message)
	r.Log.Info("deleted nodeclaim", "NodeClaim", claim.Name, "Node", claim.Status.NodeName, "provider-id", claim.Status.ProviderID, "reason", n.Kind, "message", message)
	return nil
}

// book keeps a notice that only warns.
func (r *Interruption) book(what verdict, claim *karpv1.NodeClaim, message string) {
	if r.Ledger == nil {
		return
	}
	m := r.Ledger.Node(claim)
	r.Ledger.Add(ledger.Entry{
		Kind: ledger.Interruption, Reason: what.reason, Summary: fmt.Sprintf("node %s (%s): %s; nothing is done about it", cmp.Or(m.Node, m.Claim), m.Words(), message),
		About: []ledger.Ref{{Kind: "NodeClaim", Name: m.Claim}, {Kind: "Node", Name: m.Node}},
	})
}

// withNode are the objects that an event on the claim's instance is told on: the claim, and its node if there is one.
func withNode(ctx context.Context, c client.Client, claim *karpv1.NodeClaim) []client.Object {
	objects := []client.Object{claim}
	node := &corev1.Node{}
	if claim.Status.NodeName != "" && c.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node) == nil {
		objects = append(objects, node)
	}
	return objects
}

func (r *Interruption) handled(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.done[id]
	return ok
}

func (r *Interruption) remember(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = map[string]time.Time{}
	}
	r.done[id] = r.Clock.Now()
	if len(r.done) <= maxNotices {
		return
	}
	ids := make([]string, 0, len(r.done))
	for id := range r.done {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return r.done[a].Compare(r.done[b]) })
	for _, id := range ids[:len(ids)/2] {
		delete(r.done, id)
	}
}
