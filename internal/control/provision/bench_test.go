package provision

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// frozen is a mirror that never changes, so that every pass has the same to do.
type frozen struct{ view *state.View }

func (f frozen) View() *state.View           { return f.view }
func (f frozen) Synced() bool                { return true }
func (f frozen) Assume(...*karpv1.NodeClaim) {}
func (f frozen) Refute(string)               {}
func (f frozen) Wrote(state.Object)          {}

// busy is a cluster of 500 full nodes with 5,000 pods, and some pods that find no place.
func busy(waiting int) *fixture {
	s := newFixture(typesOf([]string{"us-east-1a", "us-east-1b", "us-east-1c"}, 2, 4, 8, 16, 32, 48, 64, 96), newPool("general", limits(map[corev1.ResourceName]string{"cpu": "100000"})))
	size := corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
	for i := range 500 {
		name := fmt.Sprintf("n%03d", i)
		s.Put(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, world.LabelPool: "general", world.LabelZone: "us-east-1a", world.LabelInstanceType: "m5.8x", world.LabelCapacityType: "spot",
				karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
			}},
			Status: corev1.NodeStatus{Allocatable: size, Capacity: size},
		})
		for k := range 10 {
			s.put(newPod(fmt.Sprintf("b%03d-%d", i, k), fmt.Sprintf("%dm", 780+k), func(p *corev1.Pod) {
				p.Spec.NodeName, p.Status = name, corev1.PodStatus{Phase: corev1.PodRunning}
			}))
		}
	}
	for i := range waiting {
		s.put(newPod(fmt.Sprintf("w%04d", i), fmt.Sprintf("%dm", 500+100*(i%7))))
	}
	return s
}

// BenchmarkPass is what lies between the end of the batch window and the claims being sent; the bar is 50 ms.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		waiting int
		kept    bool
	}{{1, false}, {1, true}, {100, false}, {100, true}, {1000, false}, {1000, true}} {
		b.Run(fmt.Sprintf("nodes=500/pods=5000/waiting=%d/kept=%t", c.waiting, c.kept), func(b *testing.B) {
			waiting, kept := c.waiting, c.kept
			view := busy(waiting).View()
			c := &Creator{Client: yesMan(), Mirror: frozen{view}, Clock: clock.RealClock{}, Log: silent}
			p := &Provisioner{Mirror: c.Mirror, Creator: c, Batch: NewBatcher(c.Clock, time.Second, 10*time.Second), Clock: c.Clock, Log: silent}
			if kept {
				p.Ledger = ledger.New(ledger.DefaultSize, "p", c.Clock.Now)
				p.Ledger.KeepRecordings(ledger.DefaultRecordings, "")
			}
			p.prepare()
			for b.Loop() {
				p.last = question{}
				if err := p.Pass(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEventToClaim is the same with the mirror: a pod comes in from the watch, is seen in a view and gets a claim.
func BenchmarkEventToClaim(b *testing.B) {
	s := busy(0)
	c := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
	p := &Provisioner{Mirror: s, Creator: c, Batch: NewBatcher(c.Clock, time.Second, 10*time.Second), Clock: c.Clock, Log: silent}
	p.prepare()
	for i := 0; b.Loop(); i++ {
		pod := newPod(fmt.Sprintf("late-%d", i), "1900m")
		s.Put(pod)
		if err := p.Pass(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		for _, claim := range s.inFlight() {
			s.Drop(claim)
		}
		s.Drop(pod)
		s.View()
		b.StartTimer()
	}
}
