package state

import (
	"fmt"
	"slices"
	"time"

	"karpenter/internal/state/trim"
	"pgregory.net/rapid"
)

// RandomMirror is a mirror that has been told a random history, with the clock that it lives by.
func RandomMirror(t *rapid.T) (m *Mirror, now func() time.Time) {
	h := &history{t: t, now: epoch, live: map[string]Object{}, late: map[string][]event{}, seen: map[string]Object{}}
	h.m = NewMirror(MirrorOptions{Options: Options{NodeOverlays: true}, Types: sampleTypes, Now: func() time.Time { return h.now }})
	for range rapid.IntRange(1, 150).Draw(t, "steps") {
		h.step()
	}
	return h.m, func() time.Time { return h.now }
}

// PodUIDs lists the pods that a view knows and the engine may see.
func PodUIDs(v *View) (out []string) {
	for _, part := range v.pods.parts {
		for uid := range part {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}

// Tell writes down everything that a view means.
func Tell(v *View) string { return tell(v) }

// Fleet is a mirror of a thousand nodes and twenty thousand pods, and what writes a share of its pods again.
func Fleet() (m *Mirror, churn func(percent int)) {
	m = NewMirror(benchOptions())
	f := newFleet(1000, 0, 0)
	f.feed(m, 1000, 20, 0)
	version := 1 << 30
	next := 0
	return m, func(percent int) {
		for range len(f.pods) * percent / 100 {
			next = (next + 1) % len(f.pods)
			version++
			p := f.pods[next].DeepCopy()
			p.ResourceVersion = fmt.Sprint(version)
			trim.Object(p)
			f.pods[next] = p
			m.Put(p)
		}
	}
}

// Heap is what is in use.
func Heap() uint64 { return heap() }
