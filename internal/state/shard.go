package state

import (
	"maps"
	"slices"
)

// podShards and claimShards are how many parts an index has. A change copies one part, a view the list of parts: with a hundred
// thousand pods and five thousand claims both take a few microseconds.
const (
	podShards   = 2048
	claimShards = 256
)

// shards is an index whose copies are cheap: a part is copied before it is changed, once, if some copy may still read it.
type shards[V any] struct {
	parts []map[string]V
	owned []bool
	last  *frozen[V] // the newest copy, while nothing has changed since
}

func newShards[V any](n int) *shards[V] {
	return &shards[V]{parts: make([]map[string]V, n), owned: make([]bool, n)}
}

func shardOf(key string, n int) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return int(h % uint32(n))
}

// frozen is a shards that nobody changes any more.
type frozen[V any] struct{ parts []map[string]V }

func (f *frozen[V]) get(key string) (V, bool) {
	v, ok := f.parts[shardOf(key, len(f.parts))][key]
	return v, ok
}

func (s *shards[V]) get(key string) (V, bool) {
	v, ok := s.parts[shardOf(key, len(s.parts))][key]
	return v, ok
}

func (s *shards[V]) set(key string, v V) { s.own(shardOf(key, len(s.parts)))[key] = v }

func (s *shards[V]) del(key string) {
	if _, ok := s.get(key); ok {
		delete(s.own(shardOf(key, len(s.parts))), key)
	}
}

// own is a part that may be changed.
func (s *shards[V]) own(i int) map[string]V {
	s.last = nil
	switch {
	case s.owned[i]:
	case s.parts[i] == nil:
		s.parts[i] = map[string]V{}
	default:
		s.parts[i] = maps.Clone(s.parts[i])
	}
	s.owned[i] = true
	return s.parts[i]
}

// freeze returns the index as it is now.
func (s *shards[V]) freeze() *frozen[V] {
	if s.last == nil {
		clear(s.owned)
		s.last = &frozen[V]{slices.Clone(s.parts)}
	}
	return s.last
}
