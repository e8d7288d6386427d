package aws

import "karpenter/cloud/kit"

// Known says how current the provider's knowledge of prices and stock is.
type Known struct {
	PriceState
	// Outages are the pools that EC2 had nothing in, by type, zone and capacity type.
	Outages []kit.Outage
}

// Known returns what is known of prices and shortages now.
func (p *Provider) Known() Known {
	return Known{PriceState: p.PriceState(), Outages: p.stock.Outages()}
}
