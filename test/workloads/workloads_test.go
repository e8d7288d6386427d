package workloads

import (
	"reflect"
	"testing"
)

// A workload must be the same for everybody who names its seed, and another one for another seed.
func TestWorkloadsAreDrawnFromTheSeed(t *testing.T) {
	if !reflect.DeepEqual(Draw(1, 1), Draw(1, 1)) {
		t.Error("the same seed gives two sets of workloads")
	}
	for i, w := range Draw(1, 1) {
		if reflect.DeepEqual(w.Shapes, Draw(2, 1)[i].Shapes) {
			t.Errorf("%s is the same for two seeds", w.Name)
		}
	}
}

func TestWorkloadsHaveTheirSize(t *testing.T) {
	want := map[string][]int{Wide: {1000, 700}, Basic: {1000, 700}, HostSpread: {1000, 700}, Interference: {500, 750, 600}}
	for seed := range uint64(20) {
		for _, w := range Draw(seed, 1) {
			if len(w.Phases) != len(want[w.Name]) || len(Bars[w.Name].Out)+1 != len(w.Phases) {
				t.Fatalf("%s has %d phases", w.Name, len(w.Phases))
			}
			for i, p := range w.Phases {
				// Seventy of a hundred are rounded for each Deployment.
				if n := p.Pods() - want[w.Name][i]; n < -15 || n > 15 || n != 0 && w.Name != Wide {
					t.Errorf("seed %d: %s %s has %d pods; want %d", seed, w.Name, p.Name, p.Pods(), want[w.Name][i])
				}
			}
			for _, s := range w.Shapes {
				if s.MilliCPU < 199 || s.MilliCPU > 4000 || s.MiB < 300 || s.MiB > 64<<10 {
					t.Errorf("seed %d: %s has pods of %dm and %d MiB", seed, s.Name, s.MilliCPU, s.MiB)
				}
			}
		}
	}
}
