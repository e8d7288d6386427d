package provision

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state"
	"karpenter/internal/wait"
)

const (
	// readyWait is how long a node that has joined keeps its startup taint because it is not ready yet: pods could not use it
	// anyway, and so it is known when they can. Daemons that do not tolerate the taint wait for no longer than that.
	readyWait = 10 * time.Second
	// siblingWait is how long a node waits for the next one of its plan to become ready, lotWait how long nodes wait in all. Each
	// time that a node is opened, kube-scheduler tries every pod again that waits; so nodes are opened some at a time.
	siblingWait = time.Second
	lotWait     = 3 * time.Second
	// lotNodes is how many nodes are opened together at most: each holds a worker while pods are nominated. arriveWait is how long
	// those of a lot wait for each other at the end.
	lotNodes   = 64
	arriveWait = 300 * time.Millisecond
	// siblingSpan is how far apart the claims of one plan are created.
	siblingSpan = 5 * time.Second
)

// lot is nodes that are opened to pods together.
type lot struct {
	opened, last time.Time
	claims       []string
	closed       bool
	first        sync.Mutex // held by the first one, until the lot is prepared
	prepared     bool
	arrived      int
	all          chan struct{} // closed when all have arrived
}

func newLot(now time.Time) *lot { return &lot{opened: now, all: make(chan struct{})} }

// closes is when nothing more is waited for.
func (l *lot) closes() time.Time {
	at := l.last.Add(siblingWait)
	if last := l.opened.Add(lotWait); last.Before(at) {
		return last
	}
	return at
}

// lots groups nodes that become ready at about the same time.
type lots struct {
	mu    sync.Mutex
	open  *lot
	of    map[string]*lot      // by claim, until it has been told to go on
	first map[string]time.Time // by claim: when it was first asked for
}

// asked is since when a claim's node has been asked for.
func (l *lots) asked(claim string, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first, l.of = map[string]time.Time{}, map[string]*lot{}
	}
	if _, known := l.first[claim]; !known {
		l.first[claim] = now
	}
	return l.first[claim]
}

// join puts a claim's node, which is ready, into a lot, and says how long it has to wait still. more says whether others are
// about to come, besides those named.
func (l *lots) join(claim string, now time.Time, more func(besides []string) bool) (*lot, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.of[claim]
	if mine == nil {
		if l.open == nil {
			l.open = newLot(now)
		}
		mine = l.open
		mine.last, mine.claims = now, append(mine.claims, claim)
		l.of[claim] = mine
	}
	if !mine.closed {
		if wait := mine.closes().Sub(now); wait > 0 && len(mine.claims) < lotNodes && more(mine.claims) {
			return mine, wait
		}
		mine.closed, l.open = true, nil
	}
	return mine, 0
}

// arrive says that one more node of a closed lot is about to be opened.
func (l *lots) arrive(mine *lot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if mine.arrived++; mine.arrived == len(mine.claims) {
		close(mine.all)
	}
}

// done forgets a claim whose node is open.
func (l *lots) done(claim string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, claim)
	delete(l.first, claim)
}

// keep forgets claims that are gone.
func (l *lots) keep(is func(claim string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for claim := range l.first {
		if !is(claim) {
			delete(l.of, claim)
			delete(l.first, claim)
		}
	}
}

// Open opens the node of a claim when it is its turn, or says how long it has to wait. Nodes of a lot are opened at the same time, once
// the pods that are expected on any of them have been nominated. From the first node on the scheduler tries all pods that wait. One
// that is tried before its own node is open goes elsewhere, or loses its nomination; so from the first to the last must be quick.
func (n *Nominator) Open(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, open func() error) (time.Duration, error) {
	now := n.Clock.Now()
	first := n.lots.asked(claim.Name, now)
	if !usable(claim, node) {
		if left := first.Add(readyWait).Sub(now); left > 0 && len(claim.Spec.StartupTaints) == 0 {
			return left, nil // or until the node changes
		}
		n.lots.done(claim.Name)
		n.Log.Debug("opened a node that is not ready", "NodeClaim", claim.Name, "Node", node.Name)
		return 0, open()
	}
	if left := n.Creator.awaits(claim.Name, first, now); left > 0 {
		return left, nil
	}
	mine, left := n.lots.join(claim.Name, now, func(besides []string) bool { return coming(n.Mirror.View(), claim, besides) })
	if left > 0 {
		return left, nil
	}
	defer n.lots.done(claim.Name)
	n.lots.arrive(mine)
	n.prepare(ctx, mine, claim.Name)
	return 0, open()
}

// prepare nominates the pods that are expected on a lot, once, and waits until all of it is there. The others of the lot wait for that.
func (n *Nominator) prepare(ctx context.Context, mine *lot, claim string) {
	wait.Lock(n.Clock, &mine.first)
	defer mine.first.Unlock()
	if mine.prepared {
		return
	}
	mine.prepared = true
	wait.Lock(n.Clock, &n.turn) // nodes that are opened have pods tried that are being nominated for others
	defer n.turn.Unlock()
	for _, other := range mine.claims {
		if other != claim && n.Wake != nil {
			n.Wake(other)
		}
	}
	n.nominate(ctx, mine.claims...)
	wait.Receive(ctx, n.Clock, arriveWait, mine.all)
}

// Opened is told of a node that is open to pods and has become ready: now those that are expected there can use it.
func (n *Nominator) Opened(ctx context.Context, claim *karpv1.NodeClaim) {
	if n.once(claim.Name) {
		n.nominate(ctx, claim.Name)
	}
}

// usable says whether nothing but the startup taint of ours keeps pods from a node.
func usable(claim *karpv1.NodeClaim, node *corev1.Node) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if !ready || len(claim.Spec.StartupTaints) > 0 {
		return false
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key != karpv1.UnregisteredTaintKey && karpv1.IsKnownEphemeralTaint(t)
	})
}

// coming says whether nodes of the same plan have been launched and are not open yet, besides those named.
func coming(view *state.View, claim *karpv1.NodeClaim, besides []string) bool {
	for _, n := range view.Nodes {
		c := n.Claim
		if c == nil || c.Status.ProviderID == "" || n.World.Deleting || n.World.Initialized || slices.Contains(besides, c.Name) {
			continue
		}
		if n.Object != nil && !slices.ContainsFunc(n.Object.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey }) {
			continue
		}
		if apart := c.CreationTimestamp.Sub(claim.CreationTimestamp.Time); apart.Abs() <= siblingSpan {
			return true
		}
	}
	return false
}
