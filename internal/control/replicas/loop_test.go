package replicas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control/provision"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/test/harness/rig"
)

func TestA1_P103_APoolIsScaledUp(t *testing.T) {
	b := newBench(t)
	b.pool("base", 2)
	b.pass()
	b.want(2, 0)
	b.scale("base", 7)
	b.pass()
	b.want(7, 0)
	zones := map[string]int{}
	for _, c := range b.claims() {
		if c.Labels[karpv1.NodePoolLabelKey] != "base" || len(c.OwnerReferences) != 1 || c.Annotations[karpv1.NodePoolHashAnnotationKey] == "" || !slices.Contains(c.Finalizers, karpv1.TerminationFinalizer) {
			t.Errorf("claim %+v", c.ObjectMeta)
		}
		for _, r := range c.Spec.Requirements {
			switch r.Key {
			case corev1.LabelTopologyZone:
				zones[strings.Join(r.Values, ",")]++
			case corev1.LabelInstanceTypeStable:
				if r.Values[0] != "m5.large" {
					t.Errorf("W31: the first type is %s", r.Values[0])
				}
			}
		}
	}
	if zones["a"] != 3 || zones["b"] != 2 || zones["c"] != 2 {
		t.Errorf("W31: zones %v", zones)
	}
	if got := rig.Count(t, b.registry, meter.NodeClaimsCreated, "reason", "provisioned", "nodepool", "base"); got != 7 {
		t.Errorf("O1: %v", got)
	}
	if got := b.told(EventScalingUp); len(got) != 2 || got[1] != "Normal StaticScalingUp Launching 5 nodes: 2 of 7 are there" {
		t.Errorf("events %q", got)
	}
	list := b.ledger.List(ledger.Query{Kinds: []ledger.Kind{ledger.Plan}})
	if len(list) != 2 || !strings.Contains(list[0].Summary, "static pool base gets") || list[0].Outcome != ledger.Done {
		t.Errorf("ledger %+v", list)
	}
}

func TestP103_OwnWritesCountBeforeAnyWatchShowsThem(t *testing.T) {
	b := newBench(t)
	b.pool("base", 5)
	for range 3 {
		b.pass()
	}
	b.want(5, 0)
	b.sync()
	b.pass()
	b.want(5, 0)
}

func TestP104_ClaimsOfTheProcessBeforeCount(t *testing.T) {
	b := newBench(t)
	b.pool("base", 5, atMost("5"))
	b.pass()
	b.restart()
	var pool karpv1.NodePool
	b.must(b.client.Get(t.Context(), client.ObjectKey{Name: "base"}, &pool))
	b.mirror.Put(&pool) // and no claim: the watch is behind
	b.pass()
	b.want(5, 0)
}

func TestP105_ClaimsThatAreGoneAlreadyDoNotCostOthers(t *testing.T) {
	b := newBench(t)
	b.pool("base", 4)
	b.pass()
	b.launch()
	b.scale("base", 2)
	b.pass()
	b.want(4, 2)
	before := b.put
	b.restart()
	for _, o := range before { // what the watch of the new process shows first is from before the deletion
		b.mirror.Put(o)
	}
	b.pass()
	b.want(4, 2)
}

// A crash at each write of a scaling up, before and after it, leaves as many claims as there are to be, and never more than the limit.
func TestP104_CrashesNeverMakeTooMany(t *testing.T) {
	for at := range 4 {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(at, after), func(t *testing.T) {
				b := newBench(t)
				b.pool("base", 4, atMost("4"))
				var mu sync.Mutex
				writes, dead := 0, false
				b.client.Step = func(w rig.Write, done bool) error {
					mu.Lock()
					defer mu.Unlock()
					if dead {
						return errors.New("crashed")
					}
					if w.Verb == "create" && done == after {
						if writes++; writes == at+1 {
							dead = true
							return errors.New("crashed")
						}
					}
					return nil
				}
				go func() { // the creator waits between attempts
					for range 200 {
						b.clock.Step(time.Second)
						time.Sleep(5 * time.Millisecond)
					}
				}()
				b.pass()
				b.client.Step = nil
				if all, _ := b.count(); all > 4 {
					t.Fatalf("%d claims", all)
				}
				b.restart()
				b.sync()
				b.pass()
				b.want(4, 0)
			})
		}
	}
}

// Whoever creates claims at the same time, limits.nodes holds: the creator is one for all.
func TestP104_ConcurrentCreationStaysWithinTheLimit(t *testing.T) {
	b := newBench(t)
	b.pool("base", 20, atMost("20"))
	view := b.mirror.View()
	pool := view.World.Pools[slices.IndexFunc(view.World.Pools, func(p *world.Pool) bool { return p.Name == "base" })]
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			fixed := pack.NewFixed(view.World, pool, pack.Options{})
			var add []*pack.NewNode
			for range 7 {
				n, _, _ := fixed.Next()
				add = append(add, n)
			}
			b.loop.Creator.Create(t.Context(), b.loop.Creator.Drafts(view, add, provision.ReasonProvisioned))
		})
	}
	wg.Wait()
	b.want(20, 0)
}

func TestP105_D18_APoolIsScaledDown(t *testing.T) {
	b := newBench(t)
	b.pool("base", 5, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}} })
	b.pass()
	b.launch()
	b.scale("base", 8)
	b.pass() // three that are not launched
	b.sync()
	b.scale("base", 4)
	b.pass()
	b.want(8, 4)
	b.pass() // no watch has shown that yet
	b.want(8, 4)
	unlaunched := 0
	for _, c := range b.claims() {
		if c.Status.ProviderID == "" && c.DeletionTimestamp != nil {
			unlaunched++
		}
	}
	if unlaunched != 3 {
		t.Errorf("%d of the claims that are deleted had no instance", unlaunched)
	}
	if got := rig.Count(t, b.registry, meter.NodeClaimsDisrupted, "reason", ReasonScaledDown, "nodepool", "base", "consolidation_policy", ""); got != 4 {
		t.Errorf("O3: %v", got)
	}
	if got := b.told(EventScalingDown); len(got) != 1 || got[0] != "Normal StaticScalingDown Removing 4 nodes: 8 are there and replicas is 4" {
		t.Errorf("events %q", got)
	}
	if list := b.ledger.List(ledger.Query{Kinds: []ledger.Kind{ledger.Removal}}); len(list) != 1 || len(list[0].Remove) != 4 || len(list[0].Why) != 4 {
		t.Errorf("ledger %+v", list)
	}
}

func TestP108_ADeletedNodeIsReplacedAtOnce(t *testing.T) {
	b := newBench(t)
	b.pool("base", 3)
	b.pass()
	b.launch()
	b.must(b.client.Delete(t.Context(), b.claims()[0]))
	b.sync()
	b.pass()
	b.want(4, 1)
	b.pass()
	b.want(4, 1)
}

func TestP108_P104_AtItsLimitAPoolWaits(t *testing.T) {
	b := newBench(t)
	b.pool("base", 3, atMost("3"))
	b.pass()
	b.launch()
	gone := b.claims()[0]
	b.must(b.client.Delete(t.Context(), gone))
	b.sync()
	if again := b.pass(); again != retry {
		t.Errorf("P103: looks again in %v", again)
	}
	b.want(3, 1)
	if got := b.told(EventShort); len(got) != 1 || got[0] != "Warning StaticCapacityMissing 1 of 3 nodes is missing: pool base has 3 nodes, and limits.nodes is 3; 1 of them is being deleted" {
		t.Errorf("events %q", got)
	}
	open := b.ledger.List(ledger.Query{Kinds: []ledger.Kind{ledger.Refusal}})
	if len(open) != 1 || open[0].Outcome != ledger.Open {
		t.Errorf("ledger %+v", open)
	}
	b.end(gone)
	b.pass()
	b.want(3, 0)
	b.sync()
	b.pass()
	if open = b.ledger.List(ledger.Query{Kinds: []ledger.Kind{ledger.Refusal}}); open[0].Outcome != ledger.Done {
		t.Errorf("ledger %+v", open[0])
	}
}

func TestP109_ReplicasZeroRemovesAll(t *testing.T) {
	b := newBench(t)
	b.pool("base", 3)
	b.pass()
	b.launch()
	b.scale("base", 0)
	b.pass()
	b.want(3, 3)
}

func TestP103_ClaimsThatCannotBeLaunchedAreNotMadeInAHurry(t *testing.T) {
	b := newBench(t)
	b.pool("base", 2)
	made := 0
	for range 60 { // a minute in which every claim is given up at once
		b.sync()
		before := len(b.claims())
		b.pass()
		made += len(b.claims()) - before
		b.sync()
		b.end(b.claims()...)
		b.clock.Step(time.Second)
	}
	if made > 16 {
		t.Errorf("%d claims were made within a minute", made)
	}
	b.clock.Step(lastWait)
	b.sync()
	b.pass()
	b.want(2, 0)
	b.launch()
	b.pass()
	if len(b.loop.launches.failures) > 0 {
		t.Error("failures count although claims are launched")
	}
}

// Paused pools get no nodes; they give nodes up all the same.
type paused struct{ until time.Time }

func (p paused) Paused(string) (time.Time, string) { return p.until, "its nodes never join" }

func TestP103_APoolThatIsHeldBackGetsNoNodes(t *testing.T) {
	b := newBench(t)
	b.pool("base", 3)
	b.pass()
	b.launch()
	b.loop.Gate = paused{b.clock.Now().Add(time.Hour)}
	b.scale("base", 5)
	b.pass()
	b.want(3, 0)
	if got := b.told(EventShort); len(got) != 1 || !strings.Contains(got[0], "its nodes never join") {
		t.Errorf("events %q", got)
	}
	b.scale("base", 1)
	b.pass()
	b.want(3, 2)
}

// What was decided comes out the same from its recording, to the byte: nodes that are made, those that are given up, claims that only the API
// server knows to be going, and pools that are held back.
func TestP103_P105_DecisionsAreReplayed(t *testing.T) {
	b := newBench(t)
	b.pool("base", 3)
	b.pool("other", 2, atMost("1"))
	b.pass()
	b.launch()
	b.scale("base", 6)
	b.must(b.client.Delete(t.Context(), b.claims()[0])) // and the mirror is not shown that
	b.pass()
	b.launch()
	b.loop.Gate = paused{b.clock.Now().Add(time.Hour)}
	b.scale("base", 2)
	b.pass()
	replayed := map[ledger.Kind]int{}
	for _, e := range b.ledger.List(ledger.Query{Kinds: []ledger.Kind{ledger.Plan, ledger.Removal}}) {
		if e.Input == "" || !e.Recorded {
			t.Errorf("entry %q has no recording", e.Summary)
			continue
		}
		made, err := b.ledger.Recording(e.Input)
		b.must(err)
		var file bytes.Buffer
		b.must(made.Write(&file))
		r, err := ledger.Read(file.Bytes())
		b.must(err)
		view, _, err := r.View()
		b.must(err)
		want, err := json.Marshal(made.Answer)
		b.must(err)
		got, err := json.Marshal(r.Replay(view, 2))
		b.must(err)
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s (-recorded +replayed):\n%s", e.Summary, d)
		}
		if len(r.Answer.Static) != 2 {
			t.Errorf("%s: the answer is about %d pools", e.Summary, len(r.Answer.Static))
		}
		replayed[e.Kind]++
	}
	if replayed[ledger.Plan] < 3 || replayed[ledger.Removal] != 1 {
		t.Errorf("replayed %v", replayed)
	}
}
