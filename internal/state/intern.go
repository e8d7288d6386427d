package state

import (
	"slices"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// commonSize is how many distinct values of a kind are remembered at least, and half of how many at most: a cluster has fewer
// workloads than that, and one that has more only uses more memory.
const commonSize = 4096

// common holds values that many pods have. It only saves memory: nothing depends on what is in it.
var common = newInterner()

// interner gives equal values one copy. Values that it returns must not be changed.
type interner struct {
	mu     sync.Mutex
	specs  *recent[string, *corev1.PodSpec]
	maps   *recent[string, map[string]string]
	owning *recent[string, []metav1.OwnerReference]
	buf    []byte
	keys   []string
}

func newInterner() *interner {
	return &interner{
		specs: newRecent[string, *corev1.PodSpec](commonSize), maps: newRecent[string, map[string]string](commonSize),
		owning: newRecent[string, []metav1.OwnerReference](commonSize),
	}
}

// text is the one copy of a string that many objects have.
func (n *interner) text(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

// spec is the one copy of a spec.
func (n *interner) spec(s *corev1.PodSpec) corev1.PodSpec {
	n.mu.Lock()
	defer n.mu.Unlock()
	size := s.Size()
	n.buf = slices.Grow(n.buf[:0], size)[:size]
	if _, err := s.MarshalToSizedBuffer(n.buf); err != nil {
		return *s
	}
	if known, ok := recall(n.specs, n.buf); ok {
		return *known
	}
	c := *s
	n.specs.put(string(n.buf), &c)
	return c
}

func (n *interner) labels(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keys = n.keys[:0]
	for k := range m {
		n.keys = append(n.keys, k)
	}
	slices.Sort(n.keys)
	n.buf = n.buf[:0]
	for _, k := range n.keys {
		n.buf = append(append(append(append(n.buf, k...), 0), m[k]...), 0)
	}
	if known, ok := recall(n.maps, n.buf); ok {
		return known
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[n.text(k)] = n.text(v)
	}
	n.maps.put(string(n.buf), out)
	return out
}

func (n *interner) owners(list []metav1.OwnerReference) []metav1.OwnerReference {
	if len(list) == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.buf = n.buf[:0]
	for i := range list {
		r := &list[i]
		n.buf = append(n.buf, r.APIVersion+"\x00"+r.Kind+"\x00"+r.Name+"\x00"+string(r.UID)+"\x00"...)
		n.buf = append(n.buf, flag(r.Controller), flag(r.BlockOwnerDeletion))
	}
	if known, ok := recall(n.owning, n.buf); ok {
		return known
	}
	n.owning.put(string(n.buf), list)
	return list
}

func flag(b *bool) byte {
	switch {
	case b == nil:
		return 0
	case *b:
		return 2
	}
	return 1
}

// recall is recent.get without making a string of the key first.
func recall[V any](r *recent[string, V], key []byte) (V, bool) {
	if v, ok := r.young[string(key)]; ok {
		return v, true
	}
	return r.get(string(key))
}
