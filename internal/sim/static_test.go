package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// upset has some of what can go wrong do so for a while.
func (w *World) upset(d time.Duration) error {
	for _, fault := range chaosFaults {
		if w.draw.IntN(4) > 0 {
			continue
		}
		words := strings.Fields(fault)
		do, err := verbs[words[0]].read(words[1:])
		if err != nil {
			return err
		}
		if err := do(w); err != nil {
			return err
		}
	}
	w.lag = chaosLag
	err := w.Run(d)
	w.calm()
	return err
}

func replicas(n int64) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Replicas = &n }
}

// disturb does one of the things that change what a static pool has or is to have.
func (w *World) disturb(pool string, limit int) error {
	ctx := context.Background()
	switch w.draw.IntN(5) {
	case 0, 1:
		return w.EditPool(pool, replicas(int64(w.draw.IntN(limit+1))))
	case 2: // everything drifts
		return w.EditPool(pool, func(p *karpv1.NodePool) {
			if p.Spec.Template.Annotations == nil {
				p.Spec.Template.Annotations = map[string]string{}
			}
			p.Spec.Template.Annotations["example.com/version"] = fmt.Sprint(w.draw.IntN(1000))
		})
	case 3: // somebody deletes a claim
		var claims karpv1.NodeClaimList
		if err := w.owner.List(ctx, &claims); err != nil || len(claims.Items) == 0 {
			return err
		}
		return w.owner.Delete(ctx, &claims.Items[w.draw.IntN(len(claims.Items))])
	}
	w.Crash()
	return nil
}

// TestPropertyP103_P104_LimitsAndReplicasHold scales a static pool up and down, has it drift and loses its nodes, while watches are late, AWS
// fails and the controller crashes: there are never more claims than limits.nodes allows, and in the end as many as there are to be.
func TestPropertyP103_P104_LimitsAndReplicasHold(t *testing.T) {
	each(t, int(*seeds+15)/16, func(i int) {
		seed := *from + uint64(i)
		w, err := NewWorld(seed, history())
		if err != nil {
			t.Error(err)
			return
		}
		defer w.Close()
		limit := 3 + w.draw.IntN(6)
		storm := func() error {
			for end := w.loop.now.Add(15 * time.Minute); w.loop.now.Before(end); {
				if err := w.Run(time.Duration(w.draw.Int64N(int64(time.Minute)))); err != nil {
					return err
				}
				if err := w.disturb("base", limit); err != nil {
					return err
				}
			}
			return nil
		}
		for _, step := range []func() error{
			func() error {
				return w.addPool(poolSpec{name: "base", limits: map[string]string{"nodes": fmt.Sprint(limit)}, budget: -1, grace: -1, replicas: new(int64(w.draw.IntN(limit + 1)))})
			},
			func() error { return w.addPool(poolSpec{name: "default", budget: -1, grace: -1}) },
			func() error { return w.addApp(app{name: "web", replicas: 6, cpu: "500m", mem: "1Gi", pdb: -1}) },
			w.StartController,
			func() error { w.Start(); return w.Run(time.Minute) },
			storm,
			func() error { return w.upset(5 * time.Minute) },
			storm,
			func() error {
				if err := w.Scale("web", 4); err != nil {
					return err
				}
				if err := w.EditPool("base", replicas(int64(limit-1))); err != nil {
					return err
				}
				return w.Run(40 * time.Minute)
			},
			w.Settled,
		} {
			if err := step(); err != nil {
				t.Errorf("seed %d, limit %d: %v (history %s)", seed, limit, err, w.Hash())
				break
			}
		}
		t.Logf("seed %d, limit %d: %d effects, %d crashes, history %s", seed, limit, w.effects, w.Crashes(), w.Hash())
	})
}

// TestP103_P108_P109_AStaticPool takes a pool up, loses a node of it, and takes it down.
func TestP103_P108_P109_AStaticPool(t *testing.T) {
	w, err := NewWorld(7, history())
	if err != nil {
		t.Fatal(err)
	}
	settle := func() error {
		if err := w.Run(5 * time.Minute); err != nil {
			return err
		}
		return w.Settled()
	}
	for i, step := range []func() error{
		func() error { return w.addPool(poolSpec{name: "base", budget: -1, grace: -1, replicas: new(int64(5))}) },
		w.StartController,
		func() error { w.Start(); return settle() },
		func() error {
			var claims karpv1.NodeClaimList
			if err := w.owner.List(context.Background(), &claims); err != nil {
				return err
			}
			zones := map[string]int{}
			for i := range claims.Items {
				zones[claims.Items[i].Labels[corev1.LabelTopologyZone]]++
			}
			if len(zones) < 3 {
				return fmt.Errorf("W31: the nodes are in zones %v", zones)
			}
			return w.owner.Delete(context.Background(), &claims.Items[0])
		},
		settle,
		func() error { return w.EditPool("base", replicas(0)) },
		settle,
	} {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}
