package sim

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/sim/kube"
)

// Event is something that has happened in a real cluster.
type Event struct {
	At time.Time
	// Process is which of the controller's processes did it, "" for anybody else.
	Process string
	// Write is a write that has taken effect, with the object after it, which Gone says is the last of it; what was there before the
	// judge knows.
	Write *kube.Op
	Gone  bool
	// Change makes the object after the write from the one before, where only that is known; false says that it is gone.
	Change func(before client.Object) (after client.Object, stays bool)
	// Call is a call to AWS of the controller, as it was sent; Lived says which instances lived before it.
	Call  []byte
	Lived map[string]bool
	// Instances are those that have changed by then.
	Instances []simaws.Glimpse
	// Leader is who holds the lease from now on, if that has changed.
	Leader string
}

// Found is a breach, and when it happened.
type Found struct {
	At time.Time
	*Breach
}

// Judge holds what has happened in a real cluster against the rules that a World is held to: events in, breaches out.
type Judge struct {
	rules
	// Breaches is what was found.
	Breaches []Found

	at     time.Time
	leader string
	stored map[reflect.Type]*table
	known  []simaws.Glimpse
	place  map[string]int // of instances in known
	said   map[string]bool
}

// table has the objects of a kind.
type table struct {
	objects map[types.NamespacedName]client.Object
	keys    []types.NamespacedName // in the order of lists
}

// NewJudge makes a judge of a cluster in which there is nothing. vcpus is how many an instance type has, lag how late watches may be.
func NewJudge(vcpus func(instanceType string) int, lag time.Duration) *Judge {
	j := &Judge{rules: newRules(), stored: map[reflect.Type]*table{}, place: map[string]int{}, said: map[string]bool{}}
	j.server, j.rules.vcpus, j.lag = j, vcpus, lag
	j.now = func() time.Time { return j.at }
	j.instances = func(visit func(simaws.Glimpse)) {
		for _, in := range j.known {
			visit(in)
		}
	}
	j.report = func(b *Breach) {
		if !j.said[b.Error()] { // what stays wrong is told once
			j.said[b.Error()] = true
			j.Breaches = append(j.Breaches, Found{j.at, b})
		}
	}
	return j
}

// SetBudget tells how many nodes of a pool may be disrupted at once.
func (j *Judge) SetBudget(pool string, nodes int) { j.budgets[pool] = nodes }

// Foreign tells of an instance that is somebody else's, whatever its tags say.
func (j *Judge) Foreign(id string) { j.foreigners[id] = true }

// Restored tells that the API server has forgotten claims.
func (j *Judge) Restored() { j.restored = true }

// Started tells that a process of the controller has started.
func (j *Judge) Started(at time.Time) { j.started = append(j.started, at) }

// See takes the next event. Events come in the order of time.
func (j *Judge) See(e *Event) {
	if e.At.After(j.at) {
		j.at = e.At
	}
	if e.Leader != "" {
		j.leader = e.Leader
	}
	var asked *asked
	if e.Call != nil {
		if asked = j.asks(e.Call); asked != nil {
			asked.lived = e.Lived
			j.leads(e.Process, asked.action)
		}
	}
	for _, in := range e.Instances {
		j.instance(in)
	}
	j.answered(asked)
	if op := e.Write; op != nil {
		if op.Old = j.Look(op.New, op.Key); op.Old == nil && (op.Verb != "create" || e.Change != nil) {
			return // it was gone before
		}
		if e.Change != nil {
			after, stays := e.Change(op.Old)
			op.New, e.Gone = after, !stays
		}
		j.store(op, e.Gone)
		if e.Process != "" {
			j.leads(e.Process, op.Verb+" of "+op.Kind.Kind+" "+op.Key.Name)
		}
		j.wrote(op, e.Process != "")
	}
	if j.dirty || j.at.Sub(j.checked) >= checkEvery {
		j.dirty, j.checked = false, j.at
		j.check()
	}
}

// leads holds what a process does against S11: only the one that has the lease acts.
func (j *Judge) leads(process, what string) {
	if j.leader != "" && process != "" && process != j.leader {
		j.breached("S11", "%s by %s while %s leads", what, process, j.leader)
	}
}

// End says what is not as it must be at the end, in calm since then.
func (j *Judge) End(at, calmed time.Time) []Found {
	j.at, j.calmed = at, calmed
	j.check()
	if b := j.settled(); b != nil && !j.restored {
		j.report(b)
	}
	return j.Breaches
}

// instance notes what has become of an instance. Those that no pool has launched are somebody else's.
func (j *Judge) instance(in simaws.Glimpse) {
	at, ok := j.place[in.ID]
	if !ok {
		at = len(j.known)
		j.place[in.ID], j.known = at, append(j.known, in)
		if _, pool := in.Tag(karpv1.NodePoolLabelKey); !pool {
			j.foreigners[in.ID] = true
		}
	}
	j.known[at] = in
	j.dirty = true
}

// store keeps what a write has left.
func (j *Judge) store(op *kube.Op, gone bool) {
	t := j.table(op.New)
	at, there := slices.BinarySearchFunc(t.keys, op.Key, inOrder)
	if gone {
		op.New = nil
		if there {
			t.keys = slices.Delete(t.keys, at, at+1)
			delete(t.objects, op.Key)
		}
		return
	}
	if !there {
		t.keys = slices.Insert(t.keys, at, op.Key)
	}
	t.objects[op.Key] = op.New
	if pod, ok := op.New.(*corev1.Pod); ok && protected(pod) && op.Old != nil && !protected(op.Old.(*corev1.Pod)) {
		j.protected[pod.UID] = j.at
	}
}

func inOrder(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func (j *Judge) table(kind client.Object) *table {
	of := reflect.TypeOf(kind)
	if j.stored[of] == nil {
		j.stored[of] = &table{objects: map[types.NamespacedName]client.Object{}}
	}
	return j.stored[of]
}

// Each implements objects.
func (j *Judge) Each(kind client.Object, visit func(client.Object)) {
	t := j.table(kind)
	for _, key := range t.keys {
		visit(t.objects[key])
	}
}

// Look implements objects.
func (j *Judge) Look(kind client.Object, key types.NamespacedName) client.Object {
	return j.table(kind).objects[key]
}

// Summary counts what the judge has seen.
func (j *Judge) Summary() string {
	return fmt.Sprintf("%d instances, %d NodeClaims, %d nodes, %d pods at the end", len(j.known), len(j.table(&karpv1.NodeClaim{}).keys), len(j.table(&corev1.Node{}).keys), len(j.table(&corev1.Pod{}).keys))
}
