package sim

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/sim/kube"
	"karpenter/test/workloads"
)

var (
	days  = flag.Int("days", 0, "how many days TestT26 plays")
	swing = flag.Float64("swing", 0, "how far the load goes up and down in a day of TestT26, as a share of its mean")
	spot  = flag.Bool("spot", false, "whether TestT26 has spot instances too, whose prices move every two hours, and may replace one by another")
)

const (
	// dayPods is how many pods there are on average.
	dayPods = 60
	// dayStep is how often the load is changed, and churn the share of pods that their owners replace then.
	dayStep, churn = 10 * time.Minute, 0.005
	// stockOuts is how often a step finds types out of stock, until the next.
	stockOuts = 0.1
	// payback is within what time a node that replaced another is not to be replaced by one as the first was.
	payback = 4 * time.Hour
	// The bars of T26.
	evictionsPerDay, costPerBest = 0.2, 1.03
)

// lineage is what a node has replaced, and when.
type lineage struct {
	kind string
	at   time.Time
}

// TestT26_Days plays days in which pods come and go and types run out of stock, while the load is steady or, with -swing, goes up and down:
// what is moved pays, nothing is moved back and forth, and a day costs what the best one did.
func TestT26_Days(t *testing.T) {
	if *days == 0 {
		t.Skip("part of make simlong: -days 30")
	}
	r := rand.New(rand.NewPCG(*from, 26))
	load := &workloads.Workload{Name: "days"}
	for i := range 8 {
		load.Shapes = append(load.Shapes, workloads.Shape{Name: fmt.Sprint("app-", i), MilliCPU: int(1000 * 0.2 * math.Exp(r.Float64()*math.Log(15))), MiB: int(1024 * 0.4 * math.Exp(r.Float64()*math.Log(20))), Zones: i == 0})
	}
	p, err := newStage(*from, load, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	market := "on-demand"
	if *spot {
		market = "spot prices move"
		p.gates, p.moves = "SpotToSpotConsolidation=true", true
		p.aws.SetSteadySpot(false)
		err := p.EditPool("live", func(pool *karpv1.NodePool) {
			for i := range pool.Spec.Template.Spec.Requirements {
				if r := &pool.Spec.Template.Spec.Requirements[i]; r.Key == karpv1.CapacityTypeLabelKey {
					r.Values = []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand}
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	came, back := map[string][]lineage{}, 0
	hook := p.server.Hook
	p.server.Hook = func(op *kube.Op) error {
		err := hook(op)
		if c, ok := op.Old.(*karpv1.NodeClaim); ok && op.Done && op.Verb == "delete" && strings.HasPrefix(op.User, replicaPrefix) {
			back += p.follow(came, c)
		}
		return err
	}
	at := func(hour float64) (stage workloads.Stage) {
		share := 1 + *swing*math.Sin(2*math.Pi*(hour-9)/24)
		for range load.Shapes {
			stage.Replicas = append(stage.Replicas, int(math.Round(share*dayPods/float64(len(load.Shapes)))))
		}
		return stage
	}
	if err := p.scaleTo(at(0)); err != nil {
		t.Fatal(err)
	}
	if err := p.begin(20); err != nil {
		t.Fatal(err)
	}
	if err := p.Run(time.Hour - p.Elapsed()); err != nil { // the first hour does not count
		t.Fatal(err)
	}
	steps := int(24 * time.Hour / dayStep)
	best, sum, podDays, share := make([]float64, steps), 0.0, 0.0, 0.0
	p.evictions, p.claims, p.removals = 0, 0, 0
	began := time.Now()
	for day := range *days {
		evicted := p.evictions
		for step := range steps {
			stage := at(24 * float64(step) / float64(steps))
			if err := p.scaleTo(stage); err != nil {
				t.Fatal(err)
			}
			if err := p.replacePods(); err != nil {
				t.Fatal(err)
			}
			p.aws.ClearStock()
			if p.draw.Float64() < stockOuts {
				family := "cmr"[p.draw.IntN(3)]
				if err := p.aws.SetStock(simaws.StockRule{Type: string(family) + "*", Zone: "*", CapacityType: "*"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Run(dayStep); err != nil {
				t.Fatalf("day %d: %v", day, err)
			}
			nodes, spots, price, err := p.fleet()
			if err != nil {
				t.Fatal(err)
			}
			share += float64(spots) / float64(nodes) / float64(steps**days)
			if sum += price; best[step] == 0 || price < best[step] {
				best[step] = price
			}
			podDays += float64(stage.Pods()) / float64(steps)
		}
		t.Logf("day %d: %d evictions, %d claims and %d removals so far; %v", day, p.evictions-evicted, p.claims, p.removals, time.Since(began).Round(time.Second))
	}
	least := 0.0
	for _, b := range best {
		least += b * float64(*days)
	}
	perDay := float64(p.evictions) / podDays
	if perDay > evictionsPerDay {
		t.Errorf("%.3f evictions per pod and day; the bar is %.1f", perDay, evictionsPerDay)
	}
	if sum/least > costPerBest {
		t.Errorf("the days cost %.3f times the best seen at each hour; the bar is %.2f", sum/least, costPerBest)
	}
	if *spot && share < 0.5 {
		t.Errorf("%.0f %% of nodes are spot instances: their prices change nothing", 100*share)
	}
	if back > 0 {
		t.Errorf("%d nodes were replaced by one as that which they had replaced, within %v", back, payback)
	}
	t.Logf("| T26 days, %d pods ± %.0f %%, %s | %d | evictions per pod and day %.3f; cost by best seen %.3f; there and back %d; %.0f %% of nodes spot |", dayPods, 100**swing, market, *days, perDay, sum/least, back, 100*share)
}

// follow notes which node replaces which, and counts those that are replaced by what they have replaced.
func (p *stagePlay) follow(came map[string][]lineage, c *karpv1.NodeClaim) (back int) {
	kindOf := func(c *karpv1.NodeClaim) string {
		return c.Labels[corev1.LabelInstanceTypeStable] + " " + c.Labels[corev1.LabelTopologyZone] + " " + c.Labels[karpv1.CapacityTypeLabelKey]
	}
	for _, field := range strings.Fields(c.Annotations[karpv1.MoveAnnotationKey]) {
		names, ok := strings.CutPrefix(field, "to=")
		if !ok || names == "" {
			continue
		}
		for _, name := range strings.Split(names, ",") {
			to, _ := p.server.Look(&karpv1.NodeClaim{}, apitypes.NamespacedName{Name: name}).(*karpv1.NodeClaim)
			if to == nil {
				continue
			}
			came[name] = append(came[name], lineage{kindOf(c), p.loop.now})
			for _, before := range came[c.Name] {
				if before.kind == kindOf(to) && kindOf(c) != kindOf(to) && p.loop.now.Sub(before.at) < payback {
					back++
				}
			}
		}
	}
	delete(came, c.Name)
	return back
}

// replacePods has the owners of some pods replace them.
func (p *stagePlay) replacePods() error {
	var some []*corev1.Pod
	p.server.Each(&corev1.Pod{}, func(o client.Object) {
		if pod := o.(*corev1.Pod); pod.DeletionTimestamp == nil && p.draw.Float64() < churn {
			some = append(some, pod)
		}
	})
	for _, pod := range some {
		if err := p.owner.Delete(context.Background(), pod.DeepCopy()); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
