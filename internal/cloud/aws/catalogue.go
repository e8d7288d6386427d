package aws

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"karpenter/cloud"
	"karpenter/internal/cloud/aws/shape"
	"karpenter/internal/engine/world"
)

// Page sizes are the largest that EC2 allows.
const (
	typesPage     = 100
	offeringsPage = 1000
)

// regionTypes is everything that EC2 offers in the region. It never changes.
type regionTypes struct {
	list []*shape.Type // by name
	// zones has, by type name, the zones that offer it.
	zones map[string]map[string]bool
	// labels has, by AMI family, what shape.Labels says of each type in list: classes are looked at every minute, and it never changes.
	labels sync.Map
}

// labelsOf are the labels of nodes of a family, in the order of the list. They are shared and must not be changed.
func (m *regionTypes) labelsOf(family, region string) []world.Labels {
	if known, ok := m.labels.Load(family); ok {
		return known.([]world.Labels)
	}
	out := make([]world.Labels, len(m.list))
	for i, t := range m.list {
		out[i] = shape.Labels(t, family, region)
	}
	m.labels.Store(family, out)
	return out
}

// get returns the instance of that name, or nil.
func (m *regionTypes) get(name string) *shape.Type {
	i, ok := slices.BinarySearchFunc(m.list, name, func(m *shape.Type, name string) int { return cmp.Compare(m.Name, name) })
	if !ok {
		return nil
	}
	return m.list[i]
}

// catalogue holds the types that were downloaded last.
type catalogue struct {
	now atomic.Pointer[regionTypes]
}

// RefreshTypes downloads instance types and the zones that offer them. What was known before stays in use until the
// download is complete, and if it fails.
func (p *Provider) RefreshTypes(ctx context.Context) error {
	list, err := p.downloadTypes(ctx)
	if err != nil {
		return err
	}
	zones, err := p.downloadZones(ctx)
	if err != nil {
		return err
	}
	p.catalogue.now.Store(&regionTypes{list: list, zones: zones})
	return nil
}

func (p *Provider) downloadTypes(ctx context.Context) ([]*shape.Type, error) {
	var list []*shape.Type
	pages := ec2.NewDescribeInstanceTypesPaginator(p.opt.Clients.EC2, &ec2.DescribeInstanceTypesInput{
		MaxResults: aws.Int32(typesPage),
		Filters: []types.Filter{
			{Name: aws.String("supported-virtualization-type"), Values: []string{"hvm"}},
			{Name: aws.String("processor-info.supported-architecture"), Values: []string{"x86_64", "arm64"}},
		},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, readError("list instance types", err)
		}
		for i := range page.InstanceTypes {
			list = append(list, toShape(&page.InstanceTypes[i]))
		}
	}
	if len(list) == 0 {
		return nil, &cloud.Error{Class: cloud.Transient, Op: "list instance types", Reason: "EmptyAnswer"}
	}
	slices.SortFunc(list, func(a, b *shape.Type) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

func (p *Provider) downloadZones(ctx context.Context) (map[string]map[string]bool, error) {
	zones := map[string]map[string]bool{}
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(p.opt.Clients.EC2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone, MaxResults: aws.Int32(offeringsPage),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, readError("list instance type offerings", err)
		}
		for _, o := range page.InstanceTypeOfferings {
			name := string(o.InstanceType)
			if zones[name] == nil {
				zones[name] = map[string]bool{}
			}
			zones[name][aws.ToString(o.Location)] = true
		}
	}
	return zones, nil
}
