package state

import (
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
	"karpenter/internal/state/toworld"
)

// assumeFor is how long a claim counts that we have created and that the API has not shown yet: an API server that is overloaded
// shows it minutes later, and whoever plans for its pods again meanwhile makes it busier still. leavingFor is the same for a claim
// that we are about to delete, which may fail.
const (
	assumeFor  = 5 * time.Minute
	leavingFor = time.Minute
)

// wasteNames is how many resource names may pile up before they are numbered anew: every vector has an entry for each.
const wasteNames = 64

// MirrorOptions says how objects are to be read, and what else the mirror needs to know.
type MirrorOptions struct {
	Options
	// Types is what a node class can launch now: the names of the entries of its resource vectors, the types by name, and a
	// version that changes with the content. For pools with kubelet settings of their own the name is as ClassWith makes it. It is asked for each view, so it must answer from memory, and not ask the mirror.
	Types func(class string) (resources []string, list []*world.InstanceType, version uint64, err error)
	// Resources is the order in which Types numbers resources, as far as it is known beforehand. Where the mirror's own is the same,
	// types need not be copied.
	Resources []string
	// Now is the clock that assumptions expire by.
	Now func() time.Time
}

// Mirror follows a cluster: events go in, views come out. A view costs what has changed since the one before. It is safe for
// concurrent use; objects that it is given must not be changed afterwards, except those given to Assume and Wrote, which it
// copies.
type Mirror struct {
	opt MirrorOptions

	mu     sync.Mutex
	synced bool
	view   *View
	now    time.Time
	conv   *toworld.Converter

	pods    map[string]map[string]*podEntry // by namespace and name
	queue   []*podEntry                     // pods about which something must be found out
	wakes   map[*podEntry]time.Time         // when time will change what a pod means
	drafts  *toworld.DraftSet
	classes *classSet
	read    []string // label keys that tell classes apart, sorted
	volumes *volumeSet
	keyBuf  []byte
	// pending lists the pods that need a node, in order.
	pending       []*podEntry
	pendingWorlds []*world.Pod
	byUID         *shards[podRef]
	// spares are the pods that stand for spare pods of buffers, and spareWorlds those spare pods.
	spares       map[*podEntry]spareEntry
	spareWorlds  []*world.Pod
	spareChanged bool
	kins         kinSet
	// nominees counts the pods that need a node and are nominated for a node; disregarded are nominations that do not count, by
	// the pod.
	nominees    int
	disregarded map[types.UID]string

	hosts    map[string]*host
	claims   map[string]*claimEntry
	csiNodes table[*storagev1.CSINode]
	hostsBy  map[string][]*host       // by provider ID
	claimsBy map[string][]*claimEntry // by provider ID
	claimsAt map[string][]*claimEntry // by the node name that they were registered with
	byClaim  *shards[*Node]

	dirtyHosts  []*host
	dirtyClaims []*claimEntry
	nodes       []*Node
	worlds      []*world.Node

	assumed map[string]bool         // names of claims
	leaving map[string]time.Time    // claims that we are about to delete, and until when that counts
	gone    map[types.UID]time.Time // claims that have been seen to go
	wakeAt  time.Time               // when to look at the above, and at wakes; zero is never

	pools     map[string]*poolEntry
	poolList  []*world.Pool
	poolIndex map[string]*Pool
	types     map[string]*typeList
	// poolClasses are the node classes that pools name, sorted.
	poolClasses []string
	// overlaid is what overlays make of types, nil if there are none; overlayList what a view shows of them.
	overlays    map[string]*overlayEntry
	overlaid    *world.Overlays
	overlayList []*Overlay
	daemons     map[string]*daemonEntry
	daemonList  []*world.Daemon
	budgets     map[string][]budget
	cover       *coverIndex // of the budgets; nil once they or their selectors are others

	problems    map[problemKey]error
	problemList []dump.Problem
	nameCount   int // how many resource names the first view had after they were numbered; 0 before it

	// idle are pods that take no part, unshown nodes and claims that no node of the view shows; sources is what the newest view has of
	// them and of other kinds, stale what of it must be made again.
	idle    map[*podEntry]bool
	unshown map[unshownKey]bool
	sources *sources
	stale   staleSet
	told    uint64 // how often something was put or dropped

	changed         bool // a view would show something new
	worldChanged    bool // decisions may come out differently
	poolsChanged    bool
	overlaysChanged bool // what overlays say
	overlaysSeen    bool // their objects
	daemonsChanged  bool
	problemsChanged bool
	budgetsShared   bool // a view holds the map
	reprice         bool
	fresh           bool // nothing of the last view may be used again
}

type problemKey struct{ kind, name, part string }

// NewMirror returns an empty mirror.
func NewMirror(opt MirrorOptions) *Mirror {
	m := &Mirror{
		opt: opt, conv: toworld.NewConverter(opt.Options),
		pods: map[string]map[string]*podEntry{}, wakes: map[*podEntry]time.Time{}, drafts: toworld.NewDraftSet(), byUID: newShards[podRef](podShards), byClaim: newShards[*Node](claimShards), classes: newClassSet(), volumes: newVolumeSet(),
		hosts: map[string]*host{}, claims: map[string]*claimEntry{}, csiNodes: table[*storagev1.CSINode]{},
		hostsBy: map[string][]*host{}, claimsBy: map[string][]*claimEntry{}, claimsAt: map[string][]*claimEntry{},
		assumed: map[string]bool{}, leaving: map[string]time.Time{}, gone: map[types.UID]time.Time{},
		pools: map[string]*poolEntry{}, overlays: map[string]*overlayEntry{}, types: map[string]*typeList{}, daemons: map[string]*daemonEntry{}, budgets: map[string][]budget{},
		spares: map[*podEntry]spareEntry{}, disregarded: map[types.UID]string{}, problems: map[problemKey]error{}, idle: map[*podEntry]bool{}, unshown: map[unshownKey]bool{},
	}
	m.number()
	return m
}

// number begins to number resources.
func (m *Mirror) number() {
	m.conv.Names, m.nameCount = world.NewNames(), 0
	for _, name := range m.opt.Resources {
		m.conv.Names.Index(name)
	}
}

func (m *Mirror) clock() time.Time {
	if m.opt.Now == nil {
		return time.Time{}
	}
	return m.opt.Now()
}

// Kinds lists an empty object of each kind that the mirror wants to be fed with.
func (m *Mirror) Kinds() []Object {
	out := []Object{
		&corev1.Pod{}, &corev1.Node{}, &v1.NodeClaim{}, &v1.NodePool{}, &appsv1.DaemonSet{}, &policyv1.PodDisruptionBudget{}, &corev1.PersistentVolume{},
		&corev1.PersistentVolumeClaim{}, &storagev1.StorageClass{}, &storagev1.CSINode{}, &corev1.Namespace{},
	}
	if m.opt.NodeOverlays {
		out = append(out, &v1alpha1.NodeOverlay{})
	}
	if len(m.opt.DefaultSpread) > 0 {
		out = append(out, &corev1.Service{}, &corev1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{})
	}
	return out
}

// Handler feeds the mirror from an informer.
func (m *Mirror) Handler() cache.ResourceEventHandler {
	put := func(obj any) {
		if o, ok := obj.(Object); ok {
			m.Put(o)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, obj any) { put(obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if o, ok := obj.(Object); ok {
				m.Drop(o)
			}
		},
	}
}

// Put tells the mirror of an object that was added or changed. Events that come late or twice do no harm, and kinds that it does
// not read are ignored.
func (m *Mirror) Put(obj Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(obj)
}

func (m *Mirror) put(obj Object) {
	m.told++
	m.markStale(obj)
	switch o := obj.(type) {
	case *corev1.Pod:
		m.putPod(o)
	case *corev1.Node:
		m.putNode(o)
	case *v1.NodeClaim:
		if m.serves(o.Spec.NodeClassRef) {
			m.putClaim(o)
		} else if e := m.claims[o.Name]; e != nil && e.obj != nil {
			m.dropClaim(e.obj) // another provider's has its name now
		}
	case *v1.NodePool:
		if m.serves(o.Spec.Template.Spec.NodeClassRef) {
			m.putPool(o)
		} else if e := m.pools[o.Name]; e != nil {
			m.dropPool(e.obj)
		}
	case *v1alpha1.NodeOverlay:
		m.putOverlay(o)
	case *appsv1.DaemonSet:
		m.putDaemon(o)
	case *policyv1.PodDisruptionBudget:
		m.putBudget(o)
	case *corev1.PersistentVolumeClaim:
		m.volumes.putClaim(o)
	case *corev1.PersistentVolume:
		if m.volumes.volumes.put(o.Name, o) {
			m.volumes.touchVolume(o.Name)
		}
	case *storagev1.StorageClass:
		if m.volumes.storage.put(o.Name, o) {
			m.volumes.touchStorage(o.Name)
		}
	case *storagev1.CSINode:
		m.putCSINode(o)
	case *corev1.Namespace:
		m.putNamespace(o)
	case *corev1.Service:
		m.putService(o)
	case *corev1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		m.putWorkload(obj)
	}
}

// serves says whether a pool or claim is this provider's (L20). This is the only place where that is decided for plans and moves.
func (m *Mirror) serves(ref *v1.NodeClassReference) bool {
	return m.opt.Class.Empty() || ref.Is(m.opt.Class)
}

// Drop tells the mirror that an object is gone. The end of an earlier object of the same name is ignored.
func (m *Mirror) Drop(obj Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told++
	m.markStale(obj)
	switch o := obj.(type) {
	case *corev1.Pod:
		m.dropPod(o)
	case *corev1.Node:
		m.dropNode(o)
	case *v1.NodeClaim:
		m.dropClaim(o)
	case *v1.NodePool:
		m.dropPool(o)
	case *v1alpha1.NodeOverlay:
		m.dropOverlay(o)
	case *appsv1.DaemonSet:
		m.dropDaemon(o)
	case *policyv1.PodDisruptionBudget:
		m.dropBudget(o)
	case *corev1.PersistentVolumeClaim:
		m.volumes.dropClaim(o)
	case *corev1.PersistentVolume:
		if m.volumes.volumes.drop(o.Name, o) {
			m.volumes.touchVolume(o.Name)
		}
	case *storagev1.StorageClass:
		if m.volumes.storage.drop(o.Name, o) {
			m.volumes.touchStorage(o.Name)
		}
	case *storagev1.CSINode:
		m.dropCSINode(o)
	case *corev1.Namespace:
		m.dropNamespace(o)
	case *corev1.Service:
		m.dropService(o)
	case *corev1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		m.dropWorkload(obj)
	}
}

// SetSynced says that every informer has delivered its first list.
func (m *Mirror) SetSynced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = true
}

// Synced says whether the mirror has been filled once. Nothing else holds decisions up: what is behind is behind by itself.
func (m *Mirror) Synced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}
