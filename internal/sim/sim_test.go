package sim

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	from  = flag.Uint64("from", 0, "the first seed of TestSeeds")
	seeds = flag.Uint64("seeds", 12, "how many seeds TestSeeds plays")
)

// scene is a small cluster: workloads come and go, and the controller may crash once.
func scene(seed uint64, history io.Writer, crashAt int, after bool) (*World, error) {
	w, err := NewWorld(seed, history)
	if err != nil {
		return nil, err
	}
	w.crashAt, w.crashAfter = crashAt, after
	steps := []func() error{func() error { return w.AddPool("default", nil) }}
	for i := range 3 {
		steps = append(steps, func() error {
			return w.AddApp(fmt.Sprint("web", i), 3+w.draw.IntN(10), []string{"250m", "500m", "1", "2"}[w.draw.IntN(4)], "1Gi")
		})
	}
	steps = append(steps, w.StartController, func() error {
		w.Start()
		return w.Run(4 * time.Minute)
	}, func() error {
		for _, a := range w.apps {
			w.Scale(a.name, 1+w.draw.IntN(a.replicas))
		}
		return w.Run(30 * time.Minute)
	}, w.Settled)
	for _, step := range steps {
		if err := step(); err != nil {
			return w, err
		}
	}
	return w, nil
}

func history() io.Writer {
	if os.Getenv("KARPENTER_SIM_HISTORY") != "" {
		return os.Stdout
	}
	return nil
}

// TestT29_SameSeedSameHistory plays seeds twice.
func TestT29_SameSeedSameHistory(t *testing.T) {
	for seed := range uint64(3) {
		first, err := scene(seed, history(), 0, false)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := scene(seed, nil, 0, false)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if first.Hash() != again.Hash() {
			t.Errorf("seed %d: history %s, then %s", seed, first.Hash(), again.Hash())
		}
		t.Logf("seed %d: %d effects, %d steps, history %s", seed, first.effects, first.loop.steps, first.Hash())
	}
}

// TestT2_CrashPoints crashes the controller at effects of a run, before and after they happen.
func TestT2_CrashPoints(t *testing.T) {
	const seed = 1
	whole, err := scene(seed, nil, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	points := 0
	for at := 1; at <= whole.effects; at += 29 {
		for _, after := range []bool{false, true} {
			points++
			if w, err := scene(seed, history(), at, after); err != nil {
				t.Errorf("seed %d, crash at effect %d of %d, after it: %v: %v (history %s)", seed, at, whole.effects, after, err, w.Hash())
			}
		}
	}
	t.Logf("%d crash points", points)
}

// TestSeeds plays seeds in which AWS, watches and the controller itself fail, and then do not.
func TestSeeds(t *testing.T) {
	for seed := *from; seed < *from+*seeds; seed++ {
		w, err := NewWorld(seed, history())
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []func() error{
			func() error {
				return w.AddPool("default", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("48")})
			},
			func() error { return w.AddApp("small", 10, "500m", "1Gi") },
			func() error { return w.AddApp("large", 4, "3", "8Gi") },
			w.StartController,
			func() error { w.Start(); return w.Run(time.Minute) },
			func() error { return w.Chaos(10 * time.Minute) },
			func() error { w.Scale("small", 8); w.Scale("large", 3); return w.Run(40 * time.Minute) },
			w.Settled,
		} {
			if err := step(); err != nil {
				t.Errorf("seed %d: %v (history %s)", seed, err, w.Hash())
				break
			}
		}
		t.Logf("seed %d: %d effects, %d crashes, history %s", seed, w.effects, w.replicas-1, w.Hash())
	}
}
