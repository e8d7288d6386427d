package kube

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// garbage knows who owns what, and what the garbage collector has to look at.
type garbage struct {
	live  map[types.UID]item
	owned map[types.UID][]item
	todo  []item
	seen  map[item]bool
}

type item struct {
	k   *kind
	key types.NamespacedName
}

// note keeps up with a change. old or obj is nil where there is none.
func (g *garbage) note(k *kind, old, obj client.Object) {
	if g.live == nil {
		g.live, g.owned, g.seen = map[types.UID]item{}, map[types.UID][]item{}, map[item]bool{}
	}
	if old != nil {
		it := item{k, keyOf(old)}
		for _, ref := range old.GetOwnerReferences() {
			if obj == nil || !slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == ref.UID }) {
				g.owned[ref.UID] = slices.DeleteFunc(g.owned[ref.UID], func(x item) bool { return x == it })
				if owner, ok := g.live[ref.UID]; ok {
					g.look(owner)
				}
			}
		}
		if obj == nil {
			delete(g.live, old.GetUID())
			for _, x := range g.owned[old.GetUID()] {
				g.look(x)
			}
			return
		}
	}
	it := item{k, keyOf(obj)}
	g.live[obj.GetUID()] = it
	for _, ref := range obj.GetOwnerReferences() {
		if !slices.Contains(g.owned[ref.UID], it) {
			g.owned[ref.UID] = append(g.owned[ref.UID], it)
		}
		g.look(it)
	}
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) > 0 {
		g.look(it)
	}
}

func (g *garbage) look(it item) {
	if !g.seen[it] {
		g.seen[it] = true
		g.todo = append(g.todo, it)
	}
}

// CollectOrphans does what the garbage collector does: objects whose owners are gone are deleted, and owners that are deleted with or
// without what they own get done. It says whether it changed anything; there may be more to do then.
func (s *Server) CollectOrphans() bool {
	todo := s.garbage.todo
	s.garbage.todo, s.garbage.seen = nil, map[item]bool{}
	before := s.version
	for _, it := range todo {
		if obj := it.k.objects[it.key]; obj != nil {
			s.collect(it, obj)
		}
	}
	return s.version != before
}

func (s *Server) collect(it item, obj client.Object) {
	if obj.GetDeletionTimestamp() != nil {
		s.release(it, obj)
		return
	}
	var solid, useless []metav1.OwnerReference
	waits := false
	for _, ref := range obj.GetOwnerReferences() {
		switch owner := s.owner(obj, ref); {
		case owner == nil:
			useless = append(useless, ref)
		case owner.GetDeletionTimestamp() != nil && slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents):
			useless, waits = append(useless, ref), true
		default:
			solid = append(solid, ref)
		}
	}
	switch policy := metav1.DeletePropagationBackground; {
	case len(useless) == 0:
	case len(solid) > 0:
		s.act("patch", it, func() (client.Object, error) {
			now := obj.DeepCopyObject().(client.Object)
			now.SetOwnerReferences(solid)
			return s.store(it.k, now, obj), nil
		})
	default:
		switch {
		case slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents):
			policy = metav1.DeletePropagationOrphan
		case slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents), waits && len(s.blocking(obj)) > 0:
			policy = metav1.DeletePropagationForeground
		}
		uid := obj.GetUID()
		s.act("delete", it, func() (client.Object, error) {
			return s.delete(it.k, it.key, metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid}})
		})
	}
}

// release takes the collector's finalizers off an object that is being deleted, once nothing depends on it any more.
func (s *Server) release(it item, obj client.Object) {
	owned := slices.Clone(s.garbage.owned[obj.GetUID()])
	finalizer := metav1.FinalizerDeleteDependents
	switch {
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents):
		finalizer = metav1.FinalizerOrphanDependents
		for _, x := range owned {
			dependent := x.k.objects[x.key]
			s.act("patch", x, func() (client.Object, error) {
				now := dependent.DeepCopyObject().(client.Object)
				now.SetOwnerReferences(slices.DeleteFunc(now.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == obj.GetUID() }))
				return s.store(x.k, now, dependent), nil
			})
		}
	case !slices.Contains(obj.GetFinalizers(), finalizer):
		return
	case len(s.blocking(obj)) > 0:
		for _, x := range owned {
			if dependent := x.k.objects[x.key]; dependent != nil && dependent.GetDeletionTimestamp() == nil {
				s.garbage.look(x)
			}
		}
		return
	}
	s.act("patch", it, func() (client.Object, error) {
		now := obj.DeepCopyObject().(client.Object)
		now.SetFinalizers(slices.DeleteFunc(now.GetFinalizers(), func(f string) bool { return f == finalizer }))
		return s.store(it.k, now, obj), nil
	})
}

// blocking is what an object's deletion in the foreground waits for.
func (s *Server) blocking(obj client.Object) (out []item) {
	for _, x := range s.garbage.owned[obj.GetUID()] {
		dependent := x.k.objects[x.key]
		if dependent != nil && slices.ContainsFunc(dependent.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
			return r.UID == obj.GetUID() && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
		}) {
			out = append(out, x)
		}
	}
	return out
}

// owner is who a reference is to, or nil.
func (s *Server) owner(obj client.Object, ref metav1.OwnerReference) client.Object {
	it, ok := s.garbage.live[ref.UID]
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if !ok || err != nil || it.k.gvk.Group != gv.Group || it.k.gvk.Kind != ref.Kind || it.key.Name != ref.Name || it.k.namespaced && it.key.Namespace != obj.GetNamespace() {
		return nil
	}
	return it.k.objects[it.key]
}

// act is a request of kube-controller-manager's.
func (s *Server) act(verb string, it item, run func() (client.Object, error)) {
	_, _ = s.do(&Op{User: manager, Verb: verb, Kind: it.k.gvk, Key: it.key}, run)
}
