package aws

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/cloud/simaws/catalog"
)

var update = flag.Bool("update", false, "write data/prices.txt.gz anew from the AWS simulator's catalogue")

// priceListDate is the day of the price list that the catalogue was made from, as its NOTICE says.
const priceListDate = "2025-05-28"

func TestAWS_3_EmbeddedPrices(t *testing.T) {
	for _, tt := range []struct {
		region  string
		foreign bool
	}{{"us-east-1", false}, {"eu-central-1", false}, {"us-gov-west-1", true}, {"cn-north-1", true}} {
		got := embeddedPrices(tt.region)
		if got.foreign != tt.foreign || len(got.list) < 300 || got.at.Format(time.DateOnly) != priceListDate {
			t.Errorf("%s: %d prices of %v, another region's %v", tt.region, len(got.list), got.at, got.foreign)
		}
		if got.estimated == 0 || got.estimated > len(got.list)/2 {
			t.Errorf("%s: %d of %d prices are estimates", tt.region, got.estimated, len(got.list))
		}
	}
	if price := embeddedPrices("us-east-1").list["m5.large"]; price != 0.096 {
		t.Errorf("m5.large costs %v", price)
	}
	notice, err := os.ReadFile("../simaws/catalog/data/NOTICE")
	if err != nil || !strings.Contains(string(notice), "("+priceListDate+")") {
		t.Errorf("the catalogue's NOTICE does not name a price list of %s: %v", priceListDate, err)
	}
}

// TestAWS_3_EmbeddedPricesFollowTheCatalogue keeps the table in step with the figures that the AWS simulator serves.
func TestAWS_3_EmbeddedPricesFollowTheCatalogue(t *testing.T) {
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintln(&text, "date", priceListDate)
	for _, name := range all.Regions() {
		region, err := all.Region(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&text, "region", name)
		families := map[string][]string{}
		for _, offer := range region.Offers {
			if offer.OnDemand <= 0 {
				continue
			}
			guess := ""
			if offer.OnDemandEstimated {
				guess = "~"
			}
			family, size, _ := strings.Cut(offer.Type, ".")
			families[family] = append(families[family], size+"="+guess+strconv.FormatFloat(offer.OnDemand, 'f', -1, 64))
		}
		for _, family := range slices.Sorted(maps.Keys(families)) {
			slices.Sort(families[family])
			fmt.Fprintln(&text, family, strings.Join(families[family], " "))
		}
	}
	if *update {
		var file bytes.Buffer
		zip, _ := gzip.NewWriterLevel(&file, gzip.BestCompression)
		_, _ = zip.Write([]byte(text.String()))
		_ = zip.Close()
		if err := os.WriteFile("data/prices.txt.gz", file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	unzip, err := gzip.NewReader(bytes.NewReader(priceFile))
	if err != nil {
		t.Fatal(err)
	}
	has, err := io.ReadAll(unzip)
	if err != nil || string(has) != text.String() {
		t.Errorf("data/prices.txt.gz is out of date (%v); write it anew: go test ./internal/cloud/aws -run EmbeddedPricesFollow -update", err)
	}
}

func TestAWS_3_Refresh(t *testing.T) {
	w := newWorld(t)
	if s := w.PriceState(); !s.Embedded || s.Foreign || s.OnDemandAt.Format(time.DateOnly) != priceListDate || s.Estimated == 0 || !s.SpotAt.IsZero() {
		t.Errorf("at first: %+v", s)
	}
	w.must(w.RefreshOnDemand(w.ctx))
	w.must(w.RefreshSpot(w.ctx))
	if s := w.PriceState(); s.Embedded || s.Estimated != 0 || !s.OnDemandAt.Equal(epoch) || !s.SpotAt.Equal(epoch) {
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
	w.advance(time.Hour)
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
