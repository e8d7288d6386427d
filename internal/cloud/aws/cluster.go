package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

// FindCluster asks EKS for what nodes need to know of the cluster. What EKS does not know (UID, DNS) is left empty.
func FindCluster(ctx context.Context, clients Clients, name string) (Cluster, error) {
	out, err := clients.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(name)})
	if err != nil {
		return Cluster{}, readError("describe EKS cluster "+name, err)
	}
	found := Cluster{Name: name, ARN: aws.ToString(out.Cluster.Arn), Endpoint: aws.ToString(out.Cluster.Endpoint), Version: aws.ToString(out.Cluster.Version)}
	if ca := out.Cluster.CertificateAuthority; ca != nil {
		found.CABundle = aws.ToString(ca.Data)
	}
	if network := out.Cluster.KubernetesNetworkConfig; network != nil {
		found.ServiceCIDR = aws.ToString(network.ServiceIpv4Cidr)
		if found.ServiceCIDR == "" {
			found.ServiceCIDR = aws.ToString(network.ServiceIpv6Cidr)
		}
	}
	return found, nil
}

// Reach finds out whether EC2 answers and knows the controller, so that a process with wrong credentials or without a route
// says so when it starts.
func (p *Provider) Reach(ctx context.Context) error {
	_, err := p.opt.Clients.EC2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: aws.Bool(true)})
	if codeOf(err) == codeDryRun {
		return nil
	}
	return readError("reach EC2 in "+p.opt.Region, err)
}
