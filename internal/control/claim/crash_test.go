package claim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
	"karpenter/test/harness/rig"
	"karpenter/test/harness/simcloud"
)

// mortal is a launcher of a process that can end.
type mortal struct {
	cloud.Launcher
	reaper *rig.Reaper
}

func (m mortal) Launch(ctx context.Context, batch cloud.Batch) []cloud.Result {
	all := func(err error) []cloud.Result {
		return slices.Repeat([]cloud.Result{{Err: err}}, len(batch.Claims))
	}
	if err := m.reaper.Step("launch "+batch.ID, false); err != nil {
		return all(err)
	}
	results := m.Launcher.Launch(ctx, batch)
	if err := m.reaper.Step("launch "+batch.ID, true); err != nil {
		return all(err)
	}
	return results
}

// TestT2_CrashPoints ends the process before and after every step from the claims' creation to the record of their instances,
// loses answers of EC2 on top, and starts anew, several times over. Every claim ends with one instance of its own, and there
// are no others.
func TestT2_CrashPoints(t *testing.T) {
	b := newBench(t)
	w := simcloud.Start(t, simcloud.Options{Clock: b.clock, NoBoot: true, Sim: func(o *simaws.Options) { o.Timing.Consistency = 5 * time.Second }})
	// A provider that has not seen a batch is one that was restarted, as far as that batch goes.
	providers := []cloud.Launcher{w.Provider}
	for range 2 {
		w.Restart()
		providers = append(providers, w.Provider)
	}
	seeds := 30
	if testing.Short() {
		seeds = 10
	}
	trails := map[string]int{}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 6))
		var names []string
		for i := range 1 + rng.IntN(4) {
			names = append(names, fmt.Sprintf("s%d-%d", seed, i))
			b.claim(names[i], inBatch(fmt.Sprint("seed-", seed)), func(c *karpv1.NodeClaim) {
				if rng.IntN(2) == 0 {
					c.Finalizers = []string{karpv1.TerminationFinalizer}
				}
			})
		}
		for life := range 2 {
			ctx, kill := context.WithCancel(t.Context())
			reap := &rig.Reaper{At: rng.IntN(2 + 2*len(names)), After: rng.IntN(2) == 0, Kill: kill}
			if rng.IntN(3) == 0 {
				b.must(w.Sim.AddFault(simaws.Fault{Kind: simaws.FaultDrop, Action: "ec2:CreateFleet", Count: 1 + rng.IntN(4)}))
			}
			b.client.Step = reap.Write
			b.live(ctx, b.lifecycle(mortal{providers[(seed+life)%3], reap}), names)
			b.client.Step = nil
			w.Sim.ClearFaults()
			kill()
			at, _ := reap.Ended()
			trails[strings.Split(at, " ")[0]]++
			b.clock.Step(time.Duration(rng.IntN(40)) * time.Second)
		}
		b.settle(b.lifecycle(providers[(seed+2)%3]), b.launched(names...), names...)
		b.oneEach(w, fmt.Sprint("seed-", seed), names)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		sweep(t)
	}
	t.Logf("lives ended at %v", trails)
}

// live reconciles the claims until the process is dead or has nothing left to do.
func (b *bench) live(ctx context.Context, r *Lifecycle, names []string) {
	for range 20 {
		next := time.Duration(0)
		for _, name := range names {
			result, err := r.Reconcile(ctx, request(name))
			if ctx.Err() != nil {
				return
			}
			if err != nil && !errors.Is(err, rig.ErrKilled) {
				b.Fatal(err)
			}
			if after := result.RequeueAfter; after > 0 && (next == 0 || after < next) {
				next = after
			}
		}
		if b.launched(names...)() {
			return
		}
		b.clock.Step(next)
	}
}

// oneEach holds the cloud against the record.
func (b *bench) oneEach(w *simcloud.World, batch string, names []string) {
	b.Helper()
	b.clock.Step(10 * time.Second) // until the cloud shows everything
	owner := map[string]string{}
	for _, name := range names {
		id := b.get(name).Status.ProviderID
		if owner[id] != "" {
			b.Errorf("S2: %s and %s have instance %s", owner[id], name, id)
		}
		owner[id] = name
	}
	for _, in := range w.Living() {
		if in.Batch != batch {
			continue
		}
		name := owner[in.ProviderID]
		if name == "" {
			b.Errorf("S1: instance %s has no claim", in.ID)
			continue
		}
		if claim := b.get(name); claim.Labels["node.kubernetes.io/instance-type"] != in.Type || claim.Labels["topology.kubernetes.io/zone"] != in.Zone {
			b.Errorf("L5: %s says %v of a %s in %s", name, claim.Labels, in.Type, in.Zone)
		}
		delete(owner, in.ProviderID)
	}
	for id, name := range owner {
		b.Errorf("S1: %s has instance %s, which does not live", name, id)
	}
}
