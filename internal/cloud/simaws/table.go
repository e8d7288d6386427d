package simaws

import (
	"slices"
	"strings"
)

// table keeps objects by id and in the order they were made, which is the
// order every listing uses.
type table[T any] struct {
	ByID  map[string]*T
	Order []string
}

func newTable[T any]() *table[T] { return &table[T]{ByID: map[string]*T{}} }

func (t *table[T]) get(id string) *T { return t.ByID[id] }

func (t *table[T]) put(id string, v *T) {
	if _, ok := t.ByID[id]; !ok {
		t.Order = append(t.Order, id)
	}
	t.ByID[id] = v
}

// delete searches the order from its start, where what is old is.
func (t *table[T]) delete(id string) {
	if _, ok := t.ByID[id]; !ok {
		return
	}
	delete(t.ByID, id)
	if i := slices.Index(t.Order, id); i == 0 {
		t.Order = t.Order[1:]
	} else {
		t.Order = slices.Delete(t.Order, i, i+1)
	}
}

func (t *table[T]) len() int { return len(t.ByID) }

// each yields the objects in order. The body may not delete.
func (t *table[T]) each(yield func(*T) bool) {
	for _, id := range t.Order {
		if !yield(t.ByID[id]) {
			return
		}
	}
}

// Tag is a key and its value.
type Tag struct{ Key, Value string }

// tagSet is sorted by key.
type tagSet []Tag

func (t tagSet) find(key string) (int, bool) {
	return slices.BinarySearchFunc(t, key, func(a Tag, k string) int { return strings.Compare(a.Key, k) })
}

func (t tagSet) asMap() map[string]string {
	out := make(map[string]string, len(t))
	for _, tag := range t {
		out[tag.Key] = tag.Value
	}
	return out
}

func (t tagSet) get(key string) (string, bool) {
	if i, ok := t.find(key); ok {
		return t[i].Value, true
	}
	return "", false
}

// with returns a set that also holds the given tags; t itself is not changed,
// because sets are shared between an instance and its volumes.
func (t tagSet) with(more ...Tag) tagSet {
	out := slices.Clone(t)
	for _, m := range more {
		i, ok := out.find(m.Key)
		if ok {
			out[i].Value = m.Value
		} else {
			out = slices.Insert(out, i, m)
		}
	}
	return out
}

func (t tagSet) without(keys ...string) tagSet {
	return slices.DeleteFunc(slices.Clone(t), func(x Tag) bool { return slices.Contains(keys, x.Key) })
}
