package aws

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"karpenter/cloud/kit"
	"karpenter/internal/cloud/simaws"
)

// crasher ends the process at a step, as far as a test can: the provider's call never returns, and the provider is replaced.
type crasher struct {
	armed bool
	step  Step
	done  bool
	seen  []Step
}

// crashed is what a crash panics with.
type crashed struct{}

func (c *crasher) at(step Step, done bool) {
	if !done {
		c.seen = append(c.seen, step)
	}
	if c.armed && step == c.step && done == c.done {
		c.armed = false
		panic(crashed{})
	}
}

// run makes a launch pass that dies at the step, and says whether it came to that.
func (c *crasher) run(w *testWorld, claims *cluster, step Step, done bool) (died bool) {
	c.armed, c.step, c.done = true, step, done
	defer func() {
		c.armed = false
		switch what := recover().(type) {
		case nil:
		case crashed:
			died = true
			w.reborn()
		default:
			panic(what)
		}
	}()
	claims.pass(w, len(claims.batch.Claims))
	return false
}

// TestR1_NamedCrashPoints kills the process before and after every step of a launch, lets time pass and prices and stock change, kills it
// once more at a random step, and expects that every claim ends with one instance of its own and that nothing is left over.
func TestR1_NamedCrashPoints(t *testing.T) {
	t.Parallel()
	c := &crasher{}
	w := newWorld(t, func(s *simaws.Options, o *Options) { s.Timing.Consistency, o.OnStep = 8*time.Second, c.at })
	w.load()
	w.narrow("m5.large", "c5.large", "m5.xlarge")
	points, runs := 2*len(Steps), 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		for i := range points {
			// Every seed goes to every point in a long run; in a usual one to one of them.
			if int(seed)%usually(points, 1) != i%usually(points, 1) {
				continue
			}
			step, done := Steps[i/2], i%2 == 1
			name := fmt.Sprintf("seed-%d-%d", seed, i)
			if err := crashAt(w, c, rng, name, step, done); err != nil {
				t.Fatalf("seed %d, %s, done %v: %v", seed, step, done, err)
			}
			runs++
		}
	}
	t.Logf("%d launches were killed, each once or twice", runs)
}

// crashAt launches a batch, dying at the step, and returns what is wrong afterwards.
func crashAt(w *testWorld, c *crasher, rng *rand.Rand, name string, step Step, done bool) error {
	b := w.batch(name, 1+rng.IntN(4), onDemandOnly, typeIs("m5.large", "c5.large", "m5.xlarge"))
	for _, claim := range b.Claims {
		claim.Labels["seed"] = name // makes a launch template of its own needed, since making it is one of the steps
	}
	claims := newCluster(b)
	if step == StepLook { // only who finds claims of some age looks: there may have been somebody before
		if rng.IntN(2) == 0 {
			c.run(w, claims, StepFleet, true)
		}
		w.advance(lookAfter)
	}
	if !c.run(w, claims, step, done) {
		return fmt.Errorf("the launch never came to that step")
	}
	if rng.IntN(2) == 0 {
		w.stock.Empty(kit.Pool{CapacityType: "on-demand", Type: "m5.large", Zone: "us-west-2" + string("abc"[rng.IntN(3)])})
	}
	w.advance(time.Duration(rng.IntN(40)) * time.Second)
	c.run(w, claims, Steps[rng.IntN(len(Steps))], rng.IntN(2) == 0)
	for n := 0; !claims.pass(w, len(b.Claims)); n++ {
		if n > 30 {
			return fmt.Errorf("the batch did not settle")
		}
		w.advance(5 * time.Second)
	}
	w.advance(20 * time.Second)
	if err := claims.check(w); err != nil {
		return err
	}
	if len(claims.gaveUp) > 0 {
		return fmt.Errorf("%d claims got nothing although there is stock", len(claims.gaveUp))
	}
	return claims.end(w)
}

// TestR1_StepsAreComplete holds the list of steps against what a launch goes through.
func TestR1_StepsAreComplete(t *testing.T) {
	c := &crasher{}
	w := newWorld(t, func(_ *simaws.Options, o *Options) { o.OnStep = c.at })
	w.load()
	c.seen = nil
	b := w.batch("old", 1, onDemandOnly, typeIs("m5.large"))
	w.advance(lookAfter)
	given(t, w.Launch(w.ctx, b))
	if !slices.Equal(c.seen, Steps) {
		t.Errorf("a launch went through %v, want %v", c.seen, Steps)
	}
}
