package disruption

import (
	"context"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control/provision"
	"karpenter/internal/state"
	"karpenter/test/harness/rig"
)

// TestD1_AsTheProgramRunsIt runs everything of the package with real caches and the real clock: a node that becomes empty goes
// within seconds.
func TestD1_AsTheProgramRunsIt(t *testing.T) {
	b := newBench(t)
	b.clock.SetTime(time.Now())
	b.pool("general")
	b.instance("empty", "general", "m5.large")
	m, ctx := rig.Manager(t, cluster), t.Context()
	log := slog.New(slog.DiscardHandler)
	mirror := state.NewMirror(state.MirrorOptions{Now: time.Now, Types: b.types})
	var fed []toolscache.InformerSynced
	for _, kind := range mirror.Kinds() {
		informer, err := m.GetCache().GetInformer(ctx, kind.(client.Object))
		b.must(err)
		registration, err := informer.AddEventHandler(mirror.Handler())
		b.must(err)
		fed = append(fed, registration.HasSynced)
	}
	drift := b.drift(&judgeStub{})
	drift.Client, drift.Clock = m.GetClient(), clock.RealClock{}
	beats := make(chan string, 1000)
	loop := &Loop{
		Client: m.GetClient(), Live: m.GetAPIReader(), Mirror: mirror, Turn: &Turn{}, Clock: clock.RealClock{}, Log: log,
		Creator: &provision.Creator{Client: m.GetClient(), Mirror: mirror, Clock: clock.RealClock{}, Log: log},
		Beat:    func(loop string) { beats <- loop },
	}
	for _, err := range []error{(&Quiet{Client: m.GetClient(), Class: class, Clock: clock.RealClock{}}).Register(m), drift.Register(m), loop.Register(m)} {
		b.must(err)
	}
	rig.Run(t, m)
	if !toolscache.WaitForCacheSync(ctx.Done(), fed...) {
		t.Fatal("the caches did not fill")
	}
	mirror.SetSynced()
	awaitDeletion(t, "empty")
	if got := <-beats; got != name {
		t.Errorf("beat of %q", got)
	}
}

// awaitDeletion watches a claim until it has been deleted.
func awaitDeletion(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	watcher, err := cluster.Client.Watch(ctx, &karpv1.NodeClaimList{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if c, ok := event.Object.(*karpv1.NodeClaim); ok && c.Name == name && !c.DeletionTimestamp.IsZero() {
			return
		}
	}
	t.Fatalf("%s was not deleted", name)
}

// Planners wait for no move, and are told which nodes are part of one that is half done.
func TestD52_PlannersSeeMovesAsAWhole(t *testing.T) {
	mirror := state.NewMirror(state.MirrorOptions{Options: state.Options{ProviderDomains: []string{awsv1.Group}}})
	turn := &Turn{}
	node := &state.Node{Claim: &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "going"}}}
	end := turn.begin([]*state.Node{node})
	mirror.Put(&karpv1.NodePool{})
	if view, half := turn.Look(mirror); len(view.World.Pools) != 1 || !half["going"] {
		t.Errorf("in the middle of a move %d pools are seen, and the claims %v as half moved", len(view.World.Pools), half)
	}
	end()
	if _, half := turn.Look(mirror); len(half) > 0 {
		t.Errorf("after the move %v are half moved", half)
	}
}
