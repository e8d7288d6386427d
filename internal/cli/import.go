package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"karpenter/internal/cloud/aws/awsplug"
)

// Where node groups are read from.
const (
	fromAWS        = "aws"
	fromAutoscaler = "cluster-autoscaler"
)

// importing is a run of the import command.
type importing struct {
	cluster, from     string
	snapshot, catalog string
	plan              bool
	// groups asks AWS for the node groups of a cluster.
	groups func(ctx context.Context, cluster string) ([]awsplug.NodeGroup, error)
}

// NewImport returns the command that proposes pools for node groups. version is the program's.
func NewImport(version string) *cobra.Command {
	return newImport(func(ctx context.Context, cluster string) ([]awsplug.NodeGroup, error) {
		return awsplug.ReadNodeGroups(ctx, cluster, version)
	})
}

func newImport(groups func(context.Context, string) ([]awsplug.NodeGroup, error)) *cobra.Command {
	m := &importing{groups: groups}
	cmd := &cobra.Command{
		Use:   "import --cluster-name NAME [--from aws|cluster-autoscaler] [--snapshot FILE|-]",
		Short: "Propose NodePools and EC2NodeClasses for the node groups that a cluster has",
		Long: `Propose NodePools and EC2NodeClasses for the node groups that a cluster has, as YAML with comments that say where each comes
from and what could not be carried over. Nothing is changed.

From aws, it reads EKS managed node groups and Auto Scaling groups with the credentials of the AWS SDK's environment; it needs
eks:DescribeCluster, eks:ListNodegroups, eks:DescribeNodegroup, autoscaling:DescribeAutoScalingGroups,
autoscaling:DescribeLaunchConfigurations, ec2:DescribeLaunchTemplateVersions, ec2:DescribeImages and
ec2:DescribeInstanceTypes. From cluster-autoscaler, it reads only the snapshot: the flags of Cluster Autoscaler's Deployment,
and the nodes of its groups.

With a snapshot, it also warns while Cluster Autoscaler acts on the same nodes, and takes over its scale-down settings. Groups
that differ only in size and subnets, such as one per zone, become one pool.`,
		Example: `  karpenter import --cluster-name my-cluster > pools.yaml
  kubectl get deployments,nodes,pods,daemonsets,pv,pvc,sc,csinodes,ns,pdb -A -o json > cluster.json
  karpenter import --cluster-name my-cluster --snapshot cluster.json --plan
  karpenter import --cluster-name my-cluster --snapshot cluster.json --from cluster-autoscaler`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&m.cluster, "cluster-name", "", "name of the EKS cluster; required")
	f.StringVar(&m.from, "from", fromAWS, "what to read node groups from: aws, or cluster-autoscaler for its flags in the snapshot")
	f.StringVar(&m.snapshot, "snapshot", "", "cluster snapshot: a Kubernetes List in JSON with deployments, nodes and pods, or - for standard input")
	f.BoolVar(&m.plan, "plan", false, "show what the groups' nodes cost, and what the pools' nodes for the same pods would; needs --snapshot")
	f.StringVar(&m.catalog, "catalog", "", "with --plan: instance types, offerings and prices in JSON, instead of the built-in ones")
	return cmd
}

func (m *importing) check() error {
	switch {
	case m.cluster == "":
		return errors.New("--cluster-name is missing; give the name of the EKS cluster")
	case m.from != fromAWS && m.from != fromAutoscaler:
		return fmt.Errorf("--from is %q; give %s or %s", m.from, fromAWS, fromAutoscaler)
	case m.snapshot == "" && m.from == fromAutoscaler:
		return errors.New("--from cluster-autoscaler reads the snapshot; give --snapshot FILE, or - for standard input")
	case m.snapshot == "" && m.plan:
		return errors.New("--plan needs to know nodes and pods; give --snapshot FILE, or - for standard input")
	case m.catalog != "" && !m.plan:
		return errors.New("--catalog is about --plan; give both")
	}
	return nil
}

func (m *importing) run(cmd *cobra.Command) error {
	if err := m.check(); err != nil {
		return err
	}
	snapshot, err := m.read(cmd.InOrStdin())
	if err != nil {
		return err
	}
	var groups []awsplug.NodeGroup
	if m.from == fromAWS {
		groups, err = m.groups(cmd.Context(), m.cluster)
	} else {
		groups, err = snapshot.nodeGroups(m.cluster)
	}
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		return fmt.Errorf("cluster %s has no node group to import: no EKS managed one, and no Auto Scaling group with the tag kubernetes.io/cluster/%s or k8s.io/cluster-autoscaler/%s", m.cluster, m.cluster, m.cluster)
	}
	proposals := propose(groups, snapshot)
	for _, warning := range snapshot.warnings(groups) {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
	}
	var cost *comparison
	if m.plan {
		if cost, err = m.compare(cmd.Context(), snapshot, proposals); err != nil {
			return err
		}
	}
	return printProposals(cmd.OutOrStdout(), proposals, snapshot.lost(), cost)
}

// read reads the snapshot; without one there is an empty one.
func (m *importing) read(stdin io.Reader) (*clusterFacts, error) {
	if m.snapshot == "" {
		return &clusterFacts{}, nil
	}
	data, err := readInput(m.snapshot, stdin)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return readClusterFacts(data)
}
