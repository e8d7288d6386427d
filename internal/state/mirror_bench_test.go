package state

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/trim"
)

// feed tells a mirror of a fleet, pod by pod as an informer would: trimmed, and without anything else in memory.
func (f *fleet) feed(m *Mirror, nodes, perNode, pending int) {
	for _, n := range f.nodes {
		trim.Object(n)
		m.Put(n)
	}
	for _, c := range f.claims {
		trim.Object(c)
		m.Put(c)
	}
	for _, d := range f.daemons {
		m.Put(d)
	}
	for _, b := range f.budgets {
		m.Put(b)
	}
	m.Put(f.pool)
	for i := range nodes*perNode + pending {
		node := ""
		if i < nodes*perNode {
			node = f.nodes[i%nodes].Name
		}
		p := f.newPod(i, node)
		trim.Object(p)
		m.Put(p)
		f.pods = append(f.pods, p)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func benchOptions() MirrorOptions {
	return MirrorOptions{Types: sampleTypes, Now: func() time.Time { return epoch }}
}

// BenchmarkMirrorMemory is what the trimmed objects of a cache and the mirror over them take, for a thousand nodes and twenty
// thousand pods.
func BenchmarkMirrorMemory(b *testing.B) {
	for range b.N {
		empty := heap()
		m, f := NewMirror(benchOptions()), newFleet(1000, 0, 0)
		f.feed(m, 1000, 0, 0)
		m.View()
		nodes := heap()
		m2, f2 := NewMirror(benchOptions()), newFleet(1000, 0, 0)
		f2.feed(m2, 1000, 20, 0)
		objects := heap()
		m2.View()
		all := heap()
		b.ReportMetric(float64(nodes-empty)/1000, "B/node")
		b.ReportMetric(float64(all-nodes-(nodes-empty))/20000, "B/pod")
		b.ReportMetric(float64(all-objects)/20000, "B/pod-of-view")
		b.ReportMetric(float64(all-nodes)/(1<<20), "MiB")
		runtime.KeepAlive(m)
		runtime.KeepAlive(f)
		runtime.KeepAlive(m2)
		runtime.KeepAlive(f2)
	}
}

// bigMirror has five thousand nodes and a hundred thousand pods.
func bigMirror(b *testing.B) (*Mirror, *fleet) {
	b.Helper()
	m, f := NewMirror(benchOptions()), newFleet(5000, 0, 0)
	start := time.Now()
	f.feed(m, 5000, 20, 10)
	fed := time.Now()
	if v := m.View(); len(v.Nodes) != 5000 || len(v.World.Pending) != 10 {
		b.Fatalf("%d nodes, %d pending", len(v.Nodes), len(v.World.Pending))
	}
	b.Logf("made, trimmed and put in %v, first view in %v, %d classes", fed.Sub(start), time.Since(fed), len(m.view.World.Classes))
	return m, f
}

func BenchmarkView(b *testing.B) {
	m, f := bigMirror(b)
	version := 1 << 30
	again := func(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
		c := *p
		version++
		c.ResourceVersion = fmt.Sprint(version)
		change(&c)
		return &c
	}
	var views *View
	b.Run("nothing changed", func(b *testing.B) {
		median(b, func(int) { views = m.View() })
	})
	b.Run("one pod is bound or freed", func(b *testing.B) {
		p := f.pods[len(f.pods)-1]
		b.ReportAllocs()
		median(b, func(i int) {
			p = again(p, func(p *corev1.Pod) {
				p.Spec.NodeName = ""
				if i%2 == 0 {
					p.Spec.NodeName = f.nodes[i%5000].Name
				}
			})
			m.Put(p)
			views = m.View()
		})
	})
	b.Run("a plan is prepared from a view", func(b *testing.B) {
		median(b, func(int) { pack.Prepare(m.View().World, pack.Options{}) })
	})
	b.Run("one pod has a new status", func(b *testing.B) {
		p := f.pods[0]
		median(b, func(int) {
			p = again(p, func(*corev1.Pod) {})
			m.Put(p)
			views = m.View()
		})
	})
	b.Run("a thousand pods have a new status", func(b *testing.B) {
		median(b, func(int) {
			for k := range 1000 {
				f.pods[k] = again(f.pods[k], func(*corev1.Pod) {})
				m.Put(f.pods[k])
			}
			views = m.View()
		})
	})
	b.Run("a node has a heartbeat", func(b *testing.B) {
		median(b, func(i int) {
			n := *f.nodes[i%5000]
			version++
			n.ResourceVersion = fmt.Sprint(version)
			m.Put(&n)
			views = m.View()
		})
	})
	runtime.KeepAlive(views)
}

// BenchmarkRenumber is what happens when numbering has become waste, or a label is read for the first time.
func BenchmarkRenumber(b *testing.B) {
	m, _ := bigMirror(b)
	version := 0
	b.Run("a selector reads another label", func(b *testing.B) {
		median(b, func(int) {
			m.learn([]string{fmt.Sprintf("label-%d", version)})
			version++
			m.View()
		})
	})
	for _, names := range []bool{false, true} {
		b.Run(fmt.Sprintf("everything is numbered anew, names %t", names), func(b *testing.B) {
			median(b, func(int) {
				m.renumber(names)
				m.View()
			})
		})
	}
}

// median reports what most rounds take; the mean also counts what else the computer was doing.
func median(b *testing.B, round func(i int)) {
	took := make([]time.Duration, b.N)
	for i := range took {
		start := time.Now()
		round(i)
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "median-ns")
}

// BenchmarkTypes is a view after the provider has new prices or stock.
func BenchmarkTypes(b *testing.B) {
	m, _ := bigMirror(b)
	version, price := uint64(1), 1.0
	m.opt.Types = func(string) ([]string, []*world.InstanceType, uint64, error) {
		r, list, _, _ := sampleTypes("")
		list[0].Offerings[0].Price = price
		return r, list, version, nil
	}
	b.Run("stock", func(b *testing.B) {
		for range b.N {
			version++
			m.View()
		}
	})
	b.Run("prices", func(b *testing.B) {
		for range b.N {
			version++
			price++
			m.View()
		}
	})
}
