package disruption

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness/rig"
)

// replacements is how many nodes the node of TestW48_CrashPoints is replaced by.
const replacements = 2

// TestW48_CrashPoints ends the process before and after every write of a move and starts anew. In the end the node has been
// replaced by two others, at no time were there more, and it was not deleted before both were up.
func TestW48_CrashPoints(t *testing.T) {
	b := newBench(t)
	for _, after := range []bool{false, true} {
		for at := 0; ; at++ {
			reap := &rig.Reaper{At: at, After: after}
			b.crash(reap)
			trail, dead := reap.Ended()
			if t.Failed() {
				t.Fatalf("write %d, after %v: %s", at, after, trail)
			}
			if !dead {
				if at < 5 {
					t.Fatalf("a move has only %d writes", at)
				}
				break
			}
			t.Logf("ended at write %d, after %v: %s", at, after, trail)
		}
	}
}

// crash takes a node through its replacement while the reaper is about.
func (b *bench) crash(reap *rig.Reaper) {
	b.Helper()
	sweep(b)
	b.log.Reset()
	b.restart()
	b.twoForOne()
	ctx, kill := context.WithCancel(b.Context())
	defer kill()
	reap.Kill = kill
	guard := func(w rig.Write, done bool) error {
		if w.String() == "delete big" && !done {
			b.mayGo()
		}
		return nil
	}
	b.client.Step = func(w rig.Write, done bool) error {
		if err := guard(w, done); err != nil {
			return err
		}
		return reap.Write(w, done)
	}
	b.until(ctx)
	b.client.Step = guard
	b.restart()
	b.until(b.Context())
	b.client.Step = nil
	if left, made := len(b.claims()), len(b.made()); left != replacements || made != replacements {
		b.Errorf("%d claims are left, %d of them made by moves", left, made)
	}
}

// twoForOne is a pool with a node called big that has drifted, and that two smaller ones are to replace.
func (b *bench) twoForOne() {
	b.Helper()
	b.pool("general", func(p *karpv1.NodePool) {
		p.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration()
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5.large"},
		})
	})
	b.instance("big", "general", "m5.4xlarge")
	for range replacements {
		b.pod("big", "1500m")
	}
	b.clock.Step(time.Minute)
	b.drifted()
}

// until lets the cluster live until the node has been replaced or the process has ended.
func (b *bench) until(ctx context.Context) {
	b.Helper()
	for range 40 {
		b.sync()
		b.loop.decideAt = time.Time{}
		if _, err := b.loop.Pass(ctx); err != nil && !errors.Is(err, rig.ErrKilled) {
			b.Fatal(err)
		}
		if ctx.Err() != nil {
			return
		}
		if n := len(b.made()); n > replacements {
			b.Errorf("%d replacements", n)
			return
		}
		step := b.client.Step
		b.client.Step = nil // the others go on
		for _, c := range b.made() {
			if c.Status.ProviderID == "" {
				b.launch(c.Name)
			} else if !initialized(c) {
				b.join(c.Name)
			}
		}
		b.drain()
		b.client.Step = step
		if b.claim("big") == nil {
			return
		}
		b.clock.Step(5 * time.Second)
	}
	b.Errorf("nothing came of it: %v", b.claim("big").Annotations)
}

// mayGo checks that everything that replaces the node is up.
func (b *bench) mayGo() {
	b.Helper()
	r, err := parseRecord(b.claim("big").Annotations[karpv1.MoveAnnotationKey])
	if err != nil || len(r.to) != replacements {
		b.Error(fmt.Errorf("S3: deleted without a replacement: %v", err))
	}
	for _, name := range r.to {
		if c := b.claim(name); c == nil || !initialized(c) {
			b.Errorf("S3: deleted before %s was up", name)
		}
	}
}

// TestW48_CrashPointsOfADeletion does the same with nodes that need no replacement.
func TestW48_CrashPointsOfADeletion(t *testing.T) {
	b := newBench(t)
	for _, after := range []bool{false, true} {
		for at := 0; ; at++ {
			sweep(t)
			b.restart()
			b.pool("general", whenEmpty)
			b.instance("empty", "general", "m5.large")
			b.instance("used", "general", "m5.large")
			b.pod("used", "1")
			b.clock.Step(time.Minute)
			b.judge()
			ctx, kill := context.WithCancel(t.Context())
			reap := &rig.Reaper{At: at, After: after, Kill: kill}
			b.client.Step = reap.Write
			b.sync()
			if _, err := b.loop.Pass(ctx); err != nil && !errors.Is(err, rig.ErrKilled) {
				t.Fatal(err)
			}
			b.client.Step = nil
			kill()
			b.restart()
			for range 3 {
				b.clock.Step(rest)
				b.pass()
			}
			trail, dead := reap.Ended()
			if !b.going("empty") || b.asBefore("used") != "" {
				t.Fatalf("write %d, after %v (%s): empty going %v, used %s", at, after, trail, b.going("empty"), b.asBefore("used"))
			}
			if !dead {
				break
			}
		}
	}
}
