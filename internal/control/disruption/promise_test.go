package disruption

import (
	"testing"
	"time"

	karpv1 "karpenter/api/karpenter/v1"
)

// horizonOf is the share of the usual time over which savings of the pool count, and what is written on it.
func (b *bench) horizonOf(pool string) (share float64, written string) {
	b.Helper()
	share = 1
	if h, ok := b.loop.promises.horizon()[pool]; ok {
		share = h
	}
	p := &karpv1.NodePool{}
	b.must(b.client.Get(b.Context(), clientKey(pool), p))
	return share, p.Annotations[karpv1.SavingsHorizonAnnotationKey]
}

// Where moves do not save what they promised, savings count for a shorter time, for the next process too, until they are kept again or an
// hour has passed.
func TestPromisesThatAreNotKeptShortenTheHorizon(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.instance("node", "general", "m5.xlarge", func(c *karpv1.NodeClaim) { c.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"} })
	b.pod("node", "3")
	rest := func() {
		for range 3 { // until the pool is known to be at rest
			b.clock.Step(time.Minute)
			b.pass()
		}
	}
	rest()
	promised := func(share float64) {
		p := b.loop.promises.of("general")
		p.price, p.demand = costOf(b.mirror.View().World, "general")
		p.saves, p.last = share*p.price, b.clock.Now()
		p.price += p.saves / 4 // a quarter of it came true
		b.clock.Step(reviewAfter)
		b.pass()
	}
	promised(0.5)
	if share, text := b.horizonOf("general"); share != 0.5 || text == "" {
		t.Errorf("after a promise that was missed: %v, the pool says %q", share, text)
	}
	b.expectEvent("Warning "+EventPromise, "count for 2.00 h from now on")
	b.restart()
	rest()
	if share, _ := b.horizonOf("general"); share != 0.5 {
		t.Errorf("after a restart: %v", share)
	}
	promised(0.5)
	if share, _ := b.horizonOf("general"); share != 0.25 {
		t.Errorf("after another one: %v", share)
	}
	for _, want := range []float64{0.5, 1} {
		b.clock.Step(regainAfter)
		b.pass()
		if share, text := b.horizonOf("general"); share != want || (text == "") != (want == 1) {
			t.Errorf("an hour later: %v, want %v; the pool says %q", share, want, text)
		}
	}
}

func TestWrittenHorizonsAreReadWithCare(t *testing.T) {
	since := time.Unix(1_700_000_000, 0).UTC()
	var p promises
	p.restore("a", (&promise{horizon: 0.125, since: since}).String())
	if got := p.pools["a"]; got == nil || *got != (promise{horizon: 0.125, since: since}) {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{"", "share=1 since=2026-01-01T00:00:00Z", "share=0 since=2026-01-01T00:00:00Z", "share=NaN since=2026-01-01T00:00:00Z", "share=0.5", "share=0.5 since=soon", "since=2026-01-01T00:00:00Z"} {
		if p.restore("b", text); p.pools["b"] != nil {
			t.Errorf("%q was read as %+v", text, p.pools["b"])
		}
	}
}
