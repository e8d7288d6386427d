package trim

// Recent remembers values by key, at least the last size ones that were asked for and at most twice as many.
type Recent[K comparable, V any] struct {
	size  int
	young map[K]V
	old   map[K]V
}

// NewRecent remembers at least size values.
func NewRecent[K comparable, V any](size int) *Recent[K, V] {
	return &Recent[K, V]{size: size, young: map[K]V{}}
}

// Get returns a value, and remembers it for longer.
func (r *Recent[K, V]) Get(key K) (V, bool) {
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	if ok {
		r.Put(key, v)
	}
	return v, ok
}

// Put remembers a value.
func (r *Recent[K, V]) Put(key K, v V) {
	if len(r.young) >= r.size {
		r.old, r.young = r.young, make(map[K]V, r.size)
	}
	r.young[key] = v
}
