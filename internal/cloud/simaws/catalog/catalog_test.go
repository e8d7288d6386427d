package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func loaded(t testing.TB) *Catalog {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCatalogue(t *testing.T) {
	c := loaded(t)
	if len(c.Types) < 700 || len(c.Regions()) < 20 {
		t.Fatalf("%d types in %d regions", len(c.Types), len(c.Regions()))
	}
	got := *c.Type("m5.large")
	want := Type{
		Name: "m5.large", Hibernation: true, DedicatedHosts: true, AutoRecovery: true, IPv6: true, NitroTPM: true,
		Hypervisor: "nitro", UsageClasses: []string{"on-demand", "spot"}, Architectures: []string{"x86_64"}, Manufacturer: "Intel", ClockGHz: 3.1,
		VCPUs: 2, Cores: 1, ThreadsPerCore: 2, MemoryMiB: 8192,
		EBS: EBS{"default", 650, 3600, 4750, 18750, "required", 27},
		Network: Network{
			Performance: "Up to 10 Gigabit", IPv4PerENI: 10, IPv6PerENI: 10, EnaSupport: "required", MaxENIs: 3,
			Cards: []Card{{MaxENIs: 3, BaselineGbps: 0.75, PeakGbps: 10, Performance: "Up to 10 Gigabit", AllowsENI: true}},
		},
		Placement: []string{"cluster", "partition", "spread"}, BootModes: []string{"legacy-bios", "uefi"}, RootDevices: []string{"ebs"}, Virtualities: []string{"hvm"}, BranchENIs: 9,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if p5 := c.Type("p5.48xlarge"); p5.TotalDiskGB() != 30400 || len(p5.Network.Cards) != 32 || p5.GPUs[0].Count != 8 || p5.Family() != "p5" {
		t.Errorf("p5.48xlarge: %+v", p5)
	}
}

// TestCheckedFigures holds figures that changed at AWS during 2026 and were
// checked against other sources of that September: interfaces per card against
// the interface table of the Amazon VPC CNI v1.23.2 (394 and 590 pods), and
// what is sold against the offerings. Older tables have other values for them.
func TestCheckedFigures(t *testing.T) {
	c := loaded(t)
	for name, want := range map[string][]int{"i7ie.48xlarge": {8, 7}, "i7ie.metal-48xl": {8, 7}, "i8ge.48xlarge": {12, 12}, "i8ge.metal-48xl": {12, 12}} {
		var got []int
		for _, card := range c.Type(name).Network.Cards {
			got = append(got, card.MaxENIs)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	for name, want := range map[string]float64{"c9g.large": 3.3, "i7ie.large": 3.2, "c8g.large": 2.8} {
		if got := c.Type(name).ClockGHz; got != want {
			t.Errorf("%s runs at %g GHz, want %g", name, got, want)
		}
	}
	// AWS withdrew these from all regions in the course of the year.
	for _, name := range []string{"g4ad.xlarge", "g4ad.16xlarge", "dl1.24xlarge"} {
		if c.Type(name) != nil {
			t.Errorf("%s is in the catalogue, but no region sells it", name)
		}
	}
}

// TestRegions checks that each region's table fits the types and is priced.
func TestRegions(t *testing.T) {
	c := loaded(t)
	for _, name := range c.Regions() {
		r, err := c.Region(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Zones) < 2 || len(r.Offers) < 200 {
			t.Errorf("%s: %d zones, %d offers", name, len(r.Zones), len(r.Offers))
		}
		for _, o := range r.Offers {
			typ := c.Type(o.Type)
			switch {
			case typ == nil:
				t.Errorf("%s offers %s, which has no description", name, o.Type)
			case o.ZoneMask == 0 || o.ZoneMask >= 1<<len(r.Zones):
				t.Errorf("%s offers %s in zones %x of %d", name, o.Type, o.ZoneMask, len(r.Zones))
			case typ.Supports("on-demand") && o.OnDemand <= 0, typ.Supports("spot") && (o.Spot <= 0 || o.Spot > o.OnDemand):
				t.Errorf("%s sells %s at %g, spot %g", name, o.Type, o.OnDemand, o.Spot)
			}
		}
	}
	r, err := c.Region("us-west-2")
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := r.Offer("m5.large"); !ok || o.OnDemand != 0.096 || o.OnDemandEstimated || !r.InZone("m5.large", "us-west-2a") || r.InZone("m5.large", "us-west-2z") {
		t.Errorf("m5.large: %+v", o)
	}
	if _, err := c.Region("mars-1"); err == nil || !strings.Contains(err.Error(), "us-west-2") {
		t.Errorf("an unknown region gave %v", err)
	}
}

func TestFormatRoundTrip(t *testing.T) {
	c := loaded(t)
	var b strings.Builder
	for _, typ := range c.Types {
		b.WriteString(FormatType(typ) + "\n")
	}
	again, err := ParseTypes("# a remark\n\n" + b.String())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c.Types, again); d != "" {
		t.Error(d)
	}
	r, err := c.Region("us-west-2")
	if err != nil {
		t.Fatal(err)
	}
	same, err := ParseRegion("us-west-2", FormatRegion(r))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, same, cmpopts.IgnoreUnexported(Region{})); d != "" {
		t.Error(d)
	}
}

func TestParseRefuses(t *testing.T) {
	line := FormatType(loaded(t).Type("m5.large"))
	for in, want := range map[string]string{
		"m5.large\tx":                                                  "columns",
		strings.Replace(line, "8192", "much", 1):                       "much",
		strings.Replace(line, "2:1:2", "2:1", 1):                       "fields",
		line + "\n" + strings.Replace(line, "m5.large", "a1.large", 1): "sorted",
	} {
		if _, err := ParseTypes(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseTypes(%q) = %v, want %q", in, err, want)
		}
	}
	for _, in := range []string{"m5.large\t1", "m5.large\tzz\t1\t1", "m5.large\t1\tx\t1"} {
		if _, err := ParseRegion("r", in); err == nil {
			t.Errorf("region line %q was accepted", in)
		}
	}
}

// BenchmarkLoad is what starting a world costs.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		for _, name := range []string{"types", "us-west-2"} {
			raw, err := readFile(name)
			if err != nil {
				b.Fatal(err)
			}
			if name == "types" {
				_, err = ParseTypes(raw)
			} else {
				_, err = ParseRegion(name, raw)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
