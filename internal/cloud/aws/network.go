package aws

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "karpenter/api/aws/v1"
)

// networkPage is the page size for subnets and security groups.
const networkPage = 500

// findSubnets finds the subnets that the class selects, most free addresses first, and notes how many they have.
func (p *Provider) findSubnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.Subnet, error) {
	var queries [][]types.Filter
	var ids []string
	for _, term := range class.Spec.SubnetSelectorTerms {
		if term.ID != "" {
			ids = append(ids, term.ID)
			continue
		}
		queries = append(queries, tagFilters(term.Tags))
	}
	if len(ids) > 0 {
		queries = append(queries, []types.Filter{filter("subnet-id", ids...)})
	}
	found := map[string]types.Subnet{}
	for _, q := range queries {
		pages := ec2.NewDescribeSubnetsPaginator(p.opt.Clients.EC2, &ec2.DescribeSubnetsInput{Filters: q, MaxResults: aws.Int32(networkPage)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, readError("list subnets of class "+class.Name, err)
			}
			for _, s := range page.Subnets {
				found[aws.ToString(s.SubnetId)] = s
			}
		}
	}
	list := make([]types.Subnet, 0, len(found))
	free := map[string]int64{}
	for id, s := range found {
		list = append(list, s)
		free[id] = int64(aws.ToInt32(s.AvailableIpAddressCount))
	}
	p.addresses.set(free)
	slices.SortFunc(list, func(a, b types.Subnet) int {
		return cmp.Or(cmp.Compare(aws.ToInt32(b.AvailableIpAddressCount), aws.ToInt32(a.AvailableIpAddressCount)), strings.Compare(*a.SubnetId, *b.SubnetId))
	})
	out := make([]awsv1.Subnet, len(list))
	for i, s := range list {
		out[i] = awsv1.Subnet{ID: aws.ToString(s.SubnetId), Zone: aws.ToString(s.AvailabilityZone), ZoneID: aws.ToString(s.AvailabilityZoneId)}
	}
	return out, nil
}

// findGroups finds the security groups that the class selects, by id.
func (p *Provider) findGroups(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.SecurityGroup, error) {
	var queries [][]types.Filter
	var ids, names []string
	for _, term := range class.Spec.SecurityGroupSelectorTerms {
		switch {
		case term.ID != "":
			ids = append(ids, term.ID)
		case term.Name != "":
			names = append(names, term.Name)
		default:
			queries = append(queries, tagFilters(term.Tags))
		}
	}
	if len(ids) > 0 {
		queries = append(queries, []types.Filter{filter("group-id", ids...)})
	}
	if len(names) > 0 {
		queries = append(queries, []types.Filter{filter("group-name", names...)})
	}
	var out []awsv1.SecurityGroup
	for _, q := range queries {
		pages := ec2.NewDescribeSecurityGroupsPaginator(p.opt.Clients.EC2, &ec2.DescribeSecurityGroupsInput{Filters: q, MaxResults: aws.Int32(networkPage)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, readError("list security groups of class "+class.Name, err)
			}
			for _, g := range page.SecurityGroups {
				out = append(out, awsv1.SecurityGroup{ID: aws.ToString(g.GroupId), Name: aws.ToString(g.GroupName)})
			}
		}
	}
	slices.SortFunc(out, func(a, b awsv1.SecurityGroup) int { return strings.Compare(a.ID, b.ID) })
	return slices.Compact(out), nil
}

// addresses guesses how many addresses subnets have left: what EC2 said last, less what launches since then will take.
type addresses struct {
	mu   sync.Mutex
	free map[string]int64
}

func newAddresses() *addresses { return &addresses{free: map[string]int64{}} }

// set takes over what EC2 says.
func (a *addresses) set(free map[string]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, n := range free {
		a.free[id] = n
	}
}

// choose takes n addresses from the subnet with the most left in each zone and returns the subnet by zone. Zones whose subnets
// are all known to be full are left out.
func (a *addresses) choose(subnets []awsv1.Subnet, n int64) map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	best := map[string]string{}
	left := func(id string) int64 {
		if n, known := a.free[id]; known {
			return n
		}
		return 1 // nothing is known of it, so it is tried last
	}
	for _, s := range subnets {
		if chosen, ok := best[s.Zone]; left(s.ID) > 0 && (!ok || left(s.ID) > left(chosen)) {
			best[s.Zone] = s.ID
		}
	}
	for _, id := range best {
		if _, known := a.free[id]; known {
			a.free[id] = max(a.free[id]-n, 1)
		}
	}
	return best
}

// giveBack returns addresses that a launch did not use.
func (a *addresses) giveBack(id string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.free[id]; known && a.free[id] > 0 {
		a.free[id] += n
	}
}

// exhaust notes that EC2 called a subnet full.
func (a *addresses) exhaust(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free[id] = 0
}
