package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
)

func newCreator(s *fixture) *Creator {
	return &Creator{Client: cluster.Client, Mirror: s, Clock: testclock.NewFakeClock(epoch), Log: silent}
}

// stored lists the claims of a pool that the API server has.
func stored(t *testing.T, pool string) []karpv1.NodeClaim {
	t.Helper()
	list := &karpv1.NodeClaimList{}
	if err := cluster.Client.List(t.Context(), list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// plan drafts claims for the pods in the fixture.
func plan(s *fixture, c *Creator) []*Draft {
	view := s.View()
	return c.Drafts(view, pack.Solve(view.World, pack.Options{}).Nodes, ReasonProvisioned)
}

func failures(errs []error) int {
	return len(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil }))
}

// claimKind is a sort of plan that claims come from.
type claimKind struct {
	name    string
	catalog *dump.Catalog
	pool    []func(*karpv1.NodePool)
	pod     []func(*corev1.Pod)
	options pack.Options
	check   func(t *testing.T, c *karpv1.NodeClaim)
}

func claimKinds() []claimKind {
	many := &dump.Catalog{} // of which none is too dear to be listed
	for i := range 700 {
		same := typesOf(twoZones, 4).InstanceTypes[0]
		same.Name = fmt.Sprintf("m%d.xlarge", i)
		many.InstanceTypes = append(many.InstanceTypes, same)
	}
	var hundred []func(*karpv1.NodePool)
	for i := range 95 {
		hundred = append(hundred, needs(fmt.Sprintf("example.com/r%d", i), "In", 0, "v"))
	}
	return []claimKind{
		{name: "plain", catalog: typesOf(twoZones, 2, 4)},
		{name: "labels", catalog: typesOf(twoZones, 2, 4), pool: []func(*karpv1.NodePool){
			needs("example.com/tier", "In", 0, "gold", "silver"), needs("example.com/rack", "Exists", 0), needs("example.com/old", "DoesNotExist", 0),
			needs("example.com/odd", "NotIn", 0, "x"), func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{"team": "", "example.com/a": "b"} },
		}},
		{name: "bounds", catalog: typesOf(twoZones, 2, 4, 8), pool: []func(*karpv1.NodePool){
			needs("example.com/rank", "Gt", 0, "3"), needs("example.com/rank", "Lt", 0, "9"), needs("example.com/rank", "NotIn", 0, "5"),
			needs("example.com/floor", "Gte", 0, "0"), needs("example.com/roof", "Lte", 0, "7"),
		}},
		{name: "minvalues", catalog: typesOf(twoZones, 2, 4, 8, 16), pool: []func(*karpv1.NodePool){
			needs(world.LabelInstanceType, "Exists", 3), needs(world.LabelZone, "In", 2, twoZones...), needs("karpenter.k8s.aws/instance-family", "Exists", 1),
		}},
		{
			name: "relaxed", catalog: typesOf(twoZones, 2, 4), pool: []func(*karpv1.NodePool){
				needs(world.LabelInstanceType, "In", 4, "m5.2x", "m5.4x", "m5.8x", "m5.16x"), needs(world.LabelZone, "In", 3, "us-east-1a", "us-east-1b", "us-east-1c"),
			},
			options: pack.Options{BestEffortMinValues: true},
		},
		{name: "reserved", catalog: reservedCatalog(), pool: []func(*karpv1.NodePool){needs(world.LabelCapacityType, "In", 0, "reserved", "spot", "on-demand")}},
		{name: "reserved-minvalues", catalog: reservedCatalog(), pool: []func(*karpv1.NodePool){needs(world.LabelInstanceType, "Exists", 2)}},
		{name: "six-hundred", catalog: many, check: func(t *testing.T, c *karpv1.NodeClaim) {
			if n := len(requirementOf(c, world.LabelInstanceType).Values); n != pack.DefaultMaxTypes {
				t.Errorf("%d types", n)
			}
		}},
		{name: "hundred", catalog: typesOf(twoZones, 2), pool: hundred},
		{name: "bound-pod", catalog: typesOf(twoZones, 2), pod: []func(*corev1.Pod){selects(world.LabelZone, "us-east-1b")}},
		{name: "terms", catalog: typesOf(twoZones, 2), pool: []func(*karpv1.NodePool){func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.ExpireAfter = karpv1.NewNillableDuration(72 * time.Hour)
			grace := karpv1.Duration{Duration: 90 * time.Minute}
			p.Spec.Template.Spec.TerminationGracePeriod = &grace
			p.Spec.Template.Spec.StartupTaints = []karpv1.Taint{{Key: "example.com/agent", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
		}}},
		{name: strings.Repeat("long", 15), catalog: typesOf(twoZones, 2)},
	}
}

// TestP89_TheAPIServerTakesEveryKindOfClaim creates claims of all sorts of plans and compares what is stored.
func TestP89_TheAPIServerTakesEveryKindOfClaim(t *testing.T) {
	for _, c := range claimKinds() {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(c.catalog, newPool(c.name, c.pool...))
			s.put(pods(3, "900m", c.pod...)...)
			list := drafted(t, s, c.options)
			if len(list) == 0 {
				t.Fatal("no claim")
			}
			for i, err := range newCreator(s).Create(t.Context(), list) {
				if err != nil {
					t.Fatalf("%v\n%+v", err, list[i].Claim)
				}
			}
			got := stored(t, c.name)
			if len(got) != len(list) || len(s.inFlight()) != len(list) {
				t.Errorf("%d claims are stored and %d assumed, want %d", len(got), len(s.inFlight()), len(list))
			}
			for i := range got {
				if c.check != nil {
					c.check(t, &got[i])
				}
			}
		})
	}
}

func TestP86_LimitsHold(t *testing.T) {
	t.Run("P85 within a batch", func(t *testing.T) {
		s := newFixture(typesOf(twoZones, 2), newPool("nodes-two", limits(map[corev1.ResourceName]string{"nodes": "2"})))
		s.put(pods(5, "1", alone)...)
		c := newCreator(s)
		if errs := c.Create(t.Context(), plan(s, c)); failures(errs) > 0 || len(stored(t, "nodes-two")) != 2 {
			t.Errorf("%d claims, %v", len(stored(t, "nodes-two")), errs)
		}
	})
	t.Run("P86 two plans over one view", func(t *testing.T) {
		s := newFixture(typesOf(twoZones, 2), newPool("cpu-six", limits(map[corev1.ResourceName]string{"cpu": "6"})))
		s.put(pods(3, "1", alone)...)
		c := newCreator(s)
		first, second := plan(s, c), plan(s, c)
		if errs := c.Create(t.Context(), first); failures(errs) > 0 {
			t.Fatal(errs)
		}
		errs := c.Create(t.Context(), second)
		var refused *RefusedError
		if failures(errs) != 3 || !errors.As(errs[0], &refused) || refused.Pool != "cpu-six" {
			t.Errorf("a second plan over the same view: %v", errs)
		}
		if n := len(stored(t, "cpu-six")); n != 3 {
			t.Errorf("%d claims, want 3", n)
		}
	})
	t.Run("P86 plans carried out at once", func(t *testing.T) {
		s := newFixture(typesOf(twoZones, 2), newPool("at-once", limits(map[corev1.ResourceName]string{"cpu": "20", "nodes": "9"})))
		s.put(pods(9, "1", alone)...)
		c := newCreator(s)
		var wg sync.WaitGroup
		for range 4 {
			list := plan(s, c)
			wg.Add(1)
			go func() {
				defer wg.Done()
				c.Create(t.Context(), list)
			}()
		}
		wg.Wait()
		if n := len(stored(t, "at-once")); n != 9 {
			t.Errorf("%d claims, want 9", n)
		}
		if u := c.underway["at-once"]; u.nodes != 0 || u.resources["cpu"] != 0 {
			t.Errorf("%+v is still reserved", u)
		}
	})
}

func TestP86_LimitsHoldInTime(t *testing.T) {
	t.Run("P86 across a crash", func(t *testing.T) {
		pool := newPool("crash", limits(map[corev1.ResourceName]string{"nodes": "3"}))
		s := newFixture(typesOf(twoZones, 2), pool)
		s.put(pods(2, "1", alone)...)
		c := newCreator(s)
		if errs := c.Create(t.Context(), plan(s, c)); failures(errs) > 0 {
			t.Fatal(errs)
		}
		after := newFixture(typesOf(twoZones, 2), pool) // a new process, which knows what the API server has
		found := stored(t, "crash")
		for i := range found {
			after.Put(&found[i])
		}
		more := pods(6, "1", alone)
		after.put(more...)
		next := newCreator(after)
		next.Clock = testclock.NewFakeClock(at(time.Minute))
		next.Create(t.Context(), plan(after, next))
		if n := len(stored(t, "crash")); n != 3 {
			t.Errorf("%d claims, want 3", n)
		}
	})
	t.Run("P87 nodes that go away do not count", func(t *testing.T) {
		s := newFixture(typesOf(twoZones, 2), newPool("going", limits(map[corev1.ResourceName]string{"cpu": "2"})))
		s.put(newPod("a", "1"))
		c := newCreator(s)
		replacement := plan(s, c)
		if errs := c.Create(t.Context(), plan(s, c)); failures(errs) > 0 {
			t.Fatal(errs)
		}
		if errs := c.Create(t.Context(), replacement); failures(errs) != 1 {
			t.Fatal("a second node beyond the limit")
		}
		for _, claim := range s.inFlight() {
			s.Leaving(claim.Name)
		}
		if errs := c.Create(t.Context(), replacement); failures(errs) > 0 {
			t.Error(errs)
		}
	})
}

func TestP86_PoolsAreLookedAtAgain(t *testing.T) {
	for name, change := range map[string]func(s *fixture){
		"gone":      func(s *fixture) { s.Drop(newPool("gone")) },
		"not-ready": func(s *fixture) { s.Put(newPool("not-ready", notReady)) },
	} {
		t.Run("P86 "+name, func(t *testing.T) {
			s := newFixture(typesOf(twoZones, 2), newPool(name))
			s.put(newPod("a", "1"))
			c := newCreator(s)
			list := plan(s, c)
			change(s)
			var refused *RefusedError
			if errs := c.Create(t.Context(), list); !errors.As(errs[0], &refused) || len(stored(t, name)) > 0 {
				t.Errorf("%v", errs)
			}
		})
	}
}

func notReady(p *karpv1.NodePool) {
	p.Status.Conditions = []karpv1.Condition{{Type: karpv1.ConditionReady, Status: "False", Message: "the class is missing"}}
}

func ready(p *karpv1.NodePool) {
	for _, c := range []string{karpv1.ConditionValidationSucceeded, karpv1.ConditionNodeClassReady} {
		p.StatusConditions().SetTrue(c, epoch)
	}
}

// faulty is a client that fails as told: before is asked before a claim is sent, after once it is stored.
func faulty(before, after func(claim string, attempt int) error) client.Client {
	var mu sync.Mutex
	attempts := map[string]int{}
	return interceptor.NewClient(cluster.Client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			mu.Lock()
			attempts[obj.GetName()]++
			n := attempts[obj.GetName()]
			mu.Unlock()
			if err := before(obj.GetLabels()[karpv1.NodePoolLabelKey], n); err != nil {
				return err
			}
			sent := obj.DeepCopyObject().(client.Object) // whoever gets no answer learns nothing from it
			if err := c.Create(ctx, sent, opts...); err != nil {
				return err
			}
			return after(obj.GetLabels()[karpv1.NodePoolLabelKey], n)
		},
	})
}

func fine(string, int) error { return nil }

// patient runs what waits for the fake clock, and moves the clock as soon as something waits for it.
func patient(t *testing.T, clock *testclock.FakeClock, run func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	awaitTrue(t, "everything is done", func() bool {
		if clock.HasWaiters() {
			clock.Step(time.Second)
		}
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
}

var errDenied = apierrors.NewForbidden(karpv1.SchemeGroupVersion.WithResource("nodeclaims").GroupResource(), "x", errors.New("no"))

func TestP8_FailuresHoldUpNoOther(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("broken", limits(map[corev1.ResourceName]string{"nodes": "2"})), newPool("working"))
	s.put(newPod("a", "1", selects(world.LabelPool, "broken")), newPod("b", "1", selects(world.LabelPool, "working")))
	c := newCreator(s)
	c.Client = faulty(func(pool string, _ int) error {
		if pool == "broken" {
			return errDenied
		}
		return nil
	}, fine)
	for range 3 { // what fails is given back, so that it may be tried again as often as it takes
		list := plan(s, c)
		errs := c.Create(t.Context(), list)
		for i, d := range list {
			if got := errs[i] != nil; got != (d.Node.Pool.Name == "broken") {
				t.Errorf("%s: %v", d.Node.Pool.Name, errs[i])
			}
			if d.Node.Pool.Name == "broken" && !errors.Is(errs[i], errDenied) {
				t.Errorf("%v does not wrap the cause", errs[i])
			}
		}
	}
	if n := len(stored(t, "working")); n != 1 {
		t.Errorf("%d claims of the working pool", n)
	}
	if u := c.underway["broken"]; u.nodes != 0 {
		t.Errorf("%+v is still reserved", u)
	}
}

func TestP8_AnAnswerThatIsLostMakesNoSecondClaim(t *testing.T) {
	lost := errors.New("connection reset by peer")
	cases := []struct {
		name          string
		before, after func(string, int) error
		fails         bool
		stored        int
		assumed       int
	}{
		{"stored", fine, func(string, int) error { return lost }, false, 1, 1},
		{"not-stored", func(_ string, n int) error {
			if n == 1 {
				return lost
			}
			return nil
		}, fine, false, 1, 1},
		{"unknown", func(string, int) error { return lost }, fine, true, 0, 1}, // it may be there, so it counts
		{"throttled", func(string, int) error { return apierrors.NewTooManyRequests("slow down", 1) }, fine, true, 0, 0},
	}
	for _, x := range cases {
		t.Run("P8 "+x.name, func(t *testing.T) {
			name := "lost-" + x.name
			s := newFixture(typesOf(twoZones, 2), newPool(name))
			s.put(newPod("a", "1"))
			c := newCreator(s)
			clock := testclock.NewFakeClock(epoch)
			c.Client, c.Clock = faulty(x.before, x.after), clock
			var errs []error
			patient(t, clock, func() { errs = c.Create(t.Context(), plan(s, c)) })
			if (failures(errs) > 0) != x.fails || len(stored(t, name)) != x.stored || len(s.inFlight()) != x.assumed {
				t.Errorf("%v; %d stored, %d assumed", errs, len(stored(t, name)), len(s.inFlight()))
			}
			if u := c.underway[name]; u.nodes != 0 {
				t.Errorf("%+v is still reserved", u)
			}
		})
	}
}

func TestP8_ManyFailuresAreAFewLines(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("noisy"))
	s.put(pods(30, "1", alone)...)
	d := newRunner(t, s)
	d.Creator.Client = faulty(func(string, int) error { return errDenied }, fine)
	_, lines := d.pass()
	want(t, control.MaxNamed, lines, `msg="could not create nodeclaim"`)
	want(t, 1, lines, `msg="could not create more nodeclaims"`, "nodeclaims=25")
	if len(lines) > control.MaxNamed+10 {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}
