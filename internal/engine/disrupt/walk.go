package disrupt

import (
	"slices"

	"karpenter/internal/engine/why"
)

// small is up to how many nodes a part is looked at anew after every move in it. In larger ones, nodes that a move fills are shut
// instead, until half of them are.
const small = 256

// walk asks about nodes one after the other, in a part of the cluster, and takes moves in between.
type walk struct {
	d           *decider
	nodes, room []int32
	s           *sub
	used, open  int
}

// walk is about nodes whose pods may go to the nodes in room.
func (d *decider) walk(nodes, room []int32) *walk {
	w := &walk{d: d, nodes: nodes, room: room}
	w.look()
	return w
}

// look takes in the part as it is now.
func (w *walk) look() {
	there := func(list []int32) []int32 {
		return slices.DeleteFunc(slices.Clone(list), func(i int32) bool { return w.d.nodes[i] == nil })
	}
	w.nodes, w.room = there(w.nodes), there(w.room)
	at := slices.Concat(w.nodes, w.room)
	slices.Sort(at)
	at = slices.Compact(at)
	w.s = w.d.sub(w.d.nodes, at, subOptions{bound: w.d.bound(w.d.nodes, w.nodes)}).confined(w.room)
	w.used, w.open = 0, len(w.room)
}

// move is what removing a node comes to, or why a pod of it would not fit.
func (w *walk) move(reason Reason, node int32) (*Move, why.Reason) {
	return w.s.move(reason, []int32{node})
}

// took notes that a move has been taken.
func (w *walk) took(m *Move) {
	if len(w.s.at) <= small {
		w.look()
		return
	}
	for _, i := range slices.Concat(m.Remove, m.filled) {
		if k, ok := w.s.place[i]; ok && !w.s.shut[k] {
			w.s.shut[k] = true
			w.used++
		}
	}
	if 2*w.used > w.open {
		w.look()
	}
}
