package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// NodeGroup is a group of like instances whose number somebody else sets: what a pool would replace.
type NodeGroup struct {
	// Name is what its owner calls it; Kind says what it is, in AWS's words; ScalingGroup names the Auto Scaling group.
	Name, Kind, ScalingGroup string
	Min, Max, Now            int32
	// Types and CapacityTypes are what its instances may be; Arch is known if its image says it. Largest is the capacity
	// of its largest type, as far as types are known.
	Types, CapacityTypes []string
	Arch                 string
	// Requirements are what its types are chosen by instead of, or besides, their names.
	Requirements []karpv1.NodeSelectorRequirementWithMinValues
	Largest      corev1.ResourceList
	Labels       map[string]string
	Taints       []karpv1.Taint
	// Tags are those of the Auto Scaling group, by which Cluster Autoscaler finds it; Instances are its instances.
	Tags      map[string]string
	Instances []string
	// Lifetime is how long an instance may live; 0 is for ever.
	Lifetime time.Duration
	// Class is the cloud's side of it.
	Class awsv1.EC2NodeClassSpec
	// Left says what could not be carried over.
	Left []string
}

// Kinds of node groups.
const (
	KindManaged = "EKS managed node group"
	KindScaling = "Auto Scaling group"
)

// Tags by which Cluster Autoscaler learns what nodes of an empty group would be.
const (
	templateLabelTag = "k8s.io/cluster-autoscaler/node-template/label/"
	templateTaintTag = "k8s.io/cluster-autoscaler/node-template/taint/"
)

func (g *NodeGroup) leave(format string, args ...any) {
	g.Left = append(g.Left, fmt.Sprintf(format, args...))
}

// groupReader reads the node groups of a cluster.
type groupReader struct {
	clients Clients
	scaling *autoscaling.Client
	cluster string
	// own is the security group that EKS gives to nodes of the cluster.
	own string
}

// ReadNodeGroups reads the EKS managed node groups and the Auto Scaling groups of a cluster, sorted by name.
func ReadNodeGroups(ctx context.Context, cfg aws.Config, cluster string) ([]NodeGroup, error) {
	r := &groupReader{clients: NewClients(cfg), scaling: autoscaling.NewFromConfig(cfg), cluster: cluster}
	found, err := r.clients.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(cluster)})
	if err != nil {
		return nil, readError("describe EKS cluster "+cluster, err)
	}
	if vpc := found.Cluster.ResourcesVpcConfig; vpc != nil {
		r.own = aws.ToString(vpc.ClusterSecurityGroupId)
	}
	sizes, err := r.scalingGroups(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := r.managed(ctx, sizes)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		g := NodeGroup{Name: name, Kind: KindScaling, ScalingGroup: name}
		if err := r.unmanaged(ctx, &g, sizes[name]); err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	slices.SortStableFunc(groups, func(a, b NodeGroup) int { return strings.Compare(a.Name, b.Name) })
	return groups, r.measure(ctx, groups)
}

// scalingGroups are the Auto Scaling groups whose tags say that they are the cluster's, by name.
func (r *groupReader) scalingGroups(ctx context.Context) (map[string]*scaling.AutoScalingGroup, error) {
	found := map[string]*scaling.AutoScalingGroup{}
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(r.scaling, &autoscaling.DescribeAutoScalingGroupsInput{
		Filters: []scaling.Filter{{Name: aws.String("tag-key"), Values: []string{"kubernetes.io/cluster/" + r.cluster, "k8s.io/cluster-autoscaler/" + r.cluster}}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, readError("describe Auto Scaling groups", err)
		}
		for i := range page.AutoScalingGroups {
			found[aws.ToString(page.AutoScalingGroups[i].AutoScalingGroupName)] = &page.AutoScalingGroups[i]
		}
	}
	return found, nil
}

// managed reads the groups that EKS keeps, and takes their Auto Scaling groups out of sizes.
func (r *groupReader) managed(ctx context.Context, sizes map[string]*scaling.AutoScalingGroup) ([]NodeGroup, error) {
	var groups []NodeGroup
	pages := eks.NewListNodegroupsPaginator(r.clients.EKS, &eks.ListNodegroupsInput{ClusterName: aws.String(r.cluster)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, readError("list node groups of "+r.cluster, err)
		}
		for _, name := range page.Nodegroups {
			out, err := r.clients.EKS.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String(r.cluster), NodegroupName: aws.String(name)})
			if err != nil {
				return nil, readError("describe node group "+name, err)
			}
			g := NodeGroup{Name: name, Kind: KindManaged}
			if err := r.readManaged(ctx, &g, out.Nodegroup); err != nil {
				return nil, err
			}
			if out.Nodegroup.Resources != nil {
				for _, s := range out.Nodegroup.Resources.AutoScalingGroups {
					g.ScalingGroup = aws.ToString(s.Name)
					if behind := sizes[g.ScalingGroup]; behind != nil {
						g.Tags, g.Instances = tagMap(behind.Tags), instanceIDs(behind)
						delete(sizes, g.ScalingGroup)
					}
				}
			}
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// taintEffects are Kubernetes' words for those of EKS.
var taintEffects = map[ekstypes.TaintEffect]corev1.TaintEffect{
	ekstypes.TaintEffectNoSchedule:       corev1.TaintEffectNoSchedule,
	ekstypes.TaintEffectNoExecute:        corev1.TaintEffectNoExecute,
	ekstypes.TaintEffectPreferNoSchedule: corev1.TaintEffectPreferNoSchedule,
}

func (r *groupReader) readManaged(ctx context.Context, g *NodeGroup, n *ekstypes.Nodegroup) error {
	if size := n.ScalingConfig; size != nil {
		g.Min, g.Max, g.Now = aws.ToInt32(size.MinSize), aws.ToInt32(size.MaxSize), aws.ToInt32(size.DesiredSize)
	}
	g.Types, g.Labels = n.InstanceTypes, n.Labels
	switch n.CapacityType {
	case ekstypes.CapacityTypesSpot:
		g.CapacityTypes = []string{karpv1.CapacityTypeSpot}
	case ekstypes.CapacityTypesOnDemand, "":
		g.CapacityTypes = []string{karpv1.CapacityTypeOnDemand}
	default:
		g.CapacityTypes = []string{karpv1.CapacityTypeReserved}
		g.leave("the capacity block: name it in spec.capacityReservationSelectorTerms of the class")
	}
	for _, t := range n.Taints {
		g.Taints = append(g.Taints, karpv1.Taint{Key: aws.ToString(t.Key), Value: aws.ToString(t.Value), Effect: taintEffects[t.Effect]})
	}
	g.Class.Role = lastPart(aws.ToString(n.NodeRole))
	g.useSubnets(n.Subnets)
	if n.RemoteAccess != nil {
		g.leave("remote access by SSH key %s: nodes are reached through Session Manager", aws.ToString(n.RemoteAccess.Ec2SshKey))
	}
	if n.LaunchTemplate != nil {
		if err := r.useTemplate(ctx, g, templateRef{n.LaunchTemplate.Id, n.LaunchTemplate.Name, n.LaunchTemplate.Version}); err != nil {
			return err
		}
	}
	if len(g.Class.SecurityGroupSelectorTerms) == 0 && r.own != "" {
		g.Class.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{ID: r.own}}
	}
	if n.AmiType != ekstypes.AMITypesCustom {
		g.useFamily(string(n.AmiType))
	}
	if size := aws.ToInt32(n.DiskSize); size > 0 {
		g.useDisk(size)
	}
	return nil
}

// useDisk gives the class the disks of its image family, where the one that holds images and pods, the last, has so many GiB.
func (g *NodeGroup) useDisk(gib int32) {
	disks := defaultDisks[(&awsv1.EC2NodeClass{Spec: g.Class}).AMIFamily()]
	if len(disks) == 0 {
		disks = defaultDisks[awsv1.AMIFamilyAL2023]
	}
	g.Class.BlockDeviceMappings = nil
	for i, d := range disks {
		size := d.gib
		if i == len(disks)-1 {
			size = gib
		}
		volume := resource.MustParse(fmt.Sprintf("%dGi", size))
		g.Class.BlockDeviceMappings = append(g.Class.BlockDeviceMappings, &awsv1.BlockDeviceMapping{DeviceName: aws.String(d.device), EBS: &awsv1.BlockDevice{
			VolumeSize: &volume, VolumeType: aws.String("gp3"), Encrypted: aws.Bool(true),
		}})
	}
}

// unmanaged reads an Auto Scaling group that is nobody's but the user's.
func (r *groupReader) unmanaged(ctx context.Context, g *NodeGroup, s *scaling.AutoScalingGroup) error {
	g.Min, g.Max, g.Now = aws.ToInt32(s.MinSize), aws.ToInt32(s.MaxSize), aws.ToInt32(s.DesiredCapacity)
	g.Lifetime = time.Duration(aws.ToInt32(s.MaxInstanceLifetime)) * time.Second
	g.useSubnets(strings.Split(aws.ToString(s.VPCZoneIdentifier), ","))
	g.useTags(s.Tags)
	g.Instances = instanceIDs(s)
	g.CapacityTypes = []string{karpv1.CapacityTypeOnDemand}
	if len(s.LoadBalancerNames)+len(s.TargetGroupARNs)+len(s.TrafficSources) > 0 {
		g.leave("the load balancers and target groups that its instances register with: nodes of a pool do not; use the AWS Load Balancer Controller")
	}
	if s.WarmPoolConfiguration != nil {
		g.leave("the warm pool: pools have none")
	}
	if name := aws.ToString(s.PlacementGroup); name != "" {
		g.Class.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: aws.String(name)}
	}
	if mixed := s.MixedInstancesPolicy; mixed != nil {
		return r.useMixed(ctx, g, mixed)
	}
	if t := s.LaunchTemplate; t != nil {
		return r.useTemplate(ctx, g, templateRef{t.LaunchTemplateId, t.LaunchTemplateName, t.Version})
	}
	return r.useConfiguration(ctx, g, aws.ToString(s.LaunchConfigurationName))
}

func (r *groupReader) useMixed(ctx context.Context, g *NodeGroup, mixed *scaling.MixedInstancesPolicy) error {
	if mixed.LaunchTemplate == nil {
		return nil
	}
	if t := mixed.LaunchTemplate.LaunchTemplateSpecification; t != nil {
		if err := r.useTemplate(ctx, g, templateRef{t.LaunchTemplateId, t.LaunchTemplateName, t.Version}); err != nil {
			return err
		}
	}
	g.useDistribution(mixed.InstancesDistribution)
	return r.useOverrides(ctx, g, mixed.LaunchTemplate.Overrides)
}

// useOverrides takes over what a mixed policy says in the place of the template's type.
func (r *groupReader) useOverrides(ctx context.Context, g *NodeGroup, overrides []scaling.LaunchTemplateOverrides) error {
	var types []string
	var attributes []*scaling.InstanceRequirements
	weighed := false
	for i := range overrides {
		o := &overrides[i]
		if name := aws.ToString(o.InstanceType); name != "" {
			types = append(types, name)
		}
		if o.InstanceRequirements != nil {
			attributes = append(attributes, o.InstanceRequirements)
		}
		if o.LaunchTemplateSpecification != nil {
			g.leave("the launch template of its own that some instance types have: the class is made from the group's")
		}
		weighed = weighed || o.WeightedCapacity != nil
	}
	if len(types) > 0 {
		g.Types, g.Requirements = types, nil
	}
	if weighed {
		g.leave("weights of instance types: sizes of the group are in weights, so the limit of the pool may be too high")
	}
	if len(attributes) == 0 {
		return nil
	}
	if len(attributes) > 1 {
		g.leave("%d of its %d choices of instance types by attributes: a pool has one; make another pool for each", len(attributes)-1, len(attributes))
	}
	return r.useAttributes(ctx, g, attributesOf(attributes[0]))
}

// useDistribution takes over which capacity types there may be. How much of each is not for a pool to say.
func (g *NodeGroup) useDistribution(d *scaling.InstancesDistribution) {
	if d == nil {
		return
	}
	base, share := aws.ToInt32(d.OnDemandBaseCapacity), int32(100)
	if d.OnDemandPercentageAboveBaseCapacity != nil {
		share = *d.OnDemandPercentageAboveBaseCapacity
	}
	switch {
	case share >= 100:
	case share == 0 && base == 0:
		g.CapacityTypes = []string{karpv1.CapacityTypeSpot}
	default:
		g.CapacityTypes = []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand}
		g.leave("the share of on-demand (the first %d %s and %d %% of the rest): a pool of both takes spot while there is any; a second pool with on-demand only, and pods that ask for it, keep a base", base, plural(int(base), "instance", "instances"), share)
	}
}

// lastPart is a role's name in its ARN, which may have a path before it.
func lastPart(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

func tagMap(tags []scaling.TagDescription) map[string]string {
	out := map[string]string{}
	for _, t := range tags {
		out[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return out
}

func instanceIDs(s *scaling.AutoScalingGroup) []string {
	var ids []string
	for i := range s.Instances {
		ids = append(ids, aws.ToString(s.Instances[i].InstanceId))
	}
	return ids
}

func (g *NodeGroup) useSubnets(ids []string) {
	for _, id := range ids {
		if id = strings.TrimSpace(id); id != "" {
			g.Class.SubnetSelectorTerms = append(g.Class.SubnetSelectorTerms, awsv1.SubnetSelectorTerm{ID: id})
		}
	}
}

// useTags takes over the labels and taints that are told to Cluster Autoscaler, and the tags that instances get.
func (g *NodeGroup) useTags(tags []scaling.TagDescription) {
	g.Tags = tagMap(tags)
	for _, t := range tags {
		key, value := aws.ToString(t.Key), aws.ToString(t.Value)
		if name, ok := strings.CutPrefix(key, templateLabelTag); ok {
			if g.Labels == nil {
				g.Labels = map[string]string{}
			}
			g.Labels[name] = value
			continue
		}
		if name, ok := strings.CutPrefix(key, templateTaintTag); ok {
			word, effect, _ := strings.Cut(value, ":")
			g.Taints = append(g.Taints, karpv1.Taint{Key: name, Value: word, Effect: corev1.TaintEffect(effect)})
			continue
		}
		if aws.ToBool(t.PropagateAtLaunch) {
			g.useTag(key, value)
		}
	}
}

// foreignTags begin the keys of tags that others set and that instances of a pool must not have.
var foreignTags = []string{"aws:", "eks:", "kubernetes.io/cluster", "k8s.io/", "karpenter.", "alpha.eksctl.io/", "eksctl.cluster.k8s.io/"}

func (g *NodeGroup) useTag(key, value string) {
	if slices.ContainsFunc(foreignTags, func(begin string) bool { return strings.HasPrefix(key, begin) }) || key == "Name" {
		return
	}
	if g.Class.Tags == nil {
		g.Class.Tags = map[string]string{}
	}
	g.Class.Tags[key] = value
}

// measure fills in the capacity of the largest type of each group.
func (r *groupReader) measure(ctx context.Context, groups []NodeGroup) error {
	var names []ec2types.InstanceType
	for i := range groups {
		for _, name := range groups[i].Types {
			names = append(names, ec2types.InstanceType(name))
		}
	}
	slices.Sort(names)
	sizes := map[string]corev1.ResourceList{}
	for chunk := range slices.Chunk(slices.Compact(names), 100) { // DescribeInstanceTypes takes no more
		out, err := r.clients.EC2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: chunk})
		if err != nil {
			return readError("describe instance types", err)
		}
		for i := range out.InstanceTypes {
			t := &out.InstanceTypes[i]
			sizes[string(t.InstanceType)] = corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewQuantity(int64(aws.ToInt32(t.VCpuInfo.DefaultVCpus)), resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(aws.ToInt64(t.MemoryInfo.SizeInMiB)<<20, resource.BinarySI),
			}
		}
	}
	for i := range groups {
		if len(groups[i].Types) == 0 {
			continue // attributes may say how large it may be
		}
		groups[i].Largest = corev1.ResourceList{}
		for _, name := range groups[i].Types {
			for kind, size := range sizes[name] {
				if most := groups[i].Largest[kind]; size.Cmp(most) > 0 {
					groups[i].Largest[kind] = size
				}
			}
		}
	}
	return nil
}
