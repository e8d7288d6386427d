package state

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// daemonTolerations are added to daemon pods by their controller.
var daemonTolerations = []world.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: "Exists", Effect: world.NoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: "Exists", Effect: world.NoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: "Exists", Effect: world.NoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: "Exists", Effect: world.NoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: "Exists", Effect: world.NoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: "Exists", Effect: world.NoSchedule},
}

// daemonEntry is a DaemonSet with the pod that shows what webhooks have done to its template.
type daemonEntry struct {
	obj *appsv1.DaemonSet
	// newest is the youngest of its pods that are not finished; stale says that it must be looked for.
	newest  *podEntry
	created metav1.Time // when newest was made
	stale   bool
	dirty   bool
	world   *world.Daemon
}

func (m *Mirror) putDaemon(ds *appsv1.DaemonSet) {
	key := spaced(ds)
	d := m.daemons[key]
	switch {
	case d == nil:
		d = &daemonEntry{stale: true}
		m.daemons[key] = d
	case outdated(d.obj, ds):
		return
	}
	d.obj, d.dirty = ds, true
}

func (m *Mirror) dropDaemon(ds *appsv1.DaemonSet) {
	if d := m.daemons[spaced(ds)]; d != nil && sameUID(d.obj, ds) {
		delete(m.daemons, spaced(ds))
		m.problem("DaemonSet", spaced(ds), "", nil)
		m.daemonsChanged = true
	}
}

// daemonPod looks whether a pod that has come, changed or gone is the youngest of its DaemonSet, or was.
func (m *Mirror) daemonPod(e *podEntry, o *corev1.Pod) {
	var owner *daemonEntry
	if !e.gone && !terminal(o) {
		for _, r := range o.OwnerReferences {
			if d := m.daemons[toworld.FullName(e.space, r.Name)]; r.Kind == "DaemonSet" && d != nil {
				owner = d
			}
		}
	}
	if was := e.shows; was != nil && was.newest == e {
		was.dirty = true
		was.stale = was.stale || was != owner || e.pod.CreationTimestamp.Before(&was.created)
	}
	e.shows = nil
	if owner != nil && (owner.newest == nil || owner.newest == e || m.younger(e, owner.newest)) {
		owner.show(e)
	}
}

// show takes the shape of the daemon from a pod.
func (d *daemonEntry) show(e *podEntry) {
	d.newest, d.created, d.dirty, e.shows = e, e.pod.CreationTimestamp, true, d
}

func (m *Mirror) younger(a, b *podEntry) bool {
	x, y := &a.pod.CreationTimestamp, &b.pod.CreationTimestamp
	return y.Before(x) || (x.Equal(y) && a.name < b.name)
}

// refreshDaemons converts DaemonSets. Their pods' shape is that of the newest live pod; where they run is taken from the template.
func (m *Mirror) refreshDaemons() {
	for _, key := range slices.Sorted(maps.Keys(m.daemons)) {
		d := m.daemons[key]
		if d.stale {
			m.findNewest(key, d)
		}
		if !d.dirty {
			continue
		}
		d.dirty = false
		w, err := m.daemon(d)
		m.problem("DaemonSet", key, "", err)
		if w == nil || d.world == nil || !reflect.DeepEqual(w.Class, d.world.Class) {
			d.world, m.daemonsChanged = w, true
		}
	}
	if !m.daemonsChanged {
		return
	}
	m.daemonsChanged, m.worldChanged = false, true
	list := make([]*world.Daemon, 0, len(m.daemons))
	for _, d := range m.daemons {
		if d.world != nil {
			list = append(list, d.world)
		}
	}
	slices.SortFunc(list, func(x, y *world.Daemon) int {
		return cmp.Or(strings.Compare(x.Class.Namespace, y.Class.Namespace), strings.Compare(x.Name, y.Name))
	})
	m.daemonList = list
}

func (m *Mirror) findNewest(key string, d *daemonEntry) {
	space, name, _ := strings.Cut(key, "/")
	d.newest, d.stale, d.dirty = nil, false, true
	for _, e := range m.pods[space] {
		o := e.pod
		if e.gone || terminal(o) || !slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "DaemonSet" && r.Name == name }) {
			continue
		}
		if d.newest == nil || m.younger(e, d.newest) {
			d.show(e)
		}
	}
}

// daemon converts a DaemonSet; nil for one whose pods will not be admitted to new nodes as planned here.
func (m *Mirror) daemon(d *daemonEntry) (w *world.Daemon, err error) {
	defer recovered(&err)
	spec := &d.obj.Spec.Template.Spec
	t, err := m.conv.Pod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: d.obj.Name, Namespace: d.obj.Namespace, Labels: d.obj.Spec.Template.Labels}, Spec: *spec})
	if err != nil {
		return nil, err
	}
	if t.Class.Refused != "" && len(spec.ResourceClaims) > 0 {
		return nil, nil
	}
	c := t.Class
	if d.newest != nil {
		live := d.newest.pod
		if r, err := toworld.Resources(m.conv.Names, toworld.PodRequests(&live.Spec, &live.Status)); err == nil {
			c.Requests = r
		}
		c.Ports = toworld.HostPorts(&live.Spec)
	}
	c.Tolerations = slices.Concat(c.Tolerations, daemonTolerations)
	return &world.Daemon{Name: spaced(d.obj), Class: &c}, nil
}
