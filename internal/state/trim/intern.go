package trim

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
)

// commonSize is how many distinct values of a kind are remembered at least, and half of how many at most: a cluster has fewer
// workloads than that, and one that has more only uses more memory.
const commonSize = 4096

// common holds values that many objects have. It only saves memory: nothing depends on what is in it.
var common = newInterner()

// interner gives equal values one copy. Values that it returns must not be changed.
type interner struct {
	mu       sync.Mutex
	texts    *Recent[string, string]
	specs    *Recent[string, *corev1.PodSpec]
	maps     *Recent[string, map[string]string]
	owning   *Recent[string, []metav1.OwnerReference]
	amounts  *Recent[string, corev1.ResourceList]
	needs    *Recent[string, []v1.NodeSelectorRequirementWithMinValues]
	states   *Recent[string, []corev1.PodCondition]
	buf      []byte
	keys     []string
	resource []corev1.ResourceName
}

func newInterner() *interner {
	return &interner{
		texts: NewRecent[string, string](commonSize), specs: NewRecent[string, *corev1.PodSpec](commonSize), maps: NewRecent[string, map[string]string](commonSize),
		owning: NewRecent[string, []metav1.OwnerReference](commonSize), amounts: NewRecent[string, corev1.ResourceList](commonSize),
		needs: NewRecent[string, []v1.NodeSelectorRequirementWithMinValues](commonSize), states: NewRecent[string, []corev1.PodCondition](commonSize),
	}
}

// text is the one copy of a string that many objects have.
func (n *interner) text(s string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.word(s)
}

// words makes strings their one copy, in place.
func (n *interner) words(list ...*string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range list {
		*s = n.word(*s)
	}
}

// word is text with the lock held.
func (n *interner) word(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := n.texts.Get(s); ok {
		return known
	}
	s = strings.Clone(s)
	n.texts.Put(s, s)
	return s
}

// own is a map of an object's own whose keys and values are shared, but for its name.
func (n *interner) own(m map[string]string, name string) map[string]string {
	if len(m) == 0 {
		return m
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make(map[string]string, len(m))
	for k, v := range m {
		if v == name {
			v = name
		} else {
			v = n.word(v)
		}
		out[n.word(k)] = v
	}
	return out
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
	n.specs.Put(string(n.buf), &c)
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
		n.write(k, m[k])
	}
	if known, ok := recall(n.maps, n.buf); ok {
		return known
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[n.word(k)] = n.word(v)
	}
	n.maps.Put(string(n.buf), out)
	return out
}

// write adds texts to the key that is being made.
func (n *interner) write(texts ...string) {
	for _, s := range texts {
		n.buf = append(append(n.buf, s...), 0)
	}
}

// list is the one copy of amounts of resources.
func (n *interner) list(of corev1.ResourceList) corev1.ResourceList {
	if len(of) == 0 {
		return of
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resource = n.resource[:0]
	for name := range of {
		n.resource = append(n.resource, name)
	}
	slices.Sort(n.resource)
	n.buf = n.buf[:0]
	for _, name := range n.resource {
		q := of[name]
		n.write(string(name), q.String())
	}
	if known, ok := recall(n.amounts, n.buf); ok {
		return known
	}
	out := make(corev1.ResourceList, len(of))
	for name, q := range of {
		out[corev1.ResourceName(n.word(string(name)))] = q
	}
	n.amounts.Put(string(n.buf), out)
	return out
}

// requirements is the one copy of what claims require: those of one plan and pool require the same.
func (n *interner) requirements(list []v1.NodeSelectorRequirementWithMinValues) []v1.NodeSelectorRequirementWithMinValues {
	if len(list) == 0 {
		return list
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.buf = n.buf[:0]
	for i := range list {
		r := &list[i]
		n.write(r.Key, string(r.Operator))
		if r.MinValues != nil {
			n.buf = strconv.AppendInt(n.buf, int64(*r.MinValues), 10)
		}
		n.buf = append(n.buf, 0)
		n.write(r.Values...)
		n.buf = append(n.buf, 1)
	}
	if known, ok := recall(n.needs, n.buf); ok {
		return known
	}
	out := slices.Clone(list)
	for i := range out {
		out[i].Key, out[i].Operator = n.word(out[i].Key), corev1.NodeSelectorOperator(n.word(string(out[i].Operator)))
		out[i].Values = slices.Clone(out[i].Values)
		for k, v := range out[i].Values {
			out[i].Values[k] = n.word(v)
		}
	}
	n.needs.Put(string(n.buf), out)
	return out
}

// conditions is the one copy of what is known of pods: those that were bound and became ready in the same seconds have the same.
func (n *interner) conditions(list []corev1.PodCondition) []corev1.PodCondition {
	if len(list) == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.buf = n.buf[:0]
	for i := range list {
		c := &list[i]
		n.write(string(c.Type), string(c.Status), c.Reason, c.Message)
		n.buf = strconv.AppendInt(n.buf, c.LastTransitionTime.UnixNano(), 36)
		n.buf = append(n.buf, 0)
	}
	if known, ok := recall(n.states, n.buf); ok {
		return known
	}
	out := make([]corev1.PodCondition, len(list))
	for i := range list {
		c := &list[i]
		out[i] = corev1.PodCondition{
			Type: corev1.PodConditionType(n.word(string(c.Type))), Status: corev1.ConditionStatus(n.word(string(c.Status))),
			Reason: n.word(c.Reason), Message: n.word(c.Message), LastTransitionTime: c.LastTransitionTime,
		}
	}
	n.states.Put(string(n.buf), out)
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
		n.write(r.APIVersion, r.Kind, r.Name, string(r.UID))
		n.buf = append(n.buf, flag(r.Controller), flag(r.BlockOwnerDeletion))
	}
	if known, ok := recall(n.owning, n.buf); ok {
		return known
	}
	n.owning.Put(string(n.buf), list)
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
func recall[V any](r *Recent[string, V], key []byte) (V, bool) {
	if v, ok := r.young[string(key)]; ok {
		return v, true
	}
	return r.Get(string(key))
}
