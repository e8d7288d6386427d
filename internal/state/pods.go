package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// podEntry is a pod with what has been found out about it.
type podEntry struct {
	space, name string
	pod         *corev1.Pod // as the API has it
	shown       *corev1.Pod // as views know it by its UID
	draft       *toworld.Draft
	world       *world.Pod   // as the engine sees it; nil for one that takes no part
	claims      []string     // volume claims
	host        *host        // where it runs
	nominated   *host        // which node its nomination names, if it needs a node
	shows       *daemonEntry // which daemon's shape is taken from it
	// first is when it was first found to need a node, in nanoseconds since 1970.
	first   int64
	class   int32 // -1 for none
	pending bool
	gone    bool
	// seated says that its nomination gives it a place.
	seated bool
	// kin are the pods that its owner has made like it, while it has no node; unseen says that the scheduler has not looked at it, and
	// shares that it needs a node all the same, because its kin do.
	kin            kinKey
	unseen, shares bool
	// idle says that it takes no part although it is not finished.
	idle bool
	// troubled says that a problem is on record.
	troubled bool
	todo     todo
}

// todo says what must be found out again about a pod.
type todo uint8

const (
	rejoin todo = 1 << iota // where it counts
	reread                  // its spec, and then where it counts
	listed                  // it is in the queue
)

func (m *Mirror) findPod(space, name string) *podEntry {
	if m.pods[space] == nil {
		m.pods[space] = map[string]*podEntry{}
	}
	e := m.pods[space][name]
	if e == nil {
		e = &podEntry{space: space, name: name, class: -1}
		m.pods[space][name] = e
	}
	return e
}

func (m *Mirror) putPod(p *corev1.Pod) {
	e := m.findPod(toworld.Space(p), p.Name)
	if e.pod != nil && !e.gone && outdated(e.pod, p) {
		return
	}
	if e.pod != nil && !sameUID(e.pod, p) {
		e.first = 0 // another pod under the same name
	}
	e.pod, e.gone = p, false
	m.enqueue(e, reread)
}

func (m *Mirror) dropPod(p *corev1.Pod) {
	if e := m.pods[toworld.Space(p)][p.Name]; e != nil && (e.pod == nil || sameUID(e.pod, p)) {
		e.gone = true
		m.enqueue(e, reread)
	}
}

func (m *Mirror) enqueue(e *podEntry, what todo) {
	if e.todo&listed == 0 {
		m.queue = append(m.queue, e)
	}
	e.todo |= what | listed
}

// queueSpace looks at every pod of a namespace again.
func (m *Mirror) queueSpace(space string) {
	for _, e := range m.pods[space] {
		m.enqueue(e, rejoin)
	}
}

// queueAll looks at every pod again for which is says so.
func (m *Mirror) queueAll(what todo, is func(*podEntry) bool) {
	for _, list := range m.pods {
		for _, e := range list {
			if is(e) {
				m.enqueue(e, what)
			}
		}
	}
}

func comparePods(x, y *podEntry) int {
	return cmp.Or(strings.Compare(x.space, y.space), strings.Compare(x.name, y.name))
}

// refreshPods finds out what must be found out about pods. All specs are read before any class is given, since a class depends
// on which labels selectors read and on who shares a volume.
func (m *Mirror) refreshPods() {
	if len(m.queue)+len(m.volumes.touched) == 0 {
		return
	}
	slices.SortFunc(m.queue, comparePods)
	sorted := len(m.queue)
	var fresh []string
	for _, e := range m.queue {
		if e.todo&reread != 0 {
			fresh = append(fresh, m.reread(e)...)
		}
	}
	for claim := range m.volumes.touched {
		for e := range m.volumes.users[claim] {
			m.enqueue(e, rejoin)
		}
	}
	clear(m.volumes.touched)
	m.learn(fresh)
	if len(m.queue) > sorted {
		slices.SortFunc(m.queue, comparePods) // what came to it from maps must not be in their order
	}
	var moved []*podEntry
	for _, e := range m.queue {
		e.todo = 0
		if m.join(e) {
			moved = append(moved, e)
		}
		if e.gone {
			m.forget(e)
		}
	}
	clear(m.queue)
	m.queue = m.queue[:0]
	for _, e := range m.kins.unsettled() {
		if m.join(e) {
			moved = append(moved, e)
		}
	}
	slices.SortFunc(moved, comparePods)
	m.movePending(slices.Compact(moved))
}

// reread converts the pod's spec and returns label keys that no selector had read before.
func (m *Mirror) reread(e *podEntry) (fresh []string) {
	o := e.pod
	m.daemonPod(e, o)
	var d *toworld.Draft
	var err, costErr error
	var claims []string
	if !e.gone && !terminal(o) {
		costErr = wrongDisruptionCost(o.Annotations)
		d, err = m.findDraft(o)
		if err == nil {
			claims = claimNames(o)
		}
	}
	if err != nil || costErr != nil || e.troubled {
		name := toworld.FullName(e.space, e.name)
		m.problem("Pod", name, "", err)
		m.problem("Pod", name, disruptionCostPart, costErr)
		e.troubled = err != nil || costErr != nil
	}
	m.volumes.use(e, claims)
	if d == e.draft {
		return nil
	}
	if d != nil {
		fresh = m.drafts.Hold(d)
	}
	if e.draft != nil {
		m.drafts.Release(e.draft)
	}
	e.draft = d
	return fresh
}

func (m *Mirror) findDraft(o *corev1.Pod) (d *toworld.Draft, err error) {
	defer recovered(&err)
	return m.drafts.Find(m.conv, o)
}

// learn looks again at the pods that carry a label which has become readable: it may tell them apart now.
func (m *Mirror) learn(fresh []string) {
	fresh = slices.DeleteFunc(fresh, func(k string) bool { _, known := slices.BinarySearch(m.read, k); return known })
	if len(fresh) == 0 {
		return
	}
	m.read = slices.Concat(m.read, fresh)
	slices.Sort(m.read)
	m.read = slices.Compact(m.read)
	m.queueAll(rejoin, func(e *podEntry) bool {
		if e.world == nil || e.todo != 0 {
			return false
		}
		labels := e.pod.Labels
		return slices.ContainsFunc(fresh, func(k string) bool { _, ok := labels[k]; return ok })
	})
}

// join puts the pod where it counts, and says whether the list of pending pods is concerned.
func (m *Mirror) join(e *podEntry) (pendingMoved bool) {
	o := e.pod
	var at, nominated *host
	pending := false
	m.kins.join(e)
	if e.draft != nil {
		switch name := o.Spec.NodeName; {
		case name == "":
			if pending = refused(o) || e.shares; pending {
				nominated = m.nominatedHost(o)
			}
		case e.host != nil && e.host.name == name:
			at = e.host
		default:
			at = m.hostOf(name)
		}
	}
	var w *world.Pod
	class := int32(-1)
	_, example := o.Annotations[v1.ExamplePodAnnotationKey]
	buffer, spare := toworld.SpareOf(o)
	if e.draft == nil {
		spare = 0
	}
	if at != nil || pending || (example || spare > 0) && e.draft != nil {
		class = m.classOf(e, o, buffer)
		w = m.worldPod(e, o, class)
	} else {
		delete(m.wakes, e)
	}
	if e.class >= 0 {
		m.classes.release(e.class)
	}
	if class >= 0 && class != e.class {
		m.worldChanged = true // whoever plans for pods like it needs its class, wherever it is itself
	}
	if spare > 0 || buffer != "" {
		m.setSpare(e, spareEntry{buffer, spare}, class != e.class)
	}
	e.class = class
	if pending && e.first == 0 {
		e.first = m.now.UnixNano()
	}
	m.index(e, w)
	m.setIdle(e, w == nil && !e.gone && !terminal(o))
	old := e.world
	e.world = w
	m.move(e, at)
	m.nominate(e, nominated)
	if nominated != nil {
		pending = e.pending // until its node has been looked at, which follows
	}
	pendingMoved = (pending || e.pending) && (pending != e.pending || old != w)
	e.pending = pending
	return pendingMoved
}

// worldPod is the pod as the engine sees it: the same value as before if nothing that it sees has changed.
func (m *Mirror) worldPod(e *podEntry, o *corev1.Pod, class int32) *world.Pod {
	owner := controller(o)
	w := world.Pod{
		Name: o.Name, UID: string(o.UID), Class: class, Created: o.CreationTimestamp.Unix(),
		Terminating: o.DeletionTimestamp != nil, Daemon: owner == "DaemonSet", Mirror: owner == "Node",
	}
	var again time.Time
	if w.Movable, again = m.movable(o, owner); again.IsZero() {
		delete(m.wakes, e)
	} else {
		m.wakes[e] = again
		m.wakeBy(again)
	}
	if e.world != nil && *e.world == w {
		return e.world
	}
	return &w
}

// move takes the pod from one host to another, or tells its host that it has changed.
func (m *Mirror) move(e *podEntry, to *host) {
	if from := e.host; from != nil && from != to {
		if i, found := slices.BinarySearchFunc(from.pods, e, comparePods); found {
			from.pods = slices.Delete(from.pods, i, i+1)
		}
		from.podEvent = m.now
		m.markHost(from)
	}
	if to != nil && e.host != to {
		i, _ := slices.BinarySearchFunc(to.pods, e, comparePods)
		to.pods = slices.Insert(to.pods, i, e)
		if bound := e.bound(); bound.After(to.podEvent) {
			to.podEvent = bound
		}
	}
	if to != nil {
		m.markHost(to)
	}
	e.host = to
}

// bound is when the scheduler says that it bound the pod; zero if it does not.
func (e *podEntry) bound() time.Time {
	for i := range e.pod.Status.Conditions {
		if c := &e.pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// index makes the pod known by its UID, or forgets the one that was.
func (m *Mirror) index(e *podEntry, w *world.Pod) {
	if e.world != nil && (w == nil || w.UID != e.world.UID) {
		m.byUID.del(e.world.UID)
		m.changed = true
	}
	if w == nil {
		return
	}
	if e.world != w || e.shown != e.pod {
		m.byUID.set(w.UID, podRef{e.pod, w, e.first})
		e.shown, m.changed = e.pod, true
	}
}

// podRef is what a view knows of a pod.
type podRef struct {
	pod   *corev1.Pod
	world *world.Pod
	first int64
}

// movePending applies what has changed to the list of pending pods, which is in order of namespace and name.
func (m *Mirror) movePending(moved []*podEntry) {
	if len(moved) == 0 {
		return
	}
	m.worldChanged = true
	entries, worlds := make([]edit[*podEntry], len(moved)), make([]edit[*world.Pod], len(moved))
	for i, e := range moved {
		at, found := slices.BinarySearchFunc(m.pending, e, comparePods)
		entries[i] = edit[*podEntry]{at, found, e.pending, e}
		worlds[i] = edit[*world.Pod]{at, found, e.pending, e.world}
	}
	m.pending, m.pendingWorlds = splice(m.pending, entries), splice(m.pendingWorlds, worlds)
}

// forget ends a pod that is gone; everything that it held has been released.
func (m *Mirror) forget(e *podEntry) {
	delete(m.wakes, e)
	delete(m.disregarded, e.pod.UID)
	if delete(m.pods[e.space], e.name); len(m.pods[e.space]) == 0 {
		delete(m.pods, e.space)
	}
}
