package disruption

import (
	"context"
	"log/slog"
	"testing"
	"time"

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
	b.machine("empty", "general", "m5.large")
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
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
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

func TestD52_PlannersSeeMovesAsAWhole(t *testing.T) {
	mirror := state.NewMirror(state.MirrorOptions{Options: state.Options{ProviderDomains: []string{awsv1.Group}}})
	turn := &Turn{}
	planner := turn.Mirror(mirror)
	end := turn.begin()
	seen := make(chan *state.View)
	go func() { seen <- planner.View() }()
	select {
	case <-seen:
		t.Fatal("a planner looked into the middle of a move")
	default:
	}
	mirror.Put(&karpv1.NodePool{})
	end()
	if v := <-seen; len(v.World.Pools) != 1 {
		t.Error("the planner saw what was before the end of the move")
	}
}
