package awsplug

import (
	"context"

	"karpenter/internal/cloud/aws"
)

// NodeGroup is a group of like instances whose number somebody else sets.
type NodeGroup = aws.NodeGroup

// ReadNodeGroups reads the node groups of an EKS cluster with the credentials of the SDK's environment. version is the
// program's.
func ReadNodeGroups(ctx context.Context, cluster, version string) ([]NodeGroup, error) {
	cfg, err := readAWS(ctx, version)
	if err != nil {
		return nil, err
	}
	return aws.ReadNodeGroups(ctx, cfg, cluster)
}
