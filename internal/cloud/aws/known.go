package aws

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Known says how current the provider's knowledge of prices and stock is.
type Known struct {
	PriceState
	// Outages are the pools that EC2 had nothing in, by type, zone and capacity type.
	Outages []Outage
}

// Outage is a type in a zone that is left alone until a time, because EC2 had none of it.
type Outage struct {
	Type, Zone, CapacityType string
	Until                    time.Time
}

// Known returns what is known of prices and shortages now.
func (p *Provider) Known() Known {
	k := Known{PriceState: p.PriceState()}
	now := p.stock.clock.Now()
	p.stock.mu.Lock()
	for at, o := range p.stock.pools {
		if now.Before(o.until) {
			k.Outages = append(k.Outages, Outage{Type: at.typ, Zone: at.zone, CapacityType: at.market, Until: o.until})
		}
	}
	p.stock.mu.Unlock()
	slices.SortFunc(k.Outages, func(a, b Outage) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType), a.Until.Compare(b.Until))
	})
	return k
}
