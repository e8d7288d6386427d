package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"karpenter/internal/engine/world"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// pricesDocument is what pools could launch. Lists are the price lists in use, StockOuts what the cloud has refused of late.
type pricesDocument struct {
	model.Type
	At        time.Time     `json:"at"`
	Lists     []PriceList   `json:"lists,omitempty"`
	StockOuts []StockOut    `json:"stockOuts,omitempty"`
	Types     []*priceModel `json:"instanceTypes"`
}

// priceModel is what a type costs where.
type priceModel struct {
	Type   string       `json:"instanceType"`
	CPU    int64        `json:"cpuMillicores"`
	Memory int64        `json:"memoryBytes"`
	Nodes  int          `json:"nodes"`
	Offers []offerModel `json:"offers"`
}

type offerModel struct {
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"pricePerHour"`
	// Overlay is the NodeOverlay that the price is from, and ListPrice what the cloud says.
	Overlay    string  `json:"priceOverlay,omitempty"`
	ListPrice  float64 `json:"listPricePerHour,omitempty"`
	OutOfStock bool    `json:"outOfStock,omitempty"`
}

// offerKey tells offers apart: pools for which overlays make the same price of one share it.
type offerKey struct {
	model       *priceModel
	reservation string
	labels      string
	price       float64
	overlay     string
	zone, kind  string
}

// prices answers with what pools could launch, at which price, and what is out of stock.
func (s *Server) prices(w http.ResponseWriter, r *http.Request) {
	about, list := s.src.About(), []*priceModel{}
	if v := s.src.View(); v != nil {
		list = modelPrices(v)
	}
	answer(w, r, &pricesDocument{model.TypeOf(model.KindPriceList), s.src.Now().UTC(), about.Prices, about.StockOuts, list})
}

func modelPrices(v *state.View) []*priceModel {
	running := map[string]int{}
	for _, n := range v.World.Nodes {
		if name, ok := n.Labels.Get(world.LabelInstanceType); ok {
			running[name]++
		}
	}
	at, list := map[string]*priceModel{}, []*priceModel{}
	seen := map[offerKey]bool{}
	for _, p := range v.World.Pools {
		for _, t := range launchable(p) {
			m := at[t.Type.Name]
			if m == nil {
				m = modelPrice(t.Type)
				m.Nodes = running[m.Type]
				at[m.Type] = m
				list = append(list, m)
			}
			for _, o := range t.Offerings {
				key := offerKey{m, o.Reservation, fmt.Sprint(o.Labels), o.Price, o.PricedBy, o.Zone, o.CapacityType}
				if !seen[key] {
					seen[key] = true
					m.Offers = append(m.Offers, offerModel{
						Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Overlay: o.PricedBy, ListPrice: o.ListPrice, OutOfStock: !o.Launchable(),
					})
				}
			}
		}
	}
	slices.SortFunc(list, func(x, y *priceModel) int { return strings.Compare(x.Type, y.Type) })
	return list
}

func modelPrice(t *world.InstanceType) *priceModel {
	room := t.Capacity
	if room == nil {
		room = t.Allocatable
	}
	return &priceModel{Type: t.Name, CPU: room.Get(world.CPU), Memory: room.Get(world.Memory), Offers: []offerModel{}}
}

// launches is a type with those of its offerings that a pool may use.
type launches struct {
	Type      *world.InstanceType
	Offerings []*world.Offering
}

// launchable lists what a pool may launch, by the names of types; out of stock or not.
func launchable(p *world.Pool) []launches {
	var out []launches
	offers, _ := p.Offers()
	for _, o := range offers {
		if last := len(out) - 1; last < 0 || out[last].Type != o.Type {
			out = append(out, launches{Type: o.Type})
		}
		last := &out[len(out)-1]
		last.Offerings = append(last.Offerings, o.Offering)
	}
	return out
}
