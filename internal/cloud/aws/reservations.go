package aws

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud"
)

const (
	reservationsPage = 1000
	// blockNotice is how long before the end of a capacity block its nodes are replaced: EC2 begins to take instances back half an
	// hour before, and ten minutes more are for draining. Those of UltraServers go a whole hour before.
	blockNotice       = 40 * time.Minute
	ultraServerNotice = 70 * time.Minute
)

// ultraServers are the families of instances that are sold in UltraServers only.
var ultraServers = []string{"p6e-gb200", "p6e-gb300", "trn2u"}

// noticeFor is how long before its end a block of instances of the type counts as ending.
func noticeFor(instanceType string) time.Duration {
	family, _, _ := strings.Cut(instanceType, ".")
	if slices.Contains(ultraServers, family) {
		return ultraServerNotice
	}
	return blockNotice
}

// findReservations finds the capacity reservations that the class selects, by id, and notes what they have left.
func (p *Provider) findReservations(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.CapacityReservation, error) {
	found := map[string]types.CapacityReservation{}
	for _, term := range class.Spec.CapacityReservationSelectorTerms {
		if err := p.describeReservations(ctx, term, found); err != nil {
			return nil, err
		}
	}
	now := p.opt.Clock.Now()
	left := map[string]int{}
	var out []awsv1.CapacityReservation
	for id, r := range found {
		if r.State != types.CapacityReservationStateActive || r.EndDate != nil && !now.Before(*r.EndDate) {
			continue
		}
		left[id] = int(aws.ToInt32(r.AvailableInstanceCount))
		out = append(out, toReservation(r, now))
	}
	p.stock.SetReserved(left)
	slices.SortFunc(out, func(a, b awsv1.CapacityReservation) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

func (p *Provider) describeReservations(ctx context.Context, term awsv1.CapacityReservationSelectorTerm, found map[string]types.CapacityReservation) error {
	in := &ec2.DescribeCapacityReservationsInput{}
	if term.ID != "" {
		in.CapacityReservationIds = []string{term.ID}
	} else {
		in.MaxResults = aws.Int32(reservationsPage)
		in.Filters = append(tagFilters(term.Tags), filter("state", "active"))
		if term.OwnerID != "" {
			in.Filters = append(in.Filters, filter("owner-id", term.OwnerID))
		}
		if term.InstanceMatchCriteria != "" {
			in.Filters = append(in.Filters, filter("instance-match-criteria", term.InstanceMatchCriteria))
		}
	}
	pages := ec2.NewDescribeCapacityReservationsPaginator(p.opt.Clients.EC2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err = readError("list capacity reservations", err); cloud.ClassOf(err) == cloud.NotFound {
			return nil // a reservation that is gone selects nothing
		} else if err != nil {
			return err
		}
		for _, r := range page.CapacityReservations {
			found[aws.ToString(r.CapacityReservationId)] = r
		}
	}
	return nil
}

func toReservation(r types.CapacityReservation, now time.Time) awsv1.CapacityReservation {
	out := awsv1.CapacityReservation{
		ID: aws.ToString(r.CapacityReservationId), AvailabilityZone: aws.ToString(r.AvailabilityZone), InstanceType: aws.ToString(r.InstanceType),
		OwnerID: aws.ToString(r.OwnerId), InstanceMatchCriteria: string(r.InstanceMatchCriteria), Interruptible: aws.ToBool(r.Interruptible),
		ReservationType: awsv1.CapacityReservationTypeDefault, State: awsv1.CapacityReservationStateActive,
	}
	if r.EndDate != nil {
		end := metav1.NewTime(*r.EndDate)
		out.EndTime = &end
	}
	if r.ReservationType == types.CapacityReservationTypeCapacityBlock {
		out.ReservationType = awsv1.CapacityReservationTypeCapacityBlock
		if r.EndDate != nil && !now.Before(r.EndDate.Add(-noticeFor(out.InstanceType))) {
			out.State = awsv1.CapacityReservationStateExpiring
		}
	}
	return out
}

// placement is a placement group that a class names.
type placement struct {
	id, strategy string
	count        int
}

// partitions lists the group's partitions by number, or one empty name where it has none.
func (g *placement) partitions() []string {
	if g.count == 0 {
		return []string{""}
	}
	out := make([]string, g.count)
	for i := range out {
		out[i] = strconv.Itoa(i + 1)
	}
	return out
}

// findPlacement finds the placement group that the class names; nil if it names none.
func (p *Provider) findPlacement(ctx context.Context, class *awsv1.EC2NodeClass) (*placement, error) {
	selector := class.Spec.PlacementGroupSelector
	if selector == nil {
		return nil, nil
	}
	in := &ec2.DescribePlacementGroupsInput{Filters: []types.Filter{filter("state", "available")}}
	if selector.ID != nil {
		in.GroupIds = []string{*selector.ID}
	} else {
		in.GroupNames = []string{aws.ToString(selector.Name)}
	}
	missing := &cloud.Error{Class: cloud.NotFound, Op: "find placement group of class " + class.Name, Reason: awsv1.ReasonPlacementGroupNotFound}
	out, err := p.opt.Clients.EC2.DescribePlacementGroups(ctx, in)
	if err = readError(missing.Op, err); err != nil {
		return nil, err
	}
	if len(out.PlacementGroups) == 0 {
		return nil, missing
	}
	g := out.PlacementGroups[0]
	return &placement{id: aws.ToString(g.GroupId), strategy: string(g.Strategy), count: int(aws.ToInt32(g.PartitionCount))}, nil
}
