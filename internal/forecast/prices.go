package forecast

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"

	"karpenter/internal/state/dump"
)

// PricesKind is the kind of a document that changes prices. No API server knows it.
const PricesKind = "Prices"

// Prices changes what offerings cost, or whether they are in stock.
type Prices struct {
	APIVersion string         `json:"apiVersion,omitempty"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	// Prices are applied in their order.
	Prices []Price `json:"prices"`
}

// Price changes the offerings that it matches; each pattern may hold * and stands for everything if it is left out.
type Price struct {
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	// Price is in dollars an hour; Factor multiplies what it was.
	Price  *float64 `json:"price,omitempty"`
	Factor *float64 `json:"factor,omitempty"`
	// Unavailable takes the offerings out of stock, or puts them back.
	Unavailable *bool `json:"unavailable,omitempty"`
}

// check says what is wrong with an entry.
func (p *Price) check(at int) error {
	for _, x := range []*float64{p.Price, p.Factor} {
		if x != nil && (math.IsNaN(*x) || math.IsInf(*x, 0) || *x < 0) {
			return fmt.Errorf("prices[%d]: %v is no price; give a number of dollars an hour, or a factor", at, *x)
		}
	}
	for _, pattern := range []string{p.InstanceType, p.Zone, p.CapacityType} {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("prices[%d]: %q is no pattern; write m5.* or us-east-1a", at, pattern)
		}
	}
	if p.Price == nil && p.Factor == nil && p.Unavailable == nil {
		return fmt.Errorf("prices[%d]: says nothing; give price, factor or unavailable", at)
	}
	return nil
}

func (p *Price) matches(name string, o *dump.CatalogOffering) bool {
	return fits(p.InstanceType, name) && fits(p.Zone, o.Zone) && fits(p.CapacityType, o.CapacityType)
}

// fits says whether a pattern matches; an empty one always does.
func fits(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return pattern == "" || err == nil && ok
}

// price applies a document of prices to every class.
func (c *Change) price(p *Prices) error {
	for i := range p.Prices {
		if err := p.Prices[i].check(i); err != nil {
			return fmt.Errorf("Prices: %w", err)
		}
	}
	changed, done := 0, map[*dump.Catalog]*dump.Catalog{}
	next := map[string]*dump.Catalog{}
	for _, class := range slices.Sorted(maps.Keys(c.Classes)) {
		old := c.Classes[class]
		if done[old] == nil {
			n := 0
			done[old], n = p.apply(old)
			changed += n
		}
		next[class] = done[old]
	}
	c.Classes = next
	c.say("prices: %d offerings change", changed)
	return nil
}

// apply is the catalogue with other prices, and how many offerings differ.
func (p *Prices) apply(old *dump.Catalog) (*dump.Catalog, int) {
	next, changed := *old, 0
	next.InstanceTypes = slices.Clone(old.InstanceTypes)
	for i := range next.InstanceTypes {
		t := &next.InstanceTypes[i]
		t.Offerings = slices.Clone(t.Offerings)
		for k := range t.Offerings {
			o := &t.Offerings[k]
			before := *o
			for _, x := range p.Prices {
				if !x.matches(t.Name, o) {
					continue
				}
				if x.Price != nil {
					o.Price = *x.Price
				}
				if x.Factor != nil {
					o.Price *= *x.Factor
				}
				if x.Unavailable != nil {
					o.Unavailable = *x.Unavailable
				}
			}
			if o.Price != before.Price || o.Unavailable != before.Unavailable {
				changed++
			}
		}
	}
	return &next, changed
}

// place is an offering of a type.
type place struct{ name, zone, capacityType string }

// repriced is a catalogue with the prices and stock-outs that others have for the same offerings.
func repriced(c *dump.Catalog, known map[string]*dump.Catalog) *dump.Catalog {
	seen := map[place]*dump.CatalogOffering{}
	for _, class := range slices.Sorted(maps.Keys(known)) {
		for i := range known[class].InstanceTypes {
			t := &known[class].InstanceTypes[i]
			for k := range t.Offerings {
				if o := &t.Offerings[k]; o.Reservation == "" {
					seen[place{t.Name, o.Zone, o.CapacityType}] = o
				}
			}
		}
	}
	for i := range c.InstanceTypes {
		t := &c.InstanceTypes[i]
		for k := range t.Offerings {
			o := &t.Offerings[k]
			if s := seen[place{t.Name, o.Zone, o.CapacityType}]; s != nil && o.Reservation == "" {
				o.Price, o.Unavailable = s.Price, o.Unavailable || s.Unavailable
			}
		}
	}
	return c
}
