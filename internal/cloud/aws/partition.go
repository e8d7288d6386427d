package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

// Partition finds out which partition of its placement group EC2 has put the instance of a claim in, where the claim did not ask
// for one. It returns the number, which is empty while EC2 does not say yet, and whether there is one to wait for.
func (p *Provider) Partition(ctx context.Context, claim *karpv1.NodeClaim) (number string, wanted bool, err error) {
	group := claim.Labels[awsv1.LabelPlacementGroupID]
	if group == "" || claim.Labels[awsv1.LabelPlacementGroupPartition] != "" {
		return "", false, nil
	}
	count, err := p.partitionsOf(ctx, claim, group)
	if err != nil || count == 0 {
		return "", false, err
	}
	id, err := ParseProviderID(claim.Status.ProviderID)
	if err != nil {
		return "", false, err
	}
	in, err := p.Get(ctx, id)
	if err != nil {
		return "", true, err
	}
	return in.Labels[awsv1.LabelPlacementGroupPartition], true, nil
}

// partitionsOf is how many partitions a group has: as the class's status found it, or else as EC2 says. A group that is gone
// has none.
func (p *Provider) partitionsOf(ctx context.Context, claim *karpv1.NodeClaim, group string) (int, error) {
	if ref := claim.Spec.NodeClassRef; ref != nil {
		if known, ok := p.placements.Load(ref.Name); ok && known.(*placement).id == group {
			return known.(*placement).count, nil
		}
	}
	out, err := p.opt.Clients.EC2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{GroupIds: []string{group}})
	if err = readError("find placement group "+group, err); cloud.ClassOf(err) == cloud.NotFound {
		return 0, nil
	}
	if err != nil || len(out.PlacementGroups) == 0 {
		return 0, err
	}
	return int(aws.ToInt32(out.PlacementGroups[0].PartitionCount)), nil
}
