package aws

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// useAttributes takes over the choice of instance types by attributes, as requirements of a pool. What is not said counts as it does for
// AWS, which leaves burstable and bare metal types out.
func (r *groupReader) useAttributes(ctx context.Context, g *NodeGroup, a *ec2types.InstanceRequirements) error {
	g.Requirements, g.Types = nil, nil
	g.attributeSizes(a)
	g.attributeInstance(a)
	g.attributeDisks(a)
	g.attributeAccelerators(a)
	g.attributesLeft(a)
	if err := r.attributeNames(ctx, g, a); err != nil {
		return err
	}
	return r.attributeGenerations(ctx, g, a.InstanceGenerations)
}

// require adds a requirement; values that a key must not have are gathered in one.
func (g *NodeGroup) require(key string, operator corev1.NodeSelectorOperator, values ...string) {
	values = slices.Clone(values)
	slices.Sort(values)
	values = slices.Compact(values)
	if operator == corev1.NodeSelectorOpNotIn {
		for i := range g.Requirements {
			if have := &g.Requirements[i]; have.Key == key && have.Operator == operator {
				have.Values = slices.Compact(slices.Sorted(slices.Values(append(have.Values, values...))))
				return
			}
		}
	}
	g.Requirements = append(g.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: operator, Values: values})
}

// between requires a whole number of at least and at most so much; zero and nil are no bound.
func (g *NodeGroup) between(key string, least, most *float64) {
	if least != nil && *least > 0 {
		g.require(key, corev1.NodeSelectorOpGt, strconv.FormatInt(int64(math.Ceil(*least))-1, 10))
	}
	if most != nil {
		g.require(key, corev1.NodeSelectorOpLt, strconv.FormatInt(int64(math.Floor(*most))+1, 10))
	}
}

// scaled is a number of AWS, if there is one, in other units.
func scaled[T int32 | float64](n *T, unit float64) *float64 {
	if n == nil {
		return nil
	}
	return aws.Float64(float64(*n) * unit)
}

func (g *NodeGroup) attributeSizes(a *ec2types.InstanceRequirements) {
	g.Largest = corev1.ResourceList{}
	if n := a.VCpuCount; n != nil {
		g.between(awsv1.LabelInstanceCPU, scaled(n.Min, 1), scaled(n.Max, 1))
		if n.Max != nil {
			g.Largest[corev1.ResourceCPU] = *resource.NewQuantity(int64(*n.Max), resource.DecimalSI)
		}
	}
	if n := a.MemoryMiB; n != nil {
		g.between(awsv1.LabelInstanceMemory, scaled(n.Min, 1), scaled(n.Max, 1))
		if n.Max != nil {
			g.Largest[corev1.ResourceMemory] = *resource.NewQuantity(int64(*n.Max)<<20, resource.BinarySI)
		}
	}
	if len(g.Largest) < 2 {
		g.Largest = nil // a limit of one of them alone would say the wrong thing about the other
	}
}

// cpuMakers and others are the words of labels for those of attributes.
var (
	cpuMakers = map[string]string{"intel": "intel", "amd": "amd", "amazon-web-services": "aws"}
	gpuMakers = map[string]string{"nvidia": "nvidia", "amd": "amd"}
	aiMakers  = map[string]string{"amazon-web-services": "aws", "habana": "habana"}
)

// translated is the values that have a word, and those that have none.
func translated[T ~string](values []T, words map[string]string) (known, unknown []string) {
	for _, v := range values {
		if word := words[string(v)]; word != "" {
			known = append(known, word)
		} else {
			unknown = append(unknown, string(v))
		}
	}
	return known, unknown
}

func (g *NodeGroup) attributeInstance(a *ec2types.InstanceRequirements) {
	makers, others := translated(a.CpuManufacturers, cpuMakers)
	if len(makers) > 0 {
		g.require(awsv1.LabelInstanceCPUManufacturer, corev1.NodeSelectorOpIn, makers...)
	}
	if len(others) > 0 {
		g.leave("CPU manufacturers %s: no node of a cluster has such a CPU", strings.Join(others, ", "))
	}
	switch a.BurstablePerformance {
	case ec2types.BurstablePerformanceIncluded:
	case ec2types.BurstablePerformanceRequired:
		g.require(awsv1.LabelInstanceCategory, corev1.NodeSelectorOpIn, "t")
	default:
		g.require(awsv1.LabelInstanceCategory, corev1.NodeSelectorOpNotIn, "t")
	}
	switch a.BareMetal { // has no hypervisor
	case ec2types.BareMetalIncluded:
	case ec2types.BareMetalRequired:
		g.require(awsv1.LabelInstanceHypervisor, corev1.NodeSelectorOpNotIn, "nitro", "xen")
	default:
		g.require(awsv1.LabelInstanceHypervisor, corev1.NodeSelectorOpIn, "nitro", "xen")
	}
	if n := a.NetworkBandwidthGbps; n != nil {
		g.between(awsv1.LabelInstanceNetworkBandwidth, scaled(n.Min, 1000), scaled(n.Max, 1000))
	}
	if n := a.BaselineEbsBandwidthMbps; n != nil {
		g.between(awsv1.LabelInstanceEBSBandwidth, scaled(n.Min, 1), nil)
		g.leave("the baseline EBS bandwidth of %s Mbps: the pool asks for the least of the most that a type has, as nodes have no label for the baseline", bounds(n.Min, n.Max))
	}
	if aws.ToBool(a.RequireEncryptionInTransit) {
		g.require(awsv1.LabelInstanceEncryptionInTransit, corev1.NodeSelectorOpIn, "true")
	}
}

func (g *NodeGroup) attributeDisks(a *ec2types.InstanceRequirements) {
	switch a.LocalStorage {
	case ec2types.LocalStorageRequired:
		if a.TotalLocalStorageGB == nil || aws.ToFloat64(a.TotalLocalStorageGB.Min) == 0 {
			g.require(awsv1.LabelInstanceLocalNVMe, corev1.NodeSelectorOpExists)
		}
	case ec2types.LocalStorageExcluded:
		g.require(awsv1.LabelInstanceLocalNVMe, corev1.NodeSelectorOpDoesNotExist)
		return
	}
	if n := a.TotalLocalStorageGB; n != nil {
		g.between(awsv1.LabelInstanceLocalNVMe, scaled(n.Min, 1), scaled(n.Max, 1))
	}
	if slices.Contains(a.LocalStorageTypes, ec2types.LocalStorageTypeHdd) {
		g.leave("local disks of type hdd: nodes have a label for NVMe disks only")
	}
}

// attributeAccelerators takes over GPUs, or else chips for instance learning: a requirement cannot say one or the other.
func (g *NodeGroup) attributeAccelerators(a *ec2types.InstanceRequirements) {
	count := a.AcceleratorCount
	if count != nil && count.Max != nil && *count.Max == 0 {
		g.require(awsv1.LabelInstanceGPUCount, corev1.NodeSelectorOpDoesNotExist)
		g.require(awsv1.LabelInstanceAcceleratorCount, corev1.NodeSelectorOpDoesNotExist)
		return
	}
	if (count == nil || aws.ToInt32(count.Min) == 0) && len(a.AcceleratorTypes)+len(a.AcceleratorManufacturers)+len(a.AcceleratorNames) == 0 {
		return
	}
	gpus, _ := translated(a.AcceleratorManufacturers, gpuMakers)
	chips, _ := translated(a.AcceleratorManufacturers, aiMakers)
	gpu := slices.Contains(a.AcceleratorTypes, ec2types.AcceleratorTypeGpu) || len(a.AcceleratorTypes) == 0 && (len(gpus) > 0 || len(chips) == 0)
	chip := slices.Contains(a.AcceleratorTypes, ec2types.AcceleratorTypeInference) || len(a.AcceleratorTypes) == 0 && len(chips) > 0
	least := aws.Float64(1)
	var most *float64
	if count != nil {
		least, most = aws.Float64(max(1, float64(aws.ToInt32(count.Min)))), scaled(count.Max, 1)
	}
	names := make([]string, len(a.AcceleratorNames))
	for i, name := range a.AcceleratorNames {
		names[i] = string(name)
	}
	keys, makers := [3]string{awsv1.LabelInstanceGPUCount, awsv1.LabelInstanceGPUManufacturer, awsv1.LabelInstanceGPUName}, gpus
	if !gpu && chip {
		keys, makers = [3]string{awsv1.LabelInstanceAcceleratorCount, awsv1.LabelInstanceAcceleratorManufacturer, awsv1.LabelInstanceAcceleratorName}, chips
	}
	g.between(keys[0], least, most)
	if len(makers) > 0 {
		g.require(keys[1], corev1.NodeSelectorOpIn, makers...)
	}
	if len(names) > 0 {
		g.require(keys[2], corev1.NodeSelectorOpIn, names...)
	}
	switch {
	case gpu && chip:
		g.leave("accelerators of the kind inference: a pool asks for GPUs or for these, and this one asks for GPUs; make a second one")
	case !gpu && !chip:
		g.leave("accelerators of the kinds %v: nodes have no label for them, and the pool asks for GPUs", a.AcceleratorTypes)
	}
	if n := a.AcceleratorTotalMemoryMiB; n != nil {
		g.leave("the memory of all accelerators together of %s MiB: %s counts that of each GPU", bounds(n.Min, n.Max), awsv1.LabelInstanceGPUMemory)
	}
}

// bounds says a least and a most.
func bounds[T int32 | float64](least, most *T) string {
	switch {
	case least != nil && most != nil:
		return fmt.Sprintf("%v to %v", *least, *most)
	case most != nil:
		return fmt.Sprintf("at most %v", *most)
	case least != nil:
		return fmt.Sprintf("at least %v", *least)
	}
	return "any number of"
}

// attributesLeft names those that no label stands for.
func (g *NodeGroup) attributesLeft(a *ec2types.InstanceRequirements) {
	if n := a.MemoryGiBPerVCpu; n != nil {
		g.leave("memory of %s GiB for each vCPU: write %s; c has 2 GiB, m has 4, r has 8", bounds(n.Min, n.Max), awsv1.LabelInstanceCategory)
	}
	if n := a.NetworkInterfaceCount; n != nil {
		g.leave("%s network interfaces: nodes have no label for it", bounds(n.Min, n.Max))
	}
	if aws.ToBool(a.RequireHibernateSupport) {
		g.leave("types that can hibernate: nodes do not")
	}
	if a.BaselinePerformanceFactors != nil {
		g.leave("the baseline performance of another family: nodes have no label for it; name families in %s", awsv1.LabelInstanceFamily)
	}
	if a.SpotMaxPricePercentageOverLowestPrice != nil || a.OnDemandMaxPricePercentageOverLowestPrice != nil || a.MaxSpotPriceAsPercentageOfOptimalOnDemandPrice != nil {
		g.leave("price protection: a pool takes the cheapest types that hold its pods, and spot costs at most as much as on-demand")
	}
}
