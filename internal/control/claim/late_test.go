package claim

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/test/harness/rig"
	"karpenter/test/harness/simcloud"
)

// late is a cache of claims whose watch has come to a halt: it shows them as they were when it was told of them.
type late struct {
	*rig.Direct
	shown map[string]*karpv1.NodeClaim
}

// tell lets the watch through for some claims.
func (l *late) tell(b *bench, names ...string) {
	for _, name := range names {
		l.shown[name] = b.get(name)
	}
}

func (l *late) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok {
		return l.Direct.Get(ctx, key, obj, opts...)
	}
	shown := l.shown[key.Name]
	if shown == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodeclaims"}, key.Name)
	}
	shown.DeepCopyInto(claim)
	return nil
}

func (l *late) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := l.Direct.List(ctx, list, opts...); err != nil {
		return err
	}
	if claims, ok := list.(*karpv1.NodeClaimList); ok {
		var shown []karpv1.NodeClaim
		for _, claim := range claims.Items {
			if was := l.shown[claim.Name]; was != nil {
				shown = append(shown, *was.DeepCopy())
			}
		}
		claims.Items = shown
	}
	return nil
}

// finalized makes a claim one that a process has begun with.
func finalized(c *karpv1.NodeClaim) { c.Finalizers = []string{karpv1.TerminationFinalizer} }

// TestR1_NoInstanceForTwoClaims_WhenTheWatchIsLate: an API server that is overloaded shows claims without the instances that they were
// given minutes ago, to the process that gave them and to one that takes over. A claim that comes late to their batch is looked for
// among the batch's instances, and must not be given one of theirs: it would end it when it does not join.
func TestR1_NoInstanceForTwoClaims_WhenTheWatchIsLate(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration
		again bool
	}{{"same process", 90 * time.Second, false}, {"same process, much later", 10 * time.Minute, false}, {"another process", 90 * time.Second, true}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			w := simcloud.Start(t, simcloud.Options{Clock: b.clock, NoBoot: true})
			cache := &late{b.client, map[string]*karpv1.NodeClaim{}}
			process := func() *Lifecycle {
				r := b.lifecycle(w.Provider)
				r.Client, r.Live = control.NewFresh(cache, b.client, b.clock.Now), b.client
				return r
			}
			b.claim("y", inBatch("x"), finalized)
			b.claim("z", inBatch("x"), finalized)
			cache.tell(b, "y", "z")
			r := process()
			b.settle(r, b.launched("y", "z"), "y", "z")
			b.run(r, "y") // has it on record, as far as it knows
			b.run(r, "z")
			b.clock.Step(c.after)
			if c.again {
				r = process()
			}
			b.claim("a", inBatch("x"), finalized)
			cache.tell(b, "a")
			b.settle(r, func() bool { return b.going("a") || b.launched("a")() }, "a")
			seen := map[string]string{}
			for _, name := range []string{"y", "z", "a"} {
				claim := b.get(name)
				if claim == nil || claim.Status.ProviderID == "" {
					continue
				}
				if other := seen[claim.Status.ProviderID]; other != "" {
					t.Errorf("%s and %s have the instance %s", other, name, claim.Status.ProviderID)
				}
				seen[claim.Status.ProviderID] = name
			}
			if len(seen) < 2 {
				t.Errorf("only %v have instances", seen)
			}
		})
	}
}
