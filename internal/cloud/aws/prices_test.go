package aws

import (
	"testing"
	"time"

	"karpenter/internal/cloud"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/cloud/simaws/catalog"
)

func TestAWS_3_EmbeddedPrices(t *testing.T) {
	for _, tt := range []struct {
		region string
		own    bool
	}{{"us-east-1", true}, {"eu-central-1", true}, {"us-gov-west-1", false}, {"cn-north-1", false}} {
		list, at, own := embeddedPrices(tt.region)
		if own != tt.own || len(list) < 300 || at.Year() < 2025 {
			t.Errorf("%s: %d prices of %v, its own %v", tt.region, len(list), at, own)
		}
	}
	if east, _, _ := embeddedPrices("us-east-1"); east["m5.large"] != 0.096 {
		t.Errorf("m5.large costs %v", east["m5.large"])
	}
}

// TestAWS_3_EmbeddedPricesFollowTheCatalogue keeps the table in step with the figures that the pocket AWS serves.
func TestAWS_3_EmbeddedPricesFollowTheCatalogue(t *testing.T) {
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all.Regions() {
		region, err := all.Region(name)
		if err != nil {
			t.Fatal(err)
		}
		list, _, _ := embeddedPrices(name)
		for _, offer := range region.Offers {
			if offer.OnDemand > 0 && list[offer.Type] != offer.OnDemand {
				t.Fatalf("%s %s: the binary says %v, the catalogue %v; make data/prices.txt.gz anew", name, offer.Type, list[offer.Type], offer.OnDemand)
			}
		}
	}
}

func TestAWS_3_Refresh(t *testing.T) {
	w := newWorld(t)
	if s := w.PriceState(); !s.Embedded || s.Foreign || s.OnDemandAt.IsZero() || !s.SpotAt.IsZero() {
		t.Errorf("at first: %+v", s)
	}
	w.must(w.RefreshOnDemand(w.ctx))
	w.must(w.RefreshSpot(w.ctx))
	if s := w.PriceState(); s.Embedded || !s.OnDemandAt.Equal(epoch) || !s.SpotAt.Equal(epoch) {
		t.Errorf("after a refresh: %+v", s)
	}
	now := w.prices.now.Load()
	if p, ok := now.onDemandPrice("m5.metal"); !ok || p < 1 {
		t.Errorf("bare metal costs %v", p)
	}
	if p, ok := now.spotPrice("m5.large", "us-west-2a"); !ok || !(p > 0 && p < now.onDemand["m5.large"]) {
		t.Errorf("spot costs %v", p)
	}
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "ec2:DescribeSpotPriceHistory", Code: "InternalError", Status: 500}))
	w.clock.Advance(time.Hour)
	if err := w.RefreshSpot(w.ctx); cloud.ClassOf(err) != cloud.Transient {
		t.Errorf("got %v, want Transient", err)
	}
	if w.prices.now.Load() != now {
		t.Error("a refresh that failed must change nothing")
	}
}

func TestAWS_3_IsolatedVPC(t *testing.T) {
	w := newWorld(t, func(_ *simaws.Options, o *Options) { o.IsolatedVPC = true })
	w.must(w.RefreshOnDemand(w.ctx))
	if n := w.called("GetProducts"); n != 0 || !w.PriceState().Embedded {
		t.Errorf("%d calls of the Pricing API", n)
	}
}

func TestAWS_3_PricingRegion(t *testing.T) {
	for region, want := range map[string]string{"ap-southeast-2": "ap-south-1", "cn-north-1": "cn-northwest-1", "eu-west-1": "eu-central-1", "us-west-2": "us-east-1", "sa-east-1": "us-east-1"} {
		if got := pricingRegion(region); got != want {
			t.Errorf("%s: got %s, want %s", region, got, want)
		}
	}
}

func FuzzProduct(f *testing.F) {
	f.Add(`{"product":{"attributes":{"instanceType":"m5.large"}},"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"pricePerUnit":{"USD":"0.096"}}}}}}}`)
	f.Add(`{"terms":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, price := readProduct(text, "us-east-1"); price < 0 {
			t.Errorf("price %v", price)
		}
	})
}
