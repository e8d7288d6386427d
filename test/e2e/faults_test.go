package e2e

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
)

// TestT1_KilledAtRandom kills the controller fifty times while load swings and nodes are taken away: no instance is left
// over or launched twice, and soon after the last time everything is in order.
func TestT1_KilledAtRandom(t *testing.T) {
	t.Parallel()
	const (
		kills, most, last = 50, 60, 24
		seed              = 7
	)
	w := newWorld(t, karpv1.NewNillableDuration(0), "")
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range kills {
		w.scale(random.IntN(most + 1))
		if i%3 == 2 {
			w.deleteClaim(random)
		}
		w.pause(200*time.Millisecond + time.Duration(random.Int64N(int64(1300*time.Millisecond))))
		for w.KillController() != nil { // it is on its way up
			w.pause(glance)
		}
	}
	w.scale(last)
	w.awaitSettled(last)
	w.checkHistory()
}

// deleteClaim takes away one of the claims, as a user or a budget would.
func (w *world) deleteClaim(random *rand.Rand) {
	w.t.Helper()
	var list karpv1.NodeClaimList
	w.must(w.Client.List(w.t.Context(), &list))
	if len(list.Items) > 0 {
		w.must(client.IgnoreNotFound(w.Client.Delete(w.t.Context(), &list.Items[random.IntN(len(list.Items))])))
	}
}

// TestT13_APIServerAway takes the API server away, makes it stutter, and lets the controller wake up with an old picture of the
// cluster: none of it is a reason to end an instance.
func TestT13_APIServerAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, karpv1.NeverDuration(), "")
	w.scale(20)
	w.awaitSettled(20)
	for _, fault := range []struct {
		name string
		pods int
		do   func()
	}{
		{"T13 away for a minute", 20, func() { w.freeze("kube-apiserver", time.Minute) }},
		{"T14 answers now and then", 35, func() {
			w.scale(35)
			for range 15 {
				w.freeze("kube-apiserver", time.Second)
				w.pause(500 * time.Millisecond)
			}
		}},
		{"T15 watches are late", 50, func() {
			w.scale(50)
			w.freeze("controller", 15*time.Second)
		}},
	} {
		before := w.alive()
		fault.do()
		w.awaitSettled(fault.pods)
		w.pause(10 * time.Second) // what is wrong with the picture shows when it is acted upon
		after := w.alive()
		for id := range maps.Keys(before) {
			if !after[id] {
				t.Errorf("%s: instance %s has ended", fault.name, id)
			}
		}
		t.Logf("%s: %d instances became %d", fault.name, len(before), len(after))
	}
	w.checkHistory()
}
