package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/capi/v1alpha1"
	"karpenter/internal/cloud/capi/kinds"
)

// Kinds of scalable resources.
const (
	kindDeployment = "MachineDeployment"
	kindSet        = "MachineSet"
)

// key names a scalable resource.
type key struct{ kind, namespace, name string }

// String is how users and Machines are told of it.
func (k key) String() string { return k.kind + " " + k.namespace + "/" + k.name }

func compareKeys(a, b key) int { return strings.Compare(a.String(), b.String()) }

// store is what the caches show of the management cluster. Its objects are the caches' own and must not be changed.
type store struct {
	mu        sync.RWMutex
	resources map[key]*kinds.Scalable
	clusters  map[string]*kinds.Cluster // by namespace/name
	machines  map[string]*kinds.Machine // by namespace/name
	// providers has Machines by provider ID, claims by the UID of their claim.
	providers, claims map[string]string
	// templates has what infrastructure templates say of their Machines, for scalable resources that do not.
	templates map[templateKey]templateStatus

	// version changes with everything that instance types are made of.
	version atomic.Uint64
	// changed is called when it does; Machines that others end or that fail are told to ended.
	changed func()
	seen    func(*kinds.Machine)
	synced  []toolscache.InformerSynced
}

func newStore() *store {
	return &store{
		resources: map[key]*kinds.Scalable{}, clusters: map[string]*kinds.Cluster{}, machines: map[string]*kinds.Machine{},
		providers: map[string]string{}, claims: map[string]string{}, templates: map[templateKey]templateStatus{},
	}
}

func id(obj client.Object) string { return obj.GetNamespace() + "/" + obj.GetName() }

// follow keeps the store current with the caches.
func (s *store) follow(ctx context.Context, informers cache.Informers) error {
	for _, kind := range []client.Object{&kinds.Cluster{}, &kinds.MachineDeployment{}, &kinds.MachineSet{}, &kinds.Machine{}} {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T in the management cluster: %w", kind, err)
		}
		handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: s.put, UpdateFunc: func(_, obj any) { s.put(obj) },
			DeleteFunc: func(obj any) {
				if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
					obj = last.Obj
				}
				s.drop(obj)
			},
		})
		if err != nil {
			return fmt.Errorf("watching %T in the management cluster: %w", kind, err)
		}
		s.synced = append(s.synced, handle.HasSynced)
	}
	return nil
}

// ready says whether everything has been read once.
func (s *store) ready() bool {
	return len(s.synced) > 0 && !slices.ContainsFunc(s.synced, func(synced toolscache.InformerSynced) bool { return !synced() })
}

func (s *store) put(obj any) {
	switch o := obj.(type) {
	case *kinds.Machine:
		s.putMachine(o)
	case *kinds.MachineDeployment:
		s.putResource(key{kindDeployment, o.Namespace, o.Name}, &o.Scalable)
	case *kinds.MachineSet:
		s.putResource(key{kindSet, o.Namespace, o.Name}, &o.Scalable)
	case *kinds.Cluster:
		s.mu.Lock()
		before := s.clusters[id(o)]
		s.clusters[id(o)] = o
		s.mu.Unlock()
		if before == nil || before.Spec.Paused != o.Spec.Paused || before.DeletionTimestamp.IsZero() != o.DeletionTimestamp.IsZero() {
			s.bump()
		}
	}
}

func (s *store) drop(obj any) {
	switch o := obj.(type) {
	case *kinds.Machine:
		s.mu.Lock()
		delete(s.machines, id(o))
		s.unindex(o)
		s.mu.Unlock()
		if s.seen != nil {
			s.seen(o)
		}
	case *kinds.MachineDeployment:
		s.dropResource(key{kindDeployment, o.Namespace, o.Name})
	case *kinds.MachineSet:
		s.dropResource(key{kindSet, o.Namespace, o.Name})
	case *kinds.Cluster:
		s.mu.Lock()
		delete(s.clusters, id(o))
		s.mu.Unlock()
		s.bump()
	}
}

func (s *store) bump() {
	s.version.Add(1)
	if s.changed != nil {
		s.changed()
	}
}

func (s *store) putResource(k key, o *kinds.Scalable) {
	s.mu.Lock()
	before := s.resources[k]
	s.resources[k] = o
	if before != nil { // a template that has not been read yet says what the one before said, until it has
		was, is := templateOf(before), templateOf(o)
		if _, known := s.templates[is]; !known {
			if status, known := s.templates[was]; known {
				s.templates[is] = status
			}
		}
	}
	s.mu.Unlock()
	if before == nil || face(before) != face(o) {
		s.bump()
	}
}

func (s *store) dropResource(k key) {
	s.mu.Lock()
	delete(s.resources, k)
	s.mu.Unlock()
	s.bump()
}

// face is what of a scalable resource instance types depend on, in one text. Machines come and go without it changing, except that the
// last one that may be had is a matter of types.
func face(o *kinds.Scalable) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v %t %t %s %+v %v|", o.UID, o.Labels, o.DeletionTimestamp.IsZero(), o.Spec.Paused, o.Spec.ClusterName, o.Spec.Template, metav1.GetControllerOf(o) != nil)
	keys := make([]string, 0, len(o.Annotations))
	for k := range o.Annotations {
		if strings.HasPrefix(k, kinds.CapacityPrefix) || slices.Contains([]string{v1alpha1.PriceAnnotationKey, kinds.MinSizeAnnotation, kinds.MaxSizeAnnotation, kinds.PausedAnnotation}, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		b.WriteString(k + "=" + o.Annotations[k] + "|")
	}
	if limits, err := limitsOf(o); err == nil {
		fmt.Fprintf(&b, "%t", limits.room(o) > 0)
	}
	if _, _, err := recordOf(o); err != nil {
		b.WriteString(err.Error())
	}
	return b.String()
}

func (s *store) putMachine(o *kinds.Machine) {
	s.mu.Lock()
	if before := s.machines[id(o)]; before != nil {
		s.unindex(before)
	}
	s.machines[id(o)] = o
	if o.Spec.ProviderID != "" {
		s.providers[o.Spec.ProviderID] = id(o)
	}
	if uid := o.Annotations[v1alpha1.ClaimUIDAnnotationKey]; uid != "" {
		s.claims[uid] = id(o)
	}
	s.mu.Unlock()
	if s.seen != nil {
		s.seen(o)
	}
}

// renew puts a Machine that has just been written, unless the cache has seen its end.
func (s *store) renew(o *kinds.Machine) {
	if s.machine(id(o)) != nil {
		s.putMachine(o)
	}
}

// unindex forgets what a Machine was found by. The caller holds the lock.
func (s *store) unindex(o *kinds.Machine) {
	if s.providers[o.Spec.ProviderID] == id(o) {
		delete(s.providers, o.Spec.ProviderID)
	}
	if uid := o.Annotations[v1alpha1.ClaimUIDAnnotationKey]; s.claims[uid] == id(o) {
		delete(s.claims, uid)
	}
}

func (s *store) machine(id string) *kinds.Machine {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.machines[id]
}

func (s *store) byClaim(uid string) *kinds.Machine {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.machines[s.claims[uid]]
}

func (s *store) byProviderID(providerID string) *kinds.Machine {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.machines[s.providers[providerID]]
}

func (s *store) resource(k key) *kinds.Scalable {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.resources[k]
}

func (s *store) cluster(namespace, name string) *kinds.Cluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.clusters[namespace+"/"+name]
}

// members are the scalable resources that Karpenter may scale, in order: those with the member label that nothing else scales.
func (s *store) members() []key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []key
	for k, o := range s.resources {
		if _, member := o.Labels[v1alpha1.LabelMember]; member && (k.kind != kindSet || metav1.GetControllerOf(o) == nil) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}

// machinesOf are the Machines of a scalable resource, oldest first.
func (s *store) machinesOf(o *kinds.Scalable) []*kinds.Machine {
	selector, err := metav1.LabelSelectorAsSelector(&o.Spec.Selector)
	if err != nil || selector.Empty() {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*kinds.Machine
	for _, m := range s.machines {
		if m.Namespace == o.Namespace && selector.Matches(labels.Set(m.Labels)) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, olderFirst)
	return out
}

func olderFirst(a, b *kinds.Machine) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(id(a), id(b))
}

// setsOf are the MachineSets of a MachineDeployment.
func (s *store) setsOf(o *kinds.Scalable) (out []*kinds.Scalable) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for k, set := range s.resources {
		if owner := metav1.GetControllerOf(set); k.kind == kindSet && k.namespace == o.Namespace && owner != nil && owner.UID == o.UID {
			out = append(out, set)
		}
	}
	return out
}
