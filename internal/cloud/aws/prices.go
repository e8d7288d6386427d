package aws

import (
	"maps"
	"strings"
	"sync/atomic"
	"time"
)

// priceTable is what was known of prices at one moment, in dollars an hour. It never changes.
type priceTable struct {
	onDemand map[string]float64
	// spot is by type and zone; nil until a first answer, during which spot counts as dear as on-demand.
	spot map[string]map[string]float64

	onDemandAt, spotAt time.Time
	// embedded says that on-demand prices still come from the table in the binary, foreign that this table is another region's.
	embedded, foreign bool
	// estimated counts on-demand prices that are guesses.
	estimated int
}

// prices holds the table that is current; until somebody asks, none.
type prices struct {
	region string
	now    atomic.Pointer[priceTable]
}

func newPrices(region string) *prices { return &prices{region: region} }

// table is the current table, which begins as the one in the binary.
func (p *prices) table() *priceTable {
	if t := p.now.Load(); t != nil {
		return t
	}
	e := embeddedPrices(p.region)
	p.now.CompareAndSwap(nil, &priceTable{onDemand: e.list, onDemandAt: e.at, embedded: true, foreign: e.foreign, estimated: e.estimated})
	return p.now.Load()
}

// update swaps in a table that differs from the current one; change gets a copy of which it may replace fields.
func (p *prices) update(change func(*priceTable)) {
	for {
		old := p.table()
		next := *old
		change(&next)
		if p.now.CompareAndSwap(old, &next) {
			return
		}
	}
}

// setOnDemand takes over list prices. Types that the list does not have keep their price.
func (p *prices) setOnDemand(list map[string]float64, at time.Time) {
	p.update(func(t *priceTable) {
		merged := maps.Clone(t.onDemand)
		if t.foreign {
			merged = map[string]float64{}
		}
		maps.Copy(merged, list)
		t.onDemand, t.onDemandAt, t.embedded, t.foreign, t.estimated = merged, at, false, false, 0
	})
}

// setSpot takes over spot prices; a pool that is not listed is no longer sold.
func (p *prices) setSpot(list map[string]map[string]float64, at time.Time) {
	p.update(func(t *priceTable) { t.spot, t.spotAt = list, at })
}

// onDemandPrice is the list price of a type.
func (t *priceTable) onDemandPrice(name string) (float64, bool) {
	price, ok := t.onDemand[name]
	return price, ok
}

// spotPrice is the price of a pool.
func (t *priceTable) spotPrice(name, zone string) (float64, bool) {
	if t.spot == nil {
		return t.onDemandPrice(name)
	}
	price, ok := t.spot[name][zone]
	return price, ok
}

// PriceState says how old prices are and where they come from.
type PriceState struct {
	// OnDemandAt is the day of the price list in use, SpotAt when spot prices were asked for last; zero where that is unknown
	// or has never happened.
	OnDemandAt, SpotAt time.Time
	// Embedded means that on-demand prices are those in the binary; Foreign that they are another region's.
	Embedded, Foreign bool
	// Estimated is how many of them are guesses, because the types are newer than the list.
	Estimated int
	// Currency is that of the region's own prices; those of another region are in dollars.
	Currency string
}

// OnDemandName says what on-demand prices are, for people: where they come from if not from the region's own list, and in what
// currency if not in dollars.
func (s PriceState) OnDemandName() string {
	switch {
	case s.Foreign:
		return "on-demand, price unknown: estimate from " + FallbackRegion
	case s.Embedded:
		return "on-demand, built in"
	case s.Currency != dollars:
		return "on-demand, in " + s.Currency
	}
	return "on-demand"
}

// dollars is the currency of all regions but China's.
const dollars = "USD"

// currencyOf is what AWS counts in, in a region.
func currencyOf(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "CNY"
	}
	return dollars
}

// PriceState returns the age and source of the prices in use.
func (p *Provider) PriceState() PriceState {
	t := p.prices.table()
	return PriceState{OnDemandAt: t.onDemandAt, SpotAt: t.spotAt, Embedded: t.embedded, Foreign: t.foreign, Estimated: t.estimated, Currency: currencyOf(p.opt.Region)}
}

// pricingRegion is the region whose Pricing endpoint answers for a region.
func pricingRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "ap-"):
		return "ap-south-1"
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	case strings.HasPrefix(region, "eu-"):
		return "eu-central-1"
	}
	return "us-east-1"
}
