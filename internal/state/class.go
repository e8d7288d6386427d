package state

import (
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/engine/world"
)

// wasteClasses is how many numbers of classes may lie idle, besides as many as are in use, before classes are numbered anew:
// every decision pays a little for each number.
const wasteClasses = 1024

// classSet numbers classes while pods need them. Numbers of classes that nobody needs any more are given to new ones, so that
// a class keeps its number for as long as some pod is in it.
type classSet struct {
	list  []*world.Class
	refs  []int32
	keys  []string
	index map[string]int32
	free  []int32
	// shared says that a view holds the list: what it sees must not be changed, only added to.
	shared bool
}

func newClassSet() *classSet { return &classSet{index: map[string]int32{}} }

// take finds the class of a key, or makes it, and counts one more pod in it.
func (s *classSet) take(key []byte, fill func(*world.Class)) int32 {
	if id, ok := s.index[string(key)]; ok {
		s.refs[id]++
		return id
	}
	c := &world.Class{}
	fill(c)
	text := string(key)
	if n := len(s.free); n > 0 {
		c.ID = s.free[n-1]
		s.free = s.free[:n-1]
		s.own()
		s.list[c.ID], s.refs[c.ID], s.keys[c.ID] = c, 1, text
	} else {
		c.ID = int32(len(s.list))
		s.list, s.refs, s.keys = append(s.list, c), append(s.refs, 1), append(s.keys, text)
	}
	s.index[text] = c.ID
	return c.ID
}

// release counts one pod less; a class without pods is blanked.
func (s *classSet) release(id int32) {
	s.refs[id]--
	if s.refs[id] > 0 {
		return
	}
	delete(s.index, s.keys[id])
	s.own()
	s.list[id], s.keys[id] = &world.Class{ID: id}, ""
	s.free = append(s.free, id)
}

func (s *classSet) own() {
	if s.shared {
		s.list, s.shared = slices.Clone(s.list), false
	}
}

func (s *classSet) wasteful() bool { return len(s.free) > wasteClasses+len(s.index) }

// share hands the list to a view.
func (s *classSet) share() []*world.Class {
	s.shared = true
	return slices.Clip(s.list)
}

// classOf counts the pod in its class, making the class on first sight. buffer is the buffer that it stands for, if any.
func (m *Mirror) classOf(e *podEntry, o *corev1.Pod, buffer string) int32 {
	key := binary.AppendVarint(m.keyBuf[:0], int64(e.draft.ID))
	if buffer != "" { // a class of its own
		key = append(append(append(key, 0), buffer...), 0)
	}
	for _, k := range m.read {
		if v, ok := o.Labels[k]; ok {
			key = append(append(append(key, k...), 0), v...)
			key = append(key, 0)
		}
	}
	vol := m.podVolumes(e, o.Spec.NodeName != "")
	if vol != nil {
		key = append(key, vol.key...)
	}
	m.keyBuf = key
	return m.classes.take(key, func(c *world.Class) {
		*c = e.draft.Class
		c.Buffer = buffer
		var labels world.Labels
		for _, k := range m.read {
			if v, ok := o.Labels[k]; ok {
				labels = append(labels, world.Label{Key: k, Value: v})
			}
		}
		c.Labels = labels
		if vol != nil {
			vol.apply(c)
		}
	})
}
