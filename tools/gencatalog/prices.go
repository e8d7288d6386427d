package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"karpenter/internal/cloud/simaws/catalog"
)

// price is what a source states for a type in a region; 0 means nothing.
type price struct{ onDemand, spot float64 }

// priceTable is region, then type.
type priceTable map[string]map[string]price

func (p priceTable) set(region, typeName string, v price) {
	if p[region] == nil {
		p[region] = map[string]price{}
	}
	p[region][typeName] = v
}

// readList reads a price list in the form of ec2instances.info.
func (p priceTable) readList(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var rows []struct {
		Name    string `json:"instance_type"`
		Pricing map[string]struct {
			Linux struct {
				OnDemand string `json:"ondemand"`
				Spot     string `json:"spot_avg"`
			} `json:"linux"`
		} `json:"pricing"`
	}
	if err := json.Unmarshal(raw, &rows); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	for _, r := range rows {
		for region, v := range r.Pricing {
			p.set(region, r.Name, price{number(v.Linux.OnDemand), number(v.Linux.Spot)})
		}
	}
	return nil
}

// number reads a figure; sources write N/A or nothing where they have none.
func number(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 {
		return 0
	}
	return f
}

// spotShare is the usual part of the on-demand price that spot costs, for
// types whose spot price no source states.
const spotShare = 0.42

// homeRegion is where a price is looked for when the region itself has none.
const homeRegion = "us-east-1"

// price fills the offers: stated figures first, then estimates.
func (m *model) price() {
	for name, r := range m.regions {
		for i := range r.Offers {
			o := &r.Offers[i]
			t := m.types[o.Type]
			v := m.prices[name][o.Type]
			if t.Supports("on-demand") || t.Supports("capacity-block") {
				o.OnDemand = v.onDemand
				if o.OnDemand == 0 {
					o.OnDemand, o.OnDemandEstimated = m.estimate(name, t), true
				}
			}
			if t.Supports("spot") {
				o.Spot = v.spot
				if o.Spot == 0 || o.Spot > o.OnDemand {
					o.Spot, o.SpotEstimated = round(o.OnDemand*spotShare), true
				}
			}
		}
	}
}

func round(f float64) float64 { return math.Round(f*1e5) / 1e5 }

// estimate prices a type by its nearest relative in the region, or in the home
// region, or by its size alone.
func (m *model) estimate(region string, t *catalog.Type) float64 {
	for _, r := range []string{region, homeRegion} {
		if v := m.prices[r][t.Name].onDemand; v > 0 {
			return v
		}
		if v := m.sibling(r, t); v > 0 {
			return round(v)
		}
	}
	gpus := 0
	for _, g := range t.GPUs {
		gpus += g.Count
	}
	return round(0.035*float64(t.VCPUs) + 0.004*float64(t.MemoryMiB)/1024 + 2*float64(gpus))
}

var namePattern = regexp.MustCompile(`^([a-z]+)(\d*)(.*)$`)

// series splits a family into its letters, generation and the rest: m8gd is m,
// 8, gd.
func series(family string) (letters string, generation int, rest string) {
	p := namePattern.FindStringSubmatch(family)
	generation, _ = strconv.Atoi(p[2])
	return p[1], generation, p[3]
}

// sibling finds the closest priced type of the same letters and scales its
// price by accelerators or vCPUs.
func (m *model) sibling(region string, t *catalog.Type) float64 {
	letters, gen, rest := series(t.Family())
	type candidate struct {
		t        *catalog.Type
		distance float64
	}
	var best []candidate
	for name, p := range m.prices[region] {
		o := m.types[name]
		if o == nil || p.onDemand == 0 {
			continue
		}
		l, g, r := series(o.Family())
		if l != letters {
			continue
		}
		d := math.Abs(float64(gen - g))
		if g > gen {
			d += 0.5
		}
		if r != rest {
			d += 4
			if r == "" || rest == "" || r[0] != rest[0] || len(r) != len(rest) {
				d += 3
			}
		}
		d += 20 * math.Abs(math.Log2(weight(o)/weight(t)))
		best = append(best, candidate{o, d})
	}
	if len(best) == 0 {
		return 0
	}
	c := slices.MinFunc(best, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.t.Name, b.t.Name))
	})
	return m.prices[region][c.t.Name].onDemand * weight(t) / weight(c.t)
}

// weight is what a type's price grows with.
func weight(t *catalog.Type) float64 {
	w := float64(t.VCPUs) + float64(t.MemoryMiB)/8192
	for _, g := range t.GPUs {
		w += 20 * float64(g.Count)
	}
	return w
}
