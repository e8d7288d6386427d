package aws

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"karpenter/cloud"
)

// Page sizes are the largest that the services allow.
const (
	productsPage  = 100
	spotPricePage = 2000
)

// productKinds are what is sold as an instance: shared ones, and bare metal, which the price list counts as dedicated.
var productKinds = []struct{ tenancy, family string }{
	{"Shared", "Compute Instance"},
	{"Dedicated", "Compute Instance (bare metal)"},
}

// RefreshOnDemand downloads list prices. A region without bare metal, or one that the price list does not know, keeps what is
// known. In an isolated VPC and in GovCloud, where the Pricing API does not answer, it does nothing.
func (p *Provider) RefreshOnDemand(ctx context.Context) error {
	if p.opt.IsolatedVPC || strings.HasPrefix(p.opt.Region, "us-gov-") {
		return nil
	}
	list := map[string]float64{}
	for _, kind := range productKinds {
		if err := p.downloadProducts(ctx, kind.tenancy, kind.family, list); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return &cloud.Error{Class: cloud.Transient, Op: "list on-demand prices of " + p.opt.Region, Reason: "EmptyAnswer"}
	}
	p.prices.setOnDemand(list, p.opt.Clock.Now())
	return nil
}

func (p *Provider) downloadProducts(ctx context.Context, tenancy, family string, list map[string]float64) error {
	filter := func(field, value string) pricingtypes.Filter {
		return pricingtypes.Filter{Type: pricingtypes.FilterTypeTermMatch, Field: aws.String(field), Value: aws.String(value)}
	}
	pages := pricing.NewGetProductsPaginator(p.opt.Clients.Pricing, &pricing.GetProductsInput{
		ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(productsPage),
		Filters: []pricingtypes.Filter{
			filter("regionCode", p.opt.Region), filter("serviceCode", "AmazonEC2"), filter("preInstalledSw", "NA"), filter("operatingSystem", "Linux"),
			filter("capacitystatus", "Used"), filter("marketoption", "OnDemand"), filter("tenancy", tenancy), filter("productFamily", family),
		},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return readError("list on-demand prices of "+p.opt.Region, err)
		}
		for _, text := range page.PriceList {
			if name, price := readProduct(text, p.opt.Region); price > 0 {
				list[name] = price
			}
		}
	}
	return nil
}

// product is the part of a price list entry that is read.
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

// readProduct returns the type and the price of an entry. What cannot be read has the price 0, which means none.
func readProduct(text, region string) (name string, price float64) {
	currency := currencyOf(region)
	var entry product
	if json.Unmarshal([]byte(text), &entry) != nil {
		return "", 0
	}
	for _, term := range entry.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			if p, err := strconv.ParseFloat(dimension.PricePerUnit[currency], 64); err == nil && p > price && !math.IsInf(p, 0) {
				price = p
			}
		}
	}
	return entry.Product.Attributes.InstanceType, price
}

// RefreshSpot downloads the spot prices of now.
func (p *Provider) RefreshSpot(ctx context.Context) error {
	now := p.opt.Clock.Now()
	list := map[string]map[string]float64{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(p.opt.Clients.EC2, &ec2.DescribeSpotPriceHistoryInput{
		StartTime: aws.Time(now), ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}, MaxResults: aws.Int32(spotPricePage),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return readError("list spot prices", err)
		}
		addSpotPrices(list, page.SpotPriceHistory)
	}
	if len(list) == 0 {
		return &cloud.Error{Class: cloud.Transient, Op: "list spot prices", Reason: "EmptyAnswer"}
	}
	p.prices.setSpot(list, now)
	return nil
}

// addSpotPrices takes over a page. EC2 lists the newest price of a pool first.
func addSpotPrices(list map[string]map[string]float64, page []types.SpotPrice) {
	for _, s := range page {
		price, err := strconv.ParseFloat(aws.ToString(s.SpotPrice), 64)
		if err != nil || !(price > 0) || math.IsInf(price, 0) {
			continue
		}
		name, zone := string(s.InstanceType), aws.ToString(s.AvailabilityZone)
		if list[name] == nil {
			list[name] = map[string]float64{}
		}
		if _, known := list[name][zone]; !known {
			list[name][zone] = price
		}
	}
}
