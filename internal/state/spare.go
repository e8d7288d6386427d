package state

import (
	"fmt"
	"maps"
	"slices"

	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

var errTooManySpare = fmt.Errorf("has more spare pods than are kept together with those of the buffers before it: all buffers together may have %d", maxSpare)

// maxSpare bounds the spare pods of all buffers together. Buffers beyond it, by name, are left out and named as a problem.
const maxSpare = 50_000

// spareEntry is the spare pods of a buffer.
type spareEntry struct {
	buffer string
	pods   int
}

// setSpare notes for how many spare pods a pod stands; 0 and an empty name for one that stands for none.
func (m *Mirror) setSpare(e *podEntry, is spareEntry, moved bool) {
	was, known := m.spares[e]
	if was == is && !moved || !known && is.pods == 0 {
		return
	}
	m.spareChanged, m.worldChanged = true, true
	if is.pods == 0 {
		delete(m.spares, e)
		m.problem("CapacityBuffer", was.buffer, "", nil)
		return
	}
	m.spares[e] = is
}

// refreshSpare lists the spare pods again if something has changed: by namespace and name of their buffers.
func (m *Mirror) refreshSpare() {
	if !m.spareChanged {
		return
	}
	m.spareChanged = false
	var list []*world.Pod
	for _, e := range slices.SortedFunc(maps.Keys(m.spares), comparePods) {
		is := m.spares[e]
		if len(list)+is.pods > maxSpare {
			m.problem("CapacityBuffer", is.buffer, "", errTooManySpare)
			continue
		}
		m.problem("CapacityBuffer", is.buffer, "", nil)
		list = append(list, toworld.SparePods(is.buffer, e.class, is.pods)...)
	}
	m.spareWorlds = list
}
