package aws

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
	"karpenter/internal/cloud/simaws"
	"karpenter/test/harness/sdk"
)

// line is the connection to AWS. It can be cut at a chosen call, before it is sent or after it took effect, which is what a
// process that is killed there leaves behind.
type line struct {
	mu    sync.Mutex
	left  int // calls until the cut; negative for never
	after bool
	dead  bool
}

var errCut = errors.New("the process was killed")

func (l *line) Do(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	if l.left == 0 {
		l.dead = true
	}
	l.left--
	dead, after := l.dead, l.after && l.left == -1
	l.mu.Unlock()
	if dead && !after {
		return nil, errCut
	}
	response, err := sdk.Client{}.Do(r)
	if after {
		return nil, errCut
	}
	return response, err
}

func (l *line) cut(calls int, after bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.after, l.dead = calls, after, false
}

// onLine makes the provider's clients use a line and never retry, so that every failure reaches the provider.
func onLine(w *testWorld, l *line) {
	cfg := w.config(controllerKey)
	cfg.HTTPClient = l
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	w.opt.Clients = NewClients(cfg)
	w.reborn()
}

// reborn is a restart of the process, with the downloads that it begins with.
func (w *testWorld) reborn() {
	instances, prices, types := w.catalogue, w.prices, w.types
	w.restart()
	w.catalogue, w.prices, w.types = instances, prices, types
}

// cluster is what a launch loop has on record: the claims of one batch and the instance that each was given.
type cluster struct {
	batch    cloud.Batch
	recorded map[string]string // claim → instance
	gaveUp   map[string]bool
}

func newCluster(b cloud.Batch) *cluster {
	return &cluster{batch: b, recorded: map[string]string{}, gaveUp: map[string]bool{}}
}

// pass launches what has no instance on record, and records at most room results before the process dies.
func (c *cluster) pass(w *testWorld, room int) (done bool) {
	b := cloud.Batch{ID: c.batch.ID, Taken: map[string]bool{}}
	for _, claim := range c.batch.Claims {
		if id := c.recorded[claim.Name]; id != "" {
			b.Taken[id] = true
		} else if !c.gaveUp[claim.Name] {
			b.Claims = append(b.Claims, claim)
		}
	}
	if len(b.Claims) == 0 {
		return true
	}
	for i, r := range w.Launch(w.ctx, b) {
		if room--; room < 0 {
			return false
		}
		switch {
		case r.Err == nil:
			c.recorded[b.Claims[i].Name] = r.Instance.ID
		case cloud.ClassOf(r.Err).Response().GiveUp:
			c.gaveUp[b.Claims[i].Name] = true
		}
	}
	return len(c.recorded)+len(c.gaveUp) == len(c.batch.Claims)
}

// check holds the cloud against the record: as many instances as claims have one, each of a claim of its own.
func (c *cluster) check(w *testWorld) error {
	owner := map[string]string{}
	for claim, id := range c.recorded {
		if other := owner[id]; other != "" {
			return fmt.Errorf("instance %s belongs to %s and %s", id, claim, other)
		}
		owner[id] = claim
	}
	living, err := w.List(w.ctx)
	if err != nil {
		return err
	}
	for _, in := range living {
		if in.Batch == c.batch.ID && owner[in.ID] == "" {
			return fmt.Errorf("instance %s has no claim", in.ID)
		}
	}
	if len(living) < len(owner) {
		return fmt.Errorf("%d instances for %d claims", len(living), len(owner))
	}
	return nil
}

// end deletes the instances, so that the world does not grow.
func (c *cluster) end(w *testWorld) error {
	for _, id := range c.recorded {
		if err := w.Delete(w.ctx, id); err != nil {
			return err
		}
	}
	w.advance(time.Minute)
	return nil
}

// TestT2_CutLine kills the process before and after every call of a launch and while results are being recorded, changes
// prices and stock meanwhile, and expects that every claim ends with one instance of its own and that nothing is left over.
func TestT2_CutLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *simaws.Options, _ *Options) { s.Timing.Consistency = 8 * time.Second })
	w.load()
	w.narrow("m5.large", "c5.large", "m5.xlarge")
	l := &line{left: -1}
	onLine(w, l)
	for seed := range uint64(usually(60, 200)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		// A label of its own makes every seed need a launch template of its own: making it is one of the steps.
		b := w.batch(fmt.Sprint("seed-", seed), 1+rng.IntN(4), onDemandOnly, typeIs("m5.large", "c5.large", "m5.xlarge"))
		for _, claim := range b.Claims {
			claim.Labels["seed"] = fmt.Sprint(seed)
		}
		c := newCluster(b)
		for range 3 {
			l.cut(rng.IntN(3), rng.IntN(2) == 0)
			c.pass(w, rng.IntN(5))
			w.reborn()
			if rng.IntN(2) == 0 {
				w.prices.setSpot(map[string]map[string]float64{"m5.large": {"us-west-2a": rng.Float64()}}, w.clock.Now())
				w.stock.Empty(kit.Pool{CapacityType: "on-demand", Type: "m5.large", Zone: "us-west-2" + string("abc"[rng.IntN(3)])})
			}
			w.advance(time.Duration(rng.IntN(40)) * time.Second)
		}
		l.cut(-1, false)
		for n := 0; !c.pass(w, 100); n++ {
			if n > 30 {
				t.Fatalf("seed %d: the batch did not settle", seed)
			}
			w.advance(5 * time.Second)
		}
		w.advance(20 * time.Second)
		if err := c.check(w); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(c.gaveUp) > 0 {
			t.Fatalf("seed %d: %d claims got nothing although there is stock", seed, len(c.gaveUp))
		}
		w.must(c.end(w))
	}
}

// TestT3_EffectThenTimeout loses one in twenty answers of CreateFleet and TerminateInstances after they took effect.
func TestT3_EffectThenTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.narrow("m5.large", "c5.large")
	onLine(w, &line{left: -1})
	for _, action := range []string{"ec2:CreateFleet", "ec2:TerminateInstances"} {
		w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultDrop, Action: action, Percent: 5}))
	}
	launches := usually(600, 2000)
	n := 0
	var clusters []*cluster
	for batch := 0; n < launches; batch++ {
		c := newCluster(w.batch(fmt.Sprint("b", batch), 1+batch%8, spotOnly, typeIs("m5.large", "c5.large")))
		n += len(c.batch.Claims)
		for tries := 0; !c.pass(w, 100); tries++ {
			if tries > 20 {
				t.Fatalf("batch %d did not settle", batch)
			}
			w.advance(500 * time.Millisecond)
		}
		clusters = append(clusters, c)
	}
	claimed := 0
	for _, c := range clusters {
		claimed += len(c.recorded)
	}
	if living := len(w.living()); living != claimed || claimed != n {
		t.Errorf("%d instances for %d claims of which %d have one", living, n, claimed)
	}
	ended := launches / 10
	for i, in := range w.living() {
		if i == ended {
			break
		}
		for w.Delete(w.ctx, in.ID) != nil {
			w.advance(time.Second)
		}
	}
	w.advance(5 * time.Minute)
	if living := len(w.living()); living != claimed-ended {
		t.Errorf("%d instances are left, want %d", living, claimed-ended)
	}
}

// TestT4_ReplayWithOtherParameters repeats a launch of which the answer was lost, after prices and stock have changed, so that EC2
// refuses the token.
func TestT4_ReplayWithOtherParameters(t *testing.T) {
	w := newWorld(t, func(s *simaws.Options, _ *Options) { s.Timing.Consistency = 20 * time.Second })
	w.load()
	onLine(w, &line{left: -1})
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultDrop, Action: "ec2:CreateFleet", Nth: 1}))
	b := w.batch("b", 3, onDemandOnly, typeIs("m5.large", "c5.large"))
	if got := cloud.ClassOf(w.Launch(w.ctx, b)[0].Err); got != cloud.Unknown {
		t.Fatalf("got %s, want Unknown", got)
	}
	w.stock.Empty(kit.Pool{CapacityType: "on-demand", Type: "m5.large", Zone: "us-west-2a"})
	r := w.Launch(w.ctx, b)
	if cloud.ReasonOf(r[0].Err) != "LaunchedBefore" && r[0].Err != nil {
		t.Fatalf("got %v, want that it was launched before", r[0].Err)
	}
	w.advance(25 * time.Second)
	if n := given(t, w.Launch(w.ctx, b)); n != 3 {
		t.Errorf("%d of 3 instances were adopted", n)
	}
	if n := len(w.living()); n != 3 {
		t.Errorf("%d instances run, want 3", n)
	}
}

// TestT4_TokenUsedForNothing repeats a launch that took effect without getting an instance.
func TestT4_TokenUsedForNothing(t *testing.T) {
	w := newWorld(t)
	w.load()
	onLine(w, &line{left: -1})
	w.must(w.sim.SetStock(simaws.StockRule{Type: "*", Zone: "*", CapacityType: "*", Count: 0}))
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultDrop, Action: "ec2:CreateFleet", Nth: 1}))
	b := w.batch("b", 1, onDemandOnly, typeIs("m5.large", "c5.large"))
	w.Launch(w.ctx, b)
	w.stock.Empty(kit.Pool{CapacityType: "on-demand", Type: "m5.large", Zone: "us-west-2a"})
	for range 20 {
		w.advance(15 * time.Second)
		if r := w.Launch(w.ctx, b)[0]; cloud.ClassOf(r.Err) == cloud.NoCapacity {
			return
		}
	}
	t.Error("the claim must be given up once nothing can show up any more")
}

// TestT4_AnAnswerOfNothingIsNotReplayed launches again after the reason of a refusal is gone: under the first token EC2 would
// repeat the refusal for as long as it remembers.
func TestT4_AnAnswerOfNothingIsNotReplayed(t *testing.T) {
	w := newWorld(t)
	w.load()
	b := w.batch("b", 2, onDemandOnly, typeIs("m5.large"))
	w.must(w.sim.SetStock(simaws.StockRule{Type: "*", Zone: "*", CapacityType: "*", Count: 0, Code: "UnauthorizedOperation", Message: "no"}))
	if r := w.Launch(w.ctx, b)[0]; cloud.ClassOf(r.Err) != cloud.Denied {
		t.Fatalf("got %v, want Denied", r.Err)
	}
	w.sim.ClearStock()
	if n := given(t, w.Launch(w.ctx, b)); n != 2 {
		t.Fatalf("%d of 2 claims got an instance after the refusal was over", n)
	}
	w.reborn()
	for range 3 { // a new process begins with the first token again
		w.Launch(w.ctx, b)
	}
	if n := given(t, w.Launch(w.ctx, b)); n != 2 || len(w.living()) != 2 {
		t.Errorf("%d claims have an instance and %d instances run, want 2", n, len(w.living()))
	}
}

func TestAWS_2_4_ServiceRoleMissingEndsSpot(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.must(w.sim.SetStock(simaws.StockRule{Type: "*", Zone: "*", CapacityType: "spot", Count: 0, Code: "AuthFailure.ServiceLinkedRoleCreationNotPermitted", Message: "no role"}))
	r := w.Launch(w.ctx, w.batch("b", 1, spotOnly, typeIs("m5.large")))[0]
	if cloud.ReasonOf(r.Err) != "SpotSLRCreationFailed" {
		t.Fatalf("got %v", r.Err)
	}
	for _, o := range w.typeNamed("c5.large").Offerings {
		if o.CapacityType == karpv1.CapacityTypeSpot && o.Available {
			t.Error("all spot must be unavailable")
		}
	}
	w.one("c", typeIs("m5.large"), need(corev1.LabelTopologyZone, "us-west-2a"))
}
