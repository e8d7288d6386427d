package provision

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"karpenter/internal/control"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// Reasons of events.
const (
	// EventNominated on a pod names the node or claim that is expected to take it.
	EventNominated = "Nominated"
	// EventFailedScheduling on a pod says why nothing can take it and nothing can be made that would.
	EventFailedScheduling = "FailedScheduling"
	// EventNoCompatibleInstanceTypes on a pool says that nothing on offer satisfies its requirements.
	EventNoCompatibleInstanceTypes = "NoCompatibleInstanceTypes"
)

const (
	nominatedEvery = 2 * time.Minute
	failedEvery    = 5 * time.Minute // O49
	noTypesEvery   = time.Minute     // O51
	// noCapacityEvery is how often a pod is told at most that claims for it get no instance: they have other names each time.
	noCapacityEvery = 2 * time.Minute
	warnedEvery     = 24 * time.Hour   // P14
	leastNominated  = 10 * time.Second // P28

	// Events about pods are held to this pace, so that ten thousand pods do not drown the API server in them. Those that have
	// to wait are told at the next pass.
	eventsPerSecond = 20
	eventsAtOnce    = 200

	// maxFailureLines is how many reasons a pass logs before it counts the pods of the rest; each of them has an event.
	maxFailureLines = 20

	// maxMessage is what the API server takes as an event's message.
	maxMessage = 1024
)

// reporter tells users and operators what was decided: events on pods and pools, one log line per decision, metrics.
type reporter struct {
	clock     control.Clock
	log       *slog.Logger
	events    *control.Recorder
	meter     *meter.Set
	track     *tracker
	nominates flowcontrol.PassiveRateLimiter
	fails     flowcontrol.PassiveRateLimiter
	// protect is how long a node that pods are expected on is left alone.
	protect time.Duration
	options pack.Options

	mu        sync.Mutex
	nominated map[string]time.Time // by node or claim: until when
}

func newReporter(p *Provisioner) *reporter {
	pace := func() flowcontrol.PassiveRateLimiter {
		return flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(eventsPerSecond, eventsAtOnce, p.Clock)
	}
	return &reporter{
		clock: p.Clock, log: p.Log, events: p.Events, meter: p.Meter, track: p.track, nominates: pace(), fails: pace(),
		protect: max(2*p.Batch.window.most, leastNominated), options: p.Options, nominated: map[string]time.Time{},
	}
}

func uid(p *world.Pod) types.UID { return types.UID(p.UID) }

// object is what an event about a pod hangs on.
func object(snap *world.Snapshot, p *world.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: snap.Classes[p.Class].Namespace, Name: p.Name, UID: uid(p)}}
}

// podNames names the first few pods of a list and counts the rest.
func podNames(snap *world.Snapshot, pods []*world.Pod) string {
	var names []string
	for _, p := range pods[:min(len(pods), control.MaxNamed)] {
		names = append(names, snap.PodName(p))
	}
	return control.Named(names, len(pods))
}

// computed says what a plan that makes nodes is for.
func (s *reporter) computed(snap *world.Snapshot, plan *pack.Plan, took time.Duration) {
	var pods []*world.Pod
	for _, n := range plan.Nodes {
		pods = append(pods, n.Pods...)
	}
	planned, spare := len(pods), snap.SparePods(pods)
	pods = world.Real(pods)
	if len(pods) > 0 {
		s.log.Info("found provisionable pod(s)", "Pods", podNames(snap, pods), "pod-count", plan.Pods, "duration", took)
	}
	if spare != nil {
		s.log.Info("found spare pod(s) of buffers that need new room", "pod-count", planned-len(pods), "buffers", world.HeldWords(spare), "duration", took)
	}
	s.log.Info("computed new nodeclaim(s) to fit pod(s)", "nodeclaims", len(plan.Nodes), "pods", planned, "price", why.Money(plan.Price), "least-price", why.Money(plan.Bound))
	var starting, waiting int
	for _, f := range plan.Real().Existing {
		if !f.Node.Initialized {
			starting++
			waiting += len(f.Pods)
		}
	}
	if starting > 0 {
		s.log.Info("computed unready node(s) that will fit pod(s)", "nodes", starting, "pods", waiting)
	}
}

// tell tells what became of every pod of a plan.
func (s *reporter) tell(snap *world.Snapshot, plan *pack.Plan, list []*Draft, errs []error) {
	s.expire()
	plan = plan.Real() // nobody is told about spare pods but their buffers (P113)
	var failures []failure
	for i, d := range list {
		pods := world.Real(d.Node.Pods)
		if errs[i] != nil {
			failures = append(failures, failure{pods: pods, key: stable(errs[i]), message: "a node was planned, but could not be asked for: " + stable(errs[i]), events: true})
			continue
		}
		first := d.Node.Choices[0]
		if len(pods) == 0 {
			continue
		}
		s.placed(snap, pods, destination{claim: d.Claim.Name}, fmt.Sprintf("expected on nodeclaim/%s, a new %s node of pool %s such as %s for %s: %s",
			d.Claim.Name, first.Offering.CapacityType, d.Node.Pool.Name, first.Type.Name, why.Money(d.Node.Price()), reasonsText(d.Node.Why)))
		s.nominate(d.Claim.Name)
	}
	for _, f := range plan.Existing {
		where, state := "node/"+f.Node.Name, "has room"
		if f.Node.InFlight {
			where = "nodeclaim/" + f.Node.Claim
		}
		if !f.Node.Initialized {
			state = "is starting and will have room"
		}
		to := destination{claim: f.Node.Claim}
		if f.Node.Claim == "" {
			to.node = f.Node.Name
		}
		s.placed(snap, f.Pods, to, fmt.Sprintf("expected on %s, which %s", where, state))
		s.nominate(f.Node.Name, f.Node.Claim)
	}
	ignored, unplaced := 0, 0
	for _, u := range plan.Unplaced {
		c := snap.Classes[u.Pods[0].Class]
		if c.Refused != "" {
			ignored += len(u.Pods)
		} else {
			unplaced += len(u.Pods)
		}
		failures = append(failures, failure{pods: u.Pods, key: codes(u.Reasons), message: reasonsText(u.Reasons), events: !optsOut(c)})
	}
	s.failed(snap, failures)
	s.unplaced(unplaced, ignored)
	if !s.options.IgnorePreferences { // those that are ignored stand in nobody's way
		s.warn(snap, plan.Order)
	}
}

// stable says what kept a claim from being created in words that are the same at the next attempt, under another name.
func stable(err error) string {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.Error()
	}
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return "the API server refuses the NodeClaim: " + string(reason)
	}
	return "the API server gave no answer"
}

// unplaced counts the pods that are unschedulable, and those that were not planned for (O31, O32).
func (s *reporter) unplaced(unplaced, ignored int) {
	s.meter.Set(meter.SchedulerUnschedulable, float64(unplaced), "controller", name)
	s.meter.Set(meter.SchedulerIgnoredPods, float64(ignored))
}

// reasonsText is reasons in one line. A plan that was made in haste has none for most pods.
func reasonsText(reasons []why.Reason) string {
	if len(reasons) == 0 {
		return "planning ended before it was placed; the next pass tries again"
	}
	lines := make([]string, len(reasons))
	for i, r := range reasons {
		lines[i] = r.Line()
	}
	return strings.Join(lines, "; ")
}

// placed tells pods where they are expected.
func (s *reporter) placed(snap *world.Snapshot, pods []*world.Pod, to destination, message string) {
	now := s.clock.Now()
	for _, p := range pods {
		s.track.decide(uid(p), true, now)
		s.track.plan(uid(p), to)
		if s.track.news(uid(p), message, now) && s.nominates.TryAccept() {
			s.events.Tell(control.Event{Object: object(snap, p), Reason: EventNominated, Message: cut(message), Every: nominatedEvery})
			s.track.told(uid(p), message, now, nominatedEvery)
		}
	}
}

// failure is a group of unschedulable pods.
type failure struct {
	pods []*world.Pod
	// key is the same while the pods fail for the same reasons, though the numbers in the message change with every node.
	key     string
	message string
	events  bool // they are to be told
}

// codes is what kinds of reasons there are.
func codes(reasons []why.Reason) string {
	var out []string
	for _, r := range reasons {
		out = append(out, string(r.Code)+"("+codes(r.Because)+")")
	}
	return strings.Join(out, " ")
}

// failed tells pods why they are unschedulable, and logs each reason with the pods of which it was not known.
func (s *reporter) failed(snap *world.Snapshot, all []failure) {
	now := s.clock.Now()
	news := map[string][]*world.Pod{}
	count := map[string]int{}
	var messages []string
	for _, f := range all {
		told, logged := "told "+f.key, "logged "+f.key
		for _, p := range f.pods {
			s.track.decide(uid(p), false, now)
			if f.events && s.track.news(uid(p), told, now) && s.fails.TryAccept() {
				s.events.Tell(control.Event{Object: object(snap, p), Warning: true, Reason: EventFailedScheduling, Message: cut(f.message), Every: failedEvery})
				s.track.told(uid(p), told, now, failedEvery)
			}
			if s.track.news(uid(p), logged, now) {
				s.track.told(uid(p), logged, now, failedEvery)
				news[f.message] = append(news[f.message], p)
			}
		}
		if count[f.message] += len(f.pods); !slices.Contains(messages, f.message) && len(news[f.message]) > 0 {
			messages = append(messages, f.message)
		}
	}
	rest := 0
	for i, m := range messages {
		if i >= maxFailureLines {
			rest += len(news[m])
			continue
		}
		s.log.Error("could not schedule pod", "Pods", podNames(snap, news[m]), "pod-count", count[m], "error", m)
	}
	if rest > 0 {
		s.log.Error("could not schedule more pods, for other reasons", "pod-count", rest)
	}
}

// NoCapacity tells the pods that are planned for a claim, and have no node yet, why it gets no instance (N10). It may be called at any
// time.
func (p *Provisioner) NoCapacity(claim, message string) {
	if p.reporter != nil { // it has been registered
		p.reporter.noCapacity(claim, message)
	}
}

func (s *reporter) noCapacity(claim, message string) {
	now := s.clock.Now()
	for _, pod := range s.track.plannedFor(claim) {
		if s.track.news(pod.UID, control.EventNoCapacity, now) && s.fails.TryAccept() {
			s.events.Tell(control.Event{Object: pod, Warning: true, Reason: control.EventNoCapacity, Message: cut(message), Every: noCapacityEvery})
			s.track.told(pod.UID, control.EventNoCapacity, now, noCapacityEvery)
		}
	}
}

// optsOut says whether pods of a class ask for nodes that no pool makes; they are not ours to comment on (P11).
func optsOut(c *world.Class) bool {
	return slices.ContainsFunc(c.Needs, func(cl world.Clause) bool {
		return len(cl.Terms) > 0 && !slices.ContainsFunc(cl.Terms, func(t req.Set) bool {
			r, ok := t.Get(world.LabelPool)
			return !ok || !r.AdmitsAbsent() || r.Admits("any pool", true)
		})
	})
}

// warn says once a day which pods have preferences that get in the way of consolidation (P14).
func (s *reporter) warn(snap *world.Snapshot, pods []*world.Pod) {
	now := s.clock.Now()
	what := map[int32]string{}
	news := map[string][]*world.Pod{}
	for _, p := range pods {
		text, known := what[p.Class]
		if !known {
			text = hindrance(snap.Classes[p.Class])
			what[p.Class] = text
		}
		if text != "" && s.track.news(uid(p), text, now) {
			s.track.told(uid(p), text, now, warnedEvery)
			news[text] = append(news[text], p)
		}
	}
	for _, text := range []string{softAntiAffinity, softSpread, softAntiAffinity + " and " + softSpread} {
		if list := news[text]; len(list) > 0 {
			s.log.Info("pods have preferences that can keep nodes from being consolidated", "Pods", podNames(snap, list), "pod-count", len(list), "preference", text)
		}
	}
}

const (
	softAntiAffinity = "preferred pod anti-affinity"
	softSpread       = "topology spread with ScheduleAnyway"
)

func hindrance(c *world.Class) string {
	var found []string
	if slices.ContainsFunc(c.AntiAffinity, func(t world.PodTerm) bool { return t.Weight > 0 }) {
		found = append(found, softAntiAffinity)
	}
	if slices.ContainsFunc(c.Spread, func(t world.Spread) bool { return !t.Hard }) {
		found = append(found, softSpread)
	}
	return strings.Join(found, " and ")
}

// cut shortens a message to what an event takes.
func cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	const more = " …"
	return strings.ToValidUTF8(message[:maxMessage-len(more)], "") + more
}

func (s *reporter) nominate(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		if n != "" {
			s.nominated[n] = s.clock.Now().Add(s.protect)
		}
	}
}

func (s *reporter) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, until := range s.nominated {
		if !s.clock.Now().Before(until) {
			delete(s.nominated, n)
		}
	}
}

func (s *reporter) nominatedUntil(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nominated[name]
}

// pools tells the pools of which nothing can be launched (P17).
func (s *reporter) pools(view *state.View, snap *world.Snapshot) {
	for _, p := range snap.Pools {
		if p.Static || p.Refused != "" {
			continue
		}
		message := lacks(p, !s.options.BestEffortMinValues)
		pool := view.Pool(p.Name)
		if message == "" || pool == nil {
			continue
		}
		s.events.Tell(control.Event{Object: pool.Object, Warning: true, Reason: EventNoCompatibleInstanceTypes, Message: message, Every: noTypesEvery})
	}
}

// lacks says what keeps a pool from having any node at all, or "".
func lacks(p *world.Pool, strict bool) string {
	offers, _ := p.Offers()
	offers = slices.DeleteFunc(slices.Clone(offers), func(o world.Offer) bool { return !o.Offering.Launchable() })
	if len(offers) == 0 {
		return fmt.Sprintf("none of %d instance types satisfies the pool's requirements and can be had now", len(p.Types))
	}
	for _, r := range p.Need {
		if r.MinValues == 0 || !strict {
			continue
		}
		seen := map[string]bool{}
		for _, o := range offers {
			if v, ok := p.NodeLabel(o.Type, o.Offering, r.Key); ok {
				seen[v] = true
			}
		}
		if len(seen) < r.MinValues {
			return fmt.Sprintf("requirement %s asks for minValues %d, but the instance types that satisfy the pool's requirements and can be had now have only %d", r.Key, r.MinValues, len(seen))
		}
	}
	return ""
}
