package simaws

import (
	"time"

	"karpenter/internal/cloud/simaws/catalog"
)

// StockRule says how much of matching capacity pools there is. A pool is a
// type in a zone for a capacity type (on-demand or spot); each field is a pattern with
// * and ?. The newest rule that matches a pool governs it; pools without a rule
// never run dry.
type StockRule struct {
	Type         string `json:"type"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	// Count is how many instances each matching pool can still give.
	Count int `json:"count"`
	// Refill, if set, is how long after running dry a pool is full again.
	Refill Duration `json:"refill,omitempty"`
	// Code and Message replace InsufficientInstanceCapacity.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// pool is what is left of a type in a zone for a capacity type.
type pool struct {
	Left  int
	DryAt time.Time
}

// storm raises spot prices and reclaims in a zone until it ends.
type storm struct {
	Region, Zone string
	Factor       float64
	Until        time.Time
}

func poolKey(region, typ, zone, capacityType string) string {
	return region + "/" + typ + "/" + zone + "/" + capacityType
}

// ruleFor is the newest rule that matches a pool.
func (s *Sim) ruleFor(typ, zone, capacityType string) *StockRule {
	for i := len(s.st.Stock) - 1; i >= 0; i-- {
		r := s.st.Stock[i]
		if wildcard(orDefault(r.Type, "*"), typ) && wildcard(orDefault(r.Zone, "*"), zone) && wildcard(orDefault(r.CapacityType, "*"), capacityType) {
			return r
		}
	}
	return nil
}

// left says how many instances a pool can still give; negative is no limit.
func (p place) left(typ, zone, capacityType string, now time.Time) int {
	r := p.ruleFor(typ, zone, capacityType)
	if r == nil {
		return -1
	}
	q := p.st.Pools[poolKey(p.reg.Name, typ, zone, capacityType)]
	if q == nil || q.Left == 0 && r.Refill > 0 && now.Sub(q.DryAt) >= time.Duration(r.Refill) && !q.DryAt.IsZero() {
		return r.Count
	}
	return q.Left
}

// takeStock takes one instance out of the target's pool.
func (c *call) takeStock(t *target) *apiError {
	typ, zone := t.typ.Name, t.subnet.Zone
	r := c.ruleFor(typ, zone, t.capacityType)
	if r == nil {
		return nil
	}
	have := c.left(typ, zone, t.capacityType, c.at)
	if have <= 0 {
		return r.dry(t)
	}
	key := poolKey(c.reg.Name, typ, zone, t.capacityType)
	q := c.st.Pools[key]
	if q == nil {
		q = &pool{}
		c.st.Pools[key] = q
	}
	q.Left = have - 1
	q.DryAt = time.Time{}
	if q.Left == 0 {
		q.DryAt = c.at
	}
	return nil
}

// dry is the error of an empty pool.
func (r *StockRule) dry(t *target) *apiError {
	if r.Code != "" {
		return fail(r.Code, "%s", orDefault(r.Message, "The request failed by order of the simulator's stock rule."))
	}
	if t.capacityType == "spot" {
		return fail("InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request.")
	}
	return fail("InsufficientInstanceCapacity", "We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). Our system will be working on provisioning additional capacity.", t.typ.Name, t.subnet.Zone)
}

// restock gives an instance's place back to its pool.
func (p place) restock(in *instance) {
	if in.CapacityReservation != "" {
		return
	}
	key := poolKey(p.reg.Name, in.Type, in.Zone, in.capacityType())
	// What was refilled meanwhile does not hold more than it did at first.
	if q, r := p.st.Pools[key], p.ruleFor(in.Type, in.Zone, in.capacityType()); q != nil && r != nil {
		q.Left = min(q.Left+1, r.Count)
		q.DryAt = time.Time{}
	}
}

// spotPriceAt is the price of a pool at a time: the catalogue's figure, moved
// by a slow wave and a step that depend only on the seed, and never above
// on-demand unless a storm says so.
func (p place) spotPriceAt(o catalog.Offer, zone string, at time.Time) float64 {
	if o.Spot == 0 {
		return 0
	}
	step := at.UnixNano() / int64(p.opt.Timing.SpotStep)
	who := hash64(p.opt.Seed, hashString(o.Type), hashString(zone))
	base := 1 + 0.15*(unit(who)-0.5)
	wobble := 0.2 * (unit(hash64(who, uint64(step))) + unit(hash64(who, uint64(step-1))) - 1)
	if p.opt.SteadySpot {
		wobble = 0
	}
	price := min(o.Spot*(base+wobble), o.OnDemand)
	for _, s := range p.st.Storm {
		if s.Region == p.reg.Name && wildcard(s.Zone, zone) && at.Before(s.Until) {
			price *= s.Factor
		}
	}
	return max(price, 0.0001)
}

// priceOf is what an instance costs an hour now.
func (p place) priceOf(in *instance) float64 {
	offer, _ := p.reg.offers.Offer(in.Type)
	if in.Lifecycle == "spot" {
		return p.spotPriceAt(offer, in.Zone, p.now())
	}
	return offer.OnDemand
}

// unit turns a hash into a number from 0 to 1.
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// depth is how much spot capacity a pool seems to have, from 0 to 1; the
// capacity-minded strategies look at it.
func (p place) depth(typ, zone string, at time.Time) float64 {
	n := p.left(typ, zone, "spot", at)
	if n == 0 {
		return 0
	}
	hour := at.UnixNano() / int64(6*time.Hour)
	d := 0.2 + 0.8*unit(hash64(p.opt.Seed, hashString(typ), hashString(zone), uint64(hour)))
	if p.opt.SteadySpot {
		d = 1
	}
	for _, s := range p.st.Storm {
		if s.Region == p.reg.Name && wildcard(s.Zone, zone) && at.Before(s.Until) {
			d *= 0.1
		}
	}
	if n > 0 {
		d *= min(1, float64(n)/10)
	}
	return d
}
