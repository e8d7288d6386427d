package class

import (
	"context"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control/claim"
)

// Partitioner knows where EC2 has put an instance.
type Partitioner interface {
	// Partition returns the number of the partition, empty while it is not known, and whether there is one to wait for.
	Partition(ctx context.Context, claim *karpv1.NodeClaim) (number string, wanted bool, err error)
}

// Partitions is the registration hook that puts the partition of a placement group on nodes for which EC2 chose it (L9): pods
// that spread over partitions must not come before it is known.
type Partitions struct{ Partitioner Partitioner }

// Name implements claim.Hook.
func (Partitions) Name() string { return "placement-group-partition" }

// Registered implements claim.Hook.
func (p Partitions) Registered(ctx context.Context, c *karpv1.NodeClaim) (claim.HookAnswer, error) {
	number, wanted, err := p.Partitioner.Partition(ctx, c)
	switch {
	case err != nil || !wanted:
		return claim.HookAnswer{}, err
	case number == "":
		return claim.HookAnswer{Pending: true}, nil
	}
	return claim.HookAnswer{Labels: map[string]string{awsv1.LabelPlacementGroupPartition: number}}, nil
}
