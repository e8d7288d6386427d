package simaws

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"karpenter/internal/cloud/simaws/catalog"
)

// region is everything an account has in one region.
type region struct {
	Name         string
	VPCs         *table[vpc]
	Subnets      *table[subnet]
	Groups       *table[securityGroup]
	Images       *table[image]
	Templates    *table[launchTemplate]
	Instances    *table[instance]
	Volumes      *table[volume]
	SpotRequests *table[spotRequest]
	Reservations *table[reservation]
	Placements   *table[placementGroup]
	Fleets       *table[fleet]
	Queues       *table[queue]
	Rules        *table[rule]
	Stacks       *table[stack]
	Clusters     *table[cluster]
	Experiments  *table[experiment]
	Shifts       *table[zonalShift]
	// ScalingGroups are Auto Scaling groups by name.
	ScalingGroups *table[autoScalingGroup]
	// LaunchConfigs are launch configurations by name.
	LaunchConfigs *table[launchConfiguration]
	// Parameters are SSM parameters by path.
	Parameters map[string]*parameter
	// InUse counts vCPUs by capacity type, for quotas.
	InUse map[string]int
	// Tokens are the answers given to client tokens.
	Tokens *table[remembered]

	offers *catalog.Region
}

type vpc struct {
	ID, CIDR, IPv6CIDR string
	Default            bool
	Tags               tagSet
}

type subnet struct {
	ID, VPC, Zone, ZoneID, CIDR, IPv6CIDR string
	// Used counts taken addresses, Next is the offset of the next one to give
	// out. Addresses are not given out twice, which no caller can tell.
	Used, Next   int
	MapPublicIP  bool
	ResourceName bool
	Tags         tagSet
}

// reservedAddresses is what AWS keeps of every subnet.
const reservedAddresses = 5

func (s *subnet) size() int {
	p, err := netip.ParsePrefix(s.CIDR)
	if err != nil {
		return 0
	}
	return 1<<(32-p.Bits()) - reservedAddresses
}

func (s *subnet) free() int { return max(0, s.size()-s.Used) }

// address gives out the next address.
func (s *subnet) address() string {
	p := netip.MustParsePrefix(s.CIDR)
	s.Used++
	s.Next++
	a := p.Addr().As4()
	n := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
	n += uint32(4 + (s.Next-1)%max(1, s.size()))
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}).String()
}

type securityGroup struct {
	ID, Name, Description, VPC string
	Tags                       tagSet
}

// remembered is what a client token was used for.
type remembered struct {
	// Hash is of the parameters, Answer the body that was given.
	Hash   string
	Answer string
	At     time.Time
}

// region returns the account's part of a region, making it on first use.
func (s *Sim) region(a *account, name string) (*region, error) {
	if r := a.Regions[name]; r != nil {
		return r, nil
	}
	offers, err := s.cat.Region(name)
	if err != nil {
		return nil, fail("InvalidClientTokenId", "The simulator has no region %q.", name).withStatus(http.StatusForbidden)
	}
	r := &region{
		Name: name, offers: offers,
		VPCs: newTable[vpc](), Subnets: newTable[subnet](), Groups: newTable[securityGroup](),
		Images: newTable[image](), Templates: newTable[launchTemplate](), Instances: newTable[instance](),
		Volumes: newTable[volume](), SpotRequests: newTable[spotRequest](), Reservations: newTable[reservation](),
		Placements: newTable[placementGroup](), Fleets: newTable[fleet](), Queues: newTable[queue](), Rules: newTable[rule](),
		Stacks: newTable[stack](), Clusters: newTable[cluster](), Experiments: newTable[experiment](), Shifts: newTable[zonalShift](),
		ScalingGroups: newTable[autoScalingGroup](), LaunchConfigs: newTable[launchConfiguration](),
		Parameters: map[string]*parameter{}, InUse: map[string]int{}, Tokens: newTable[remembered](),
	}
	a.Regions[name] = r
	p := place{s, a, r}
	p.seedNetwork()
	p.seedImages()
	for _, c := range s.opt.Clusters {
		p.addCluster(c)
	}
	if s.opt.Queue != "" {
		p.addInterruptionQueue(s.opt.Queue)
	}
	return r, nil
}

// Ids of the network that exists from the start. They are short on purpose: a
// reader can type them, and getting-started texts use them.
const (
	seedVPC   = "vpc-0abc123"
	seedGroup = "sg-0abc123"
)

var seedSubnets = []string{"subnet-0abc123", "subnet-0def456", "subnet-0789abc"}

// seedNetwork makes a VPC with a private subnet in each of three zones, a
// group for nodes and the default group. With a cluster, they carry its
// discovery tag.
func (p place) seedNetwork() {
	var tags tagSet
	if len(p.opt.Clusters) > 0 {
		name := p.opt.Clusters[0].Name
		tags = tags.with(Tag{"karpenter.sh/discovery", name}, Tag{"kubernetes.io/cluster/" + name, "owned"})
	}
	p.reg.VPCs.put(seedVPC, &vpc{ID: seedVPC, CIDR: "192.168.0.0/16", IPv6CIDR: "2600:1f14:abc:1200::/56", Default: true, Tags: tags})
	for i, id := range seedSubnets {
		if i >= len(p.reg.offers.Zones) {
			break
		}
		z := p.reg.offers.Zones[i]
		p.reg.Subnets.put(id, &subnet{
			ID: id, VPC: seedVPC, Zone: z.Name, ZoneID: z.ID,
			CIDR: fmt.Sprintf("192.168.%d.0/18", i*64), IPv6CIDR: fmt.Sprintf("2600:1f14:abc:12%02x::/64", i),
			Tags: tags.with(Tag{"Name", "private-" + z.Name}),
		})
	}
	p.reg.Groups.put(seedGroup, &securityGroup{ID: seedGroup, Name: "nodes", Description: "Nodes of the cluster", VPC: seedVPC, Tags: tags})
	p.reg.Groups.put("sg-0def000", &securityGroup{ID: "sg-0def000", Name: "default", Description: "default VPC security group", VPC: seedVPC})
}

// zoneID is the id of a zone by name.
func (r *region) zoneID(name string) string {
	for _, z := range r.offers.Zones {
		if z.Name == name {
			return z.ID
		}
	}
	return ""
}

// zoneName is the name of a zone by id; an unknown id stays as it is, and no
// subnet is in it.
func (r *region) zoneName(id string) string {
	for _, z := range r.offers.Zones {
		if z.ID == id {
			return z.Name
		}
	}
	return id
}

// arn makes an ARN in the place's account and region.
func (p place) arn(service, resource string) string {
	return "arn:aws:" + service + ":" + p.reg.Name + ":" + p.acct.ID + ":" + resource
}
