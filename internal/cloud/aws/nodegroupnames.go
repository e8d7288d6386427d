package aws

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
)

// wholeFamilies says whether a pattern of types has every size of the families that it has.
func wholeFamilies(pattern string) bool {
	_, size, cut := strings.Cut(pattern, ".")
	return cut && size == "*" || !cut && strings.HasSuffix(pattern, "*")
}

// attributeNames takes over the lists of types that are allowed or excluded.
func (r *groupReader) attributeNames(ctx context.Context, g *NodeGroup, a *ec2types.InstanceRequirements) error {
	if allowed := a.AllowedInstanceTypes; len(allowed) > 0 {
		partly := slices.ContainsFunc(allowed, func(p string) bool { return !wholeFamilies(p) })
		names, err := r.like(ctx, g, allowed, !partly)
		switch {
		case err != nil:
			return err
		case partly:
			g.Types = names
		default:
			g.require(awsv1.LabelInstanceFamily, corev1.NodeSelectorOpIn, names...)
		}
	}
	for _, pattern := range a.ExcludedInstanceTypes {
		family, size, _ := strings.Cut(pattern, ".")
		if family == "*" && size != "" && !strings.Contains(size, "*") {
			g.require(awsv1.LabelInstanceSize, corev1.NodeSelectorOpNotIn, size)
			continue
		}
		key := corev1.LabelInstanceTypeStable
		if wholeFamilies(pattern) {
			key = awsv1.LabelInstanceFamily
		}
		names, err := r.like(ctx, g, []string{pattern}, wholeFamilies(pattern))
		if err != nil {
			return err
		}
		if len(names) > 0 {
			g.require(key, corev1.NodeSelectorOpNotIn, names...)
		}
	}
	return nil
}

// like is the types, or the families, that patterns stand for. What a pattern names in full is not looked up: it is what it says, also
// tomorrow.
func (r *groupReader) like(ctx context.Context, g *NodeGroup, patterns []string, families bool) ([]string, error) {
	var out, open []string
	for _, p := range patterns {
		name := p
		if families {
			name = strings.TrimSuffix(p, ".*")
		}
		if strings.Contains(name, "*") {
			open = append(open, p)
		} else {
			out = append(out, name)
		}
	}
	if len(open) > 0 {
		found, err := r.describeTypes(ctx, ec2types.Filter{Name: aws.String("instance-type"), Values: open})
		if err != nil {
			return nil, err
		}
		if families {
			found = familiesOf(found)
		}
		out = append(out, found...)
		g.leave("types like %s: the pool names those that there are today; new ones do not join by themselves", strings.Join(open, ", "))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func familiesOf(types []string) []string {
	out := make([]string, len(types))
	for i, name := range types {
		out[i], _, _ = strings.Cut(name, ".")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// attributeGenerations leaves out, or asks for, the families of which AWS calls every type previous. The number of a generation does not
// tell them.
func (r *groupReader) attributeGenerations(ctx context.Context, g *NodeGroup, wanted []ec2types.InstanceGeneration) error {
	if len(wanted) != 1 {
		return nil
	}
	previous, err := r.describeTypes(ctx, ec2types.Filter{Name: aws.String("current-generation"), Values: []string{"false"}})
	if err != nil || len(previous) == 0 {
		return err
	}
	current, err := r.describeTypes(ctx, ec2types.Filter{Name: aws.String("current-generation"), Values: []string{"true"}})
	if err != nil {
		return err
	}
	newer := familiesOf(current)
	families := slices.DeleteFunc(familiesOf(previous), func(name string) bool { return slices.Contains(newer, name) })
	operator := corev1.NodeSelectorOpNotIn
	if wanted[0] == ec2types.InstanceGenerationPrevious {
		operator = corev1.NodeSelectorOpIn
	}
	if len(families) > 0 {
		g.require(awsv1.LabelInstanceFamily, operator, families...)
	}
	return nil
}

// describeTypes names the types that a filter lets through.
func (r *groupReader) describeTypes(ctx context.Context, filter ec2types.Filter) ([]string, error) {
	var out []string
	pages := ec2.NewDescribeInstanceTypesPaginator(r.clients.EC2, &ec2.DescribeInstanceTypesInput{Filters: []ec2types.Filter{filter}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, readError("describe instance types", err)
		}
		for i := range page.InstanceTypes {
			out = append(out, string(page.InstanceTypes[i].InstanceType))
		}
	}
	return out, nil
}

// attributesOf is what an Auto Scaling group chooses types by, in EC2's words.
func attributesOf(s *scaling.InstanceRequirements) *ec2types.InstanceRequirements {
	a := &ec2types.InstanceRequirements{
		AcceleratorManufacturers: words[ec2types.AcceleratorManufacturer](s.AcceleratorManufacturers), AcceleratorNames: words[ec2types.AcceleratorName](s.AcceleratorNames),
		AcceleratorTypes: words[ec2types.AcceleratorType](s.AcceleratorTypes), CpuManufacturers: words[ec2types.CpuManufacturer](s.CpuManufacturers),
		InstanceGenerations: words[ec2types.InstanceGeneration](s.InstanceGenerations), LocalStorageTypes: words[ec2types.LocalStorageType](s.LocalStorageTypes),
		AllowedInstanceTypes: s.AllowedInstanceTypes, ExcludedInstanceTypes: s.ExcludedInstanceTypes, RequireHibernateSupport: s.RequireHibernateSupport,
		BareMetal: ec2types.BareMetal(s.BareMetal), BurstablePerformance: ec2types.BurstablePerformance(s.BurstablePerformance), LocalStorage: ec2types.LocalStorage(s.LocalStorage),
		MaxSpotPriceAsPercentageOfOptimalOnDemandPrice: s.MaxSpotPriceAsPercentageOfOptimalOnDemandPrice,
		OnDemandMaxPricePercentageOverLowestPrice:      s.OnDemandMaxPricePercentageOverLowestPrice,
		SpotMaxPricePercentageOverLowestPrice:          s.SpotMaxPricePercentageOverLowestPrice,
	}
	if n := s.VCpuCount; n != nil {
		a.VCpuCount = &ec2types.VCpuCountRange{Min: n.Min, Max: n.Max}
	}
	if n := s.MemoryMiB; n != nil {
		a.MemoryMiB = &ec2types.MemoryMiB{Min: n.Min, Max: n.Max}
	}
	if n := s.MemoryGiBPerVCpu; n != nil {
		a.MemoryGiBPerVCpu = &ec2types.MemoryGiBPerVCpu{Min: n.Min, Max: n.Max}
	}
	if n := s.AcceleratorCount; n != nil {
		a.AcceleratorCount = &ec2types.AcceleratorCount{Min: n.Min, Max: n.Max}
	}
	if n := s.AcceleratorTotalMemoryMiB; n != nil {
		a.AcceleratorTotalMemoryMiB = &ec2types.AcceleratorTotalMemoryMiB{Min: n.Min, Max: n.Max}
	}
	if n := s.BaselineEbsBandwidthMbps; n != nil {
		a.BaselineEbsBandwidthMbps = &ec2types.BaselineEbsBandwidthMbps{Min: n.Min, Max: n.Max}
	}
	if n := s.NetworkBandwidthGbps; n != nil {
		a.NetworkBandwidthGbps = &ec2types.NetworkBandwidthGbps{Min: n.Min, Max: n.Max}
	}
	if n := s.NetworkInterfaceCount; n != nil {
		a.NetworkInterfaceCount = &ec2types.NetworkInterfaceCount{Min: n.Min, Max: n.Max}
	}
	if n := s.TotalLocalStorageGB; n != nil {
		a.TotalLocalStorageGB = &ec2types.TotalLocalStorageGB{Min: n.Min, Max: n.Max}
	}
	if s.BaselinePerformanceFactors != nil {
		a.BaselinePerformanceFactors = &ec2types.BaselinePerformanceFactors{}
	}
	return a
}

// words are the same words as another type.
func words[To, From ~string](list []From) []To {
	var out []To
	for _, w := range list {
		out = append(out, To(w))
	}
	return out
}
