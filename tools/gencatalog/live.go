package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"karpenter/internal/cloud/simaws/catalog"
)

// aws runs the aws command and decodes its JSON. The command pages by itself.
func aws(into any, args ...string) error {
	cmd := exec.Command("aws", append(args, "--output", "json")...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("aws %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("aws %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// readLive refreshes the regions and keeps what the present catalogue knows of
// types that these regions do not offer.
func (m *model) readLive(regions []string) error {
	old, err := catalog.Load()
	if err != nil {
		return err
	}
	for _, t := range old.Types {
		m.types[t.Name] = t
	}
	for _, r := range regions {
		if err := m.liveTypes(r); err != nil {
			return err
		}
		if err := m.liveOfferings(r); err != nil {
			return err
		}
		if err := m.livePrices(r); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) liveTypes(region string) error {
	var answer struct{ InstanceTypes []*awsType }
	if err := aws(&answer, "ec2", "describe-instance-types", "--region", region); err != nil {
		return err
	}
	for _, a := range answer.InstanceTypes {
		if a.ProcessorInfo.Manufacturer == "" {
			return fmt.Errorf("the aws command is too old: it does not print who made the processor of %s; use version 2.17 or later, or 1.33 or later", a.InstanceType)
		}
		t := a.convert()
		if known := m.types[t.Name]; known != nil {
			t.BranchENIs = known.BranchENIs
			a.keepInterfaceTypes(t, known)
		}
		m.types[t.Name] = t
	}
	return nil
}

// keepInterfaceTypes fills in what the cards can carry from the present
// catalogue when the aws command is too old to print it.
func (a *awsType) keepInterfaceTypes(t, known *catalog.Type) {
	for i, c := range a.NetworkInfo.NetworkCards {
		if len(c.InterfaceTypes) == 0 && i < len(known.Network.Cards) {
			k, n := known.Network.Cards[i], &t.Network.Cards[i]
			n.AllowsENI, n.AllowsEFA, n.AllowsEFAOnly = k.AllowsENI, k.AllowsEFA, k.AllowsEFAOnly
		}
	}
}

func (m *model) liveOfferings(region string) error {
	var answer struct{ InstanceTypeOfferings []offering }
	if err := aws(&answer, "ec2", "describe-instance-type-offerings", "--location-type", "availability-zone", "--region", region); err != nil {
		return err
	}
	var zones struct {
		AvailabilityZones []struct{ ZoneName, ZoneId string }
	}
	if err := aws(&zones, "ec2", "describe-availability-zones", "--region", region); err != nil {
		return err
	}
	var pairs []catalog.Zone
	for _, z := range zones.AvailabilityZones {
		pairs = append(pairs, catalog.Zone{Name: z.ZoneName, ID: z.ZoneId})
	}
	m.addRegion(region, answer.InstanceTypeOfferings, pairs)
	return nil
}

// product is an element of the price list.
type product struct {
	Product struct {
		Attributes struct {
			InstanceType string `json:"instanceType"`
		} `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct {
				PricePerUnit map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
}

func (p *product) usd() float64 {
	for _, term := range p.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			if v := number(d.PricePerUnit["USD"]); v > 0 {
				return v
			}
		}
	}
	return 0
}

func (m *model) livePrices(region string) error {
	for _, kind := range []struct{ tenancy, family string }{
		{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"},
	} {
		var answer struct{ PriceList []string }
		args := []string{"pricing", "get-products", "--region", "us-east-1", "--service-code", "AmazonEC2", "--filters"}
		for _, f := range [][2]string{
			{"regionCode", region},
			{"tenancy", kind.tenancy},
			{"productFamily", kind.family},
			{"preInstalledSw", "NA"},
			{"operatingSystem", "Linux"},
			{"capacitystatus", "Used"},
			{"marketoption", "OnDemand"},
		} {
			args = append(args, fmt.Sprintf("Type=TERM_MATCH,Field=%s,Value=%s", f[0], f[1]))
		}
		if err := aws(&answer, args...); err != nil {
			return err
		}
		for _, text := range answer.PriceList {
			var p product
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				return fmt.Errorf("price list of %s: %w", region, err)
			}
			m.prices.set(region, p.Product.Attributes.InstanceType, price{onDemand: p.usd()})
		}
	}
	return m.liveSpot(region)
}

// liveSpot takes the mean over the zones, as the catalogue keeps one figure.
func (m *model) liveSpot(region string) error {
	var answer struct {
		SpotPriceHistory []struct{ InstanceType, SpotPrice string }
	}
	if err := aws(&answer, "ec2", "describe-spot-price-history", "--region", region,
		"--product-descriptions", "Linux/UNIX", "--start-time", time.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	sums := map[string][]float64{}
	for _, s := range answer.SpotPriceHistory {
		sums[s.InstanceType] = append(sums[s.InstanceType], number(s.SpotPrice))
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		total := 0.0
		for _, v := range sums[name] {
			total += v
		}
		p := m.prices[region][name]
		p.spot = round(total / float64(len(sums[name])))
		m.prices.set(region, name, p)
	}
	return nil
}
