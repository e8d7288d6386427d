package state

import (
	"cmp"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"karpenter/internal/state/toworld"
)

// Object is what a mirror is fed with: every client.Object is one.
type Object interface {
	metav1.Object
	runtime.Object
}

// table holds the newest known version of each object of a kind, by name.
type table[T Object] map[string]T

// put stores an object and says whether that was news.
func (t table[T]) put(key string, obj T) bool {
	if have, ok := t[key]; ok && outdated(have, obj) {
		return false
	}
	t[key] = obj
	return true
}

// drop forgets an object and says whether it was known. The end of an earlier object of the same name changes nothing.
func (t table[T]) drop(key string, obj T) bool {
	have, ok := t[key]
	if !ok || !sameUID(have, obj) {
		return false
	}
	delete(t, key)
	return true
}

// outdated says whether got is no news: an event that came late or twice. Versions are compared only where both are numbers, as
// those of Kubernetes are; an object made anew under an old name has another UID and a higher version.
func outdated(have, got metav1.Object) bool {
	h, hok := version(have)
	g, gok := version(got)
	switch {
	case !sameUID(have, got):
		return hok && gok && g < h
	case hok && gok:
		return g <= h
	}
	return have.GetResourceVersion() != "" && have.GetResourceVersion() == got.GetResourceVersion()
}

// sameVersion says whether two objects are one at the same moment.
func sameVersion(a, b metav1.Object) bool {
	return a.GetResourceVersion() != "" && a.GetResourceVersion() == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}

func version(o metav1.Object) (uint64, bool) {
	v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return v, err == nil
}

func sameUID(a, b metav1.Object) bool {
	x, y := a.GetUID(), b.GetUID()
	return x == y || x == "" || y == ""
}

// spaced is the name of an object with its namespace, which text may leave out.
func spaced(o metav1.Object) string {
	return toworld.FullName(cmp.Or(o.GetNamespace(), "default"), o.GetName())
}

// edit changes a sorted list at one place: it takes out the element there, puts one in, or both.
type edit[T any] struct {
	at   int
	out  bool
	in   bool
	item T
}

// splice is a new list with the edits applied, which are in order of place.
func splice[T any](old []T, edits []edit[T]) []T {
	list := make([]T, 0, len(old)+len(edits))
	from := 0
	for _, e := range edits {
		list = append(list, old[from:e.at]...)
		from = e.at
		if e.out {
			from++
		}
		if e.in {
			list = append(list, e.item)
		}
	}
	return append(list, old[from:]...)
}
