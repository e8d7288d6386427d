package sim

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

const (
	// orphanWindow is for how long an instance may run without a claim: it takes that long to prove that nobody will claim it.
	orphanWindow = 15 * time.Minute
	// checkEvery is how often what only time changes is looked at.
	checkEvery = time.Minute
	// quotaWindow and quotaShare are how fast may be destroyed what nobody has asked to: a tenth of the fleet, a fifth of a small one.
	quotaWindow = 10 * time.Minute
	quotaShare  = 5
)

// objects is what the API server has stored.
type objects interface {
	// Each shows all objects of a kind, in the order of lists, and Look one of them, or nil.
	Each(kind client.Object, visit func(client.Object))
	Look(kind client.Object, key types.NamespacedName) client.Object
}

// rules is what the invariants know and remember. A World shows them what happens while it happens, and a Judge what others have noted.
type rules struct {
	server objects
	// instances shows those of the account, vcpus is how many a type has, and now is the time of what happens.
	instances func(visit func(simaws.Glimpse))
	vcpus     func(instanceType string) int
	now       func() time.Time
	// report is told of breaches.
	report func(*Breach)

	lag, later         time.Duration   // how late watches are at most, and how long one of them stood still
	dirty              bool            // something has changed since the invariants were looked at
	calmed             time.Time       // since when nothing goes wrong
	budgets            map[string]int  // by pool
	shares             map[string]bool // pools with the budget that they have by default, a tenth
	sizes              map[string][]sized
	killed, foreigners map[string]bool // instances
	foreignNodes       int
	poisoned, restored bool
	repairs            bool // the controller repairs nodes
	repaired           int  // nodes that were replaced as unhealthy
	rest               bool // empty nodes are looked for in the end
	checked            time.Time
	crashed            int
	started            []time.Time // processes
	orphans            []time.Time // when instances without claims were ended
	seen               map[string]bool
	made, claimed      int // instances and claims, so far
	claimsChanged      time.Time
	// protected is when pods got the annotation that keeps them, unless they always had it; empty since when nodes have no pods.
	protected map[types.UID]time.Time
	empty     map[string]time.Time
}

func newRules() rules {
	return rules{budgets: map[string]int{}, shares: map[string]bool{}, sizes: map[string][]sized{}, killed: map[string]bool{}, foreigners: map[string]bool{}, seen: map[string]bool{}, protected: map[types.UID]time.Time{}, empty: map[string]time.Time{}}
}

// sized is how many claims a pool had at a time.
type sized struct {
	at     time.Time
	claims int64
}

// sizeKept is for how long what the controller reckons with may be older than watches are late: the decision was made before the move began.
const sizeKept = 2 * time.Minute

// budgetOf is how many nodes of a pool may be disrupted at once. A share is one of what the pool had at any time that the controller
// may have seen last.
func (w *rules) budgetOf(pool string) (most int, limited bool) {
	if !w.shares[pool] {
		most, limited = w.budgets[pool]
		return most, limited
	}
	var claims int64
	for _, s := range w.sizes[pool] {
		claims = max(claims, s.claims)
	}
	return int(claims+9) / 10, true
}

// size notes how many claims pools have.
func (w *rules) size(claims map[string]int64) {
	old := w.now().Add(-w.lag - w.later - sizeKept)
	for pool := range w.shares {
		w.sizes[pool] = append(slices.DeleteFunc(w.sizes[pool], func(s sized) bool { return s.at.Before(old) }), sized{w.now(), claims[pool]})
	}
}

// Breach is an invariant that did not hold.
type Breach struct{ Rule, What string }

// Error implements error.
func (b *Breach) Error() string { return b.Rule + ": " + b.What }

func (w *rules) breached(rule, format string, args ...any) {
	w.report(&Breach{rule, fmt.Sprintf(format, args...)})
}

func lives(in simaws.Glimpse) bool { return in.State == "pending" || in.State == "running" }

func tag(in simaws.Glimpse, key string) string {
	value, _ := in.Tag(key)
	return value
}

// each shows the instances that were launched for this cluster's pools.
func (w *rules) each(visit func(simaws.Glimpse)) {
	w.instances(func(in simaws.Glimpse) {
		if _, ours := in.Tag(karpv1.NodePoolLabelKey); ours && !w.foreigners[in.ID] {
			visit(in)
		}
	})
}

func (w *rules) claims(visit func(*karpv1.NodeClaim)) {
	w.server.Each(&karpv1.NodeClaim{}, func(o client.Object) { visit(o.(*karpv1.NodeClaim)) })
}

func instanceOf(c *karpv1.NodeClaim) string {
	return c.Status.ProviderID[strings.LastIndexByte(c.Status.ProviderID, '/')+1:]
}

// podsOn shows the pods of workloads that a node runs and that have not been asked to leave.
func (w *rules) podsOn(node string, visit func(*corev1.Pod)) {
	w.server.Each(&corev1.Pod{}, func(o client.Object) {
		if pod := o.(*corev1.Pod); pod.Spec.NodeName == node && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && pod.Namespace == "default" {
			visit(pod)
		}
	})
}

// nodeOf is the node of an instance.
func (w *rules) nodeOf(instance string) (found *corev1.Node) {
	w.server.Each(&corev1.Node{}, func(o client.Object) {
		if node := o.(*corev1.Node); instance != "" && strings.HasSuffix(node.Spec.ProviderID, "/"+instance) {
			found = node
		}
	})
	return found
}

// claimOf is the claim that has an instance on record.
func (w *rules) claimOf(instance string) (found *karpv1.NodeClaim) {
	w.claims(func(c *karpv1.NodeClaim) {
		if instance != "" && instanceOf(c) == instance {
			found = c
		}
	})
	return found
}

// check looks at what must hold at any time: S1, S2 and S3.
func (w *rules) check() {
	owners, made, going, claimed := map[string]string{}, map[string]int{}, map[string]bool{}, map[string]int64{}
	w.server.Each(&corev1.Node{}, func(o client.Object) {
		if id := o.(*corev1.Node).Spec.ProviderID; o.GetDeletionTimestamp() != nil {
			going[id[strings.LastIndexByte(id, '/')+1:]] = true
		}
	})
	w.claims(func(c *karpv1.NodeClaim) {
		claimed[c.Labels[karpv1.NodePoolLabelKey]]++
		id := instanceOf(c)
		if id == "" {
			return
		}
		if other := owners[id]; other != "" {
			w.breached("S2", "instance %s belongs to NodeClaims %s and %s", id, other, c.Name)
		}
		owners[id] = c.Name
		going[id] = going[id] || c.DeletionTimestamp != nil || c.Annotations[karpv1.MoveAnnotationKey] != ""
	})
	w.size(claimed)
	cpu, nodes := map[string]int64{}, map[string]int64{}
	w.each(func(in simaws.Glimpse) {
		made[tag(in, cloud.BatchAnnotationKey)]++
		if !lives(in) {
			return
		}
		if owners[in.ID] == "" && w.now().Sub(in.Launched) > orphanWindow && !w.restored {
			w.breached("S1", "instance %s has run for %v without a NodeClaim", in.ID, w.now().Sub(in.Launched).Round(time.Minute))
		}
		if going[in.ID] { // limits do not count what is being removed or replaced (P87)
			return
		}
		pool := tag(in, karpv1.NodePoolLabelKey)
		cpu[pool] += int64(w.vcpus(in.Type))
		nodes[pool]++
	})
	for batch, n := range made {
		if size := sizeOf(batch); size > 0 && n > size {
			w.breached("S2", "%d instances were launched for batch %s, which has %d NodeClaims", n, batch, size)
		}
	}
	w.server.Each(&karpv1.NodePool{}, func(o client.Object) {
		p := o.(*karpv1.NodePool)
		if limit, ok := p.Spec.Limits[karpv1.LimitsNodes]; ok && p.Spec.Replicas != nil && claimed[p.Name] > limit.Value() {
			w.breached("S3", "static NodePool %s has %d NodeClaims and may have %d", p.Name, claimed[p.Name], limit.Value())
		}
		if limit, ok := p.Spec.Limits[corev1.ResourceCPU]; ok && cpu[p.Name] > limit.Value() {
			w.breached("S3", "NodePool %s has %d vCPUs and may have %d", p.Name, cpu[p.Name], limit.Value())
		}
		if limit, ok := p.Spec.Limits["nodes"]; ok && nodes[p.Name] > limit.Value() {
			w.breached("S3", "NodePool %s has %d nodes and may have %d", p.Name, nodes[p.Name], limit.Value())
		}
	})
}

// sizeOf is how many claims a batch has, as its id says.
func sizeOf(batch string) int {
	n, err := strconv.Atoi(batch[strings.LastIndexByte(batch, 'x')+1:])
	if err != nil || !strings.Contains(batch, "x") {
		return 0
	}
	return n
}

// asked is a call to AWS that changes instances.
type asked struct {
	action string
	ids    []string
	lived  map[string]bool // before it
}

// asks reads a call; nil if it changes no instance.
func (w *rules) asks(body []byte) *asked {
	if !bytes.HasPrefix(body, []byte("Action=")) {
		return nil
	}
	text, _, _ := strings.Cut(string(body[len("Action="):]), "&")
	a := &asked{action: text, lived: map[string]bool{}}
	switch text {
	case "CreateFleet":
		return a
	case "TerminateInstances", "RebootInstances", "CreateTags":
	default:
		return nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	for key, values := range form {
		if strings.HasPrefix(key, "InstanceId.") || strings.HasPrefix(key, "ResourceId.") {
			a.ids = append(a.ids, values...)
		}
	}
	slices.Sort(a.ids)
	w.instances(func(in simaws.Glimpse) { a.lived[in.ID] = lives(in) })
	return a
}

// answered looks at what a call has done: S6, S7, S9 and S10.
func (w *rules) answered(a *asked) {
	if a == nil {
		return
	}
	w.dirty = true
	for _, id := range a.ids {
		if w.foreigners[id] {
			w.breached("S6", "%s on instance %s, which is not the cluster's", a.action, id)
		}
	}
	switch a.action {
	case "CreateFleet":
		w.each(w.intended)
	case "RebootInstances":
		for _, id := range a.ids {
			w.rebootAsked(id)
		}
	case "TerminateInstances":
		var ended []simaws.Glimpse
		w.each(func(in simaws.Glimpse) {
			if slices.Contains(a.ids, in.ID) && a.lived[in.ID] && !lives(in) {
				ended = append(ended, in)
			}
		})
		for _, in := range ended {
			w.ended(in)
		}
	}
}

// intended holds a new instance against S9: a claim was written before it.
func (w *rules) intended(in simaws.Glimpse) {
	if w.seen[in.ID] {
		return
	}
	w.seen[in.ID] = true
	w.made++
	batch, found := tag(in, cloud.BatchAnnotationKey), false
	w.claims(func(c *karpv1.NodeClaim) { found = found || cloud.BatchID(c) == batch })
	if !found {
		w.breached("S9", "instance %s was launched and no NodeClaim of batch %q is on record", in.ID, batch)
	}
}

// ended holds the end of an instance by the controller against S7 and S10.
func (w *rules) ended(in simaws.Glimpse) {
	claim, node := w.claimOf(in.ID), w.nodeOf(in.ID)
	if claim == nil {
		w.orphanEnded(in)
		return
	}
	if claim.DeletionTimestamp == nil && (node == nil || node.DeletionTimestamp == nil) {
		w.breached("S7", "instance %s was ended although neither its NodeClaim %s nor its node has been deleted", in.ID, claim.Name)
	}
	if node == nil || w.overdue(claim, 0) {
		return
	}
	w.podsOn(node.Name, func(pod *corev1.Pod) {
		w.breached("S7", "instance %s was ended under pod %s, which was never asked to leave", in.ID, pod.Name)
	})
	w.server.Each(&corev1.Pod{}, func(o client.Object) {
		pod := o.(*corev1.Pod)
		if pod.Spec.NodeName == node.Name && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp != nil && w.now().Before(pod.DeletionTimestamp.Time) {
			w.breached("S7", "instance %s was ended under pod %s, which has until %s to end", in.ID, pod.Name, pod.DeletionTimestamp.Format(time.TimeOnly))
		}
	})
}

// orphanEnded holds the end of an instance without a claim against S7 and S10.
func (w *rules) orphanEnded(in simaws.Glimpse) {
	waiting, leaving := "", false
	w.claims(func(c *karpv1.NodeClaim) {
		switch {
		case cloud.BatchID(c) != tag(in, cloud.BatchAnnotationKey):
		case c.DeletionTimestamp != nil:
			leaving = true
		case c.Status.ProviderID == "":
			waiting = c.Name
		}
	})
	if leaving { // one of them has it
		return
	}
	if waiting != "" {
		w.breached("S7", "instance %s was ended although NodeClaim %s waits for it", in.ID, waiting)
	}
	fleet, since := 0, w.now().Add(-quotaWindow)
	w.each(func(in simaws.Glimpse) {
		if lives(in) {
			fleet++
		}
	})
	recent := func(at time.Time) bool { return at.After(since) }
	w.orphans = append(slices.DeleteFunc(w.orphans, func(at time.Time) bool { return !recent(at) }), w.now())
	processes := 1
	for _, at := range w.started {
		if recent(at) {
			processes++
		}
	}
	if most := processes * ((fleet+len(w.orphans))/quotaShare + 1); len(w.orphans) > most {
		w.breached("S10", "%d instances without a NodeClaim were ended within %v, and %d may be", len(w.orphans), quotaWindow, most)
	}
}

// overdue says whether a claim's deadline for draining is over, or so near.
func (w *rules) overdue(claim *karpv1.NodeClaim, near time.Duration) bool {
	at, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.TerminationTimestampAnnotationKey])
	return err == nil && !w.now().Add(near).Before(at)
}

// Settled says what is not as it must be when nothing has been wrong for a while (L1 to L4, S1): nil if all is well.
func (w *World) Settled() error {
	if w.restored {
		return nil // which takes hours, and is not what this is about
	}
	found := w.settled()
	if w.restless(steady) {
		// One late move is none too many: a pod may have paid for its last one only now. But it is the last.
		if err := w.Run(onceMore); err != nil {
			return err
		}
		if found = w.settled(); found == nil && w.restless(onceMore-2*steady) {
			found = &Breach{"L1", fmt.Sprintf("NodeClaims still change after %v in which nothing was wrong", w.now().Sub(w.calmed))}
		}
	}
	if found != nil {
		w.note("breach of %s", found)
		return found
	}
	return nil
}

// restless says whether NodeClaims have come or gone within a time although nothing has been wrong for long.
func (w *rules) restless(within time.Duration) bool {
	return w.calm() && w.now().Sub(w.claimsChanged) < within
}

// calm says whether nothing has been wrong for long.
func (w *rules) calm() bool { return !w.calmed.IsZero() && w.now().Sub(w.calmed) >= calmLeast }

// calmLeast is for how long nothing may have been wrong before nothing may change any more, and steady how long nothing has changed then.
// onceMore is for how long is looked on where something has.
const (
	calmLeast = 65 * time.Minute
	steady    = 5 * time.Minute
	onceMore  = time.Hour
	emptyMost = 20 * time.Minute
	// taintedMost is for how long a node may stay tainted without a move after the last failure.
	taintedMost = 10 * time.Minute
)

func (w *rules) settled() (found *Breach) {
	say := func(rule, format string, args ...any) {
		if found == nil {
			found = &Breach{rule, fmt.Sprintf(format, args...)}
		}
	}
	w.server.Each(&corev1.Pod{}, func(o client.Object) {
		pod := o.(*corev1.Pod)
		if pod.Spec.NodeName == "" && pod.Namespace == "default" {
			say("L2", "pod %s has no node", pod.Name)
		}
	})
	busy := map[string]bool{} // pools whose budget is taken by a node that cannot go
	owned, claims, up := map[string]bool{}, map[string]*karpv1.NodeClaim{}, map[string]int64{}
	w.claims(func(c *karpv1.NodeClaim) {
		if c.DeletionTimestamp == nil && c.StatusConditions().IsTrue(karpv1.ConditionInitialized) {
			up[c.Labels[karpv1.NodePoolLabelKey]]++
		}
		kept := slices.Contains(c.Finalizers, foreignKey) // by somebody else, or by a pod that must not be disrupted, for as long as it is there
		if node := w.nodeOf(instanceOf(c)); node != nil {
			w.podsOn(node.Name, func(pod *corev1.Pod) { kept = kept || protected(pod) || w.pinned(pod) })
		}
		if grace := c.Spec.TerminationGracePeriod; grace != nil && c.DeletionTimestamp != nil && w.now().Sub(c.DeletionTimestamp.Time) > grace.Duration+10*time.Minute {
			kept = slices.Contains(c.Finalizers, foreignKey) // no pod keeps it for longer
		}
		if c.DeletionTimestamp != nil && kept {
			busy[c.Labels[karpv1.NodePoolLabelKey]] = true
		}
		if c.DeletionTimestamp != nil && w.now().Sub(c.DeletionTimestamp.Time) > 10*time.Minute && !kept {
			say("L3", "NodeClaim %s has been going for %v", c.Name, w.now().Sub(c.DeletionTimestamp.Time))
		}
		owned[instanceOf(c)], claims[c.Status.ProviderID] = true, c
	})
	w.each(func(in simaws.Glimpse) {
		if lives(in) && !owned[in.ID] {
			say("S1", "instance %s has no NodeClaim", in.ID)
		}
	})
	static := map[string]bool{} // pools whose nodes may be empty
	w.server.Each(&karpv1.NodePool{}, func(o client.Object) {
		p := o.(*karpv1.NodePool)
		static[p.Name] = p.Spec.Replicas != nil
		if p.Spec.Replicas != nil && up[p.Name] != *p.Spec.Replicas {
			say("P103", "static NodePool %s has %d nodes and replicas is %d", p.Name, up[p.Name], *p.Spec.Replicas)
		}
	})
	calm, quiet := w.calm(), !w.calmed.IsZero() && w.now().Sub(w.calmed) >= taintedMost
	w.server.Each(&corev1.Node{}, func(o client.Object) {
		node := o.(*corev1.Node)
		claim := claims[node.Spec.ProviderID]
		if !quiet || claim == nil || claim.DeletionTimestamp != nil || node.DeletionTimestamp != nil {
			return
		}
		if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey }) && (calm || claim.Annotations[karpv1.MoveAnnotationKey] == "" && !rebooted(claim)) {
			say("L1", "node %s has the taint %s and nothing disrupts it", node.Name, karpv1.DisruptedTaintKey)
		}
		pool := claim.Labels[karpv1.NodePoolLabelKey]
		if since := w.empty[node.Name]; calm && w.rest && !static[pool] && !busy[pool] && !since.IsZero() && w.now().Sub(since) > emptyMost {
			say("L1", "node %s has been empty for %v", node.Name, w.now().Sub(since))
		}
	})
	w.wellAgain(say)
	if w.restless(steady) {
		say("L1", "NodeClaims still change after %v in which nothing was wrong", w.now().Sub(w.calmed))
	}
	return found
}

// protected says whether a pod must not be disrupted.
func protected(pod *corev1.Pod) bool {
	return pod.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true"
}

// ourNode says whether a node is one of the cluster's pools.
func ourNode(node *corev1.Node) bool { return node.Labels[karpv1.NodePoolLabelKey] != "" }

// spec says whether an object's spec is its user's alone.
func usersSpec(o client.Object) bool {
	switch o.(type) {
	case *karpv1.NodePool, *awsv1.EC2NodeClass:
		return true
	}
	return false
}

// nodes shows which nodes are ready.
func (w *World) nodes(visit func(ready bool)) {
	w.server.Each(&corev1.Node{}, func(o client.Object) {
		visit(slices.ContainsFunc(o.(*corev1.Node).Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}))
	})
}
