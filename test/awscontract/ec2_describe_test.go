package awscontract

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func filters(pairs ...string) []types.Filter {
	var out []types.Filter
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, types.Filter{Name: aws.String(pairs[i]), Values: strings.Split(pairs[i+1], ",")})
	}
	return out
}

func TestSDKInstanceTypes(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	_, err := w.ec2.DescribeInstanceTypes(w.ctx, &ec2.DescribeInstanceTypesInput{DryRun: aws.Bool(true)})
	refuses(t, err, "DryRunOperation")

	all := map[string]types.InstanceTypeInfo{}
	pages := 0
	p := ec2.NewDescribeInstanceTypesPaginator(w.ec2, &ec2.DescribeInstanceTypesInput{
		Filters: filters("supported-virtualization-type", "hvm", "processor-info.supported-architecture", "x86_64,arm64"), MaxResults: aws.Int32(100),
	})
	for p.HasMorePages() {
		page := must[*ec2.DescribeInstanceTypesOutput](t)(p.NextPage(w.ctx))
		pages++
		for _, i := range page.InstanceTypes {
			all[string(i.InstanceType)] = i
		}
	}
	if len(all) < 700 || pages < 8 {
		t.Fatalf("got %d types on %d pages, want at least 700", len(all), pages)
	}
	m5, p5, inf := all["m5.large"], all["p5.48xlarge"], all["inf2.24xlarge"]
	if *m5.VCpuInfo.DefaultVCpus != 2 || *m5.MemoryInfo.SizeInMiB != 8192 || *m5.NetworkInfo.MaximumNetworkInterfaces != 3 ||
		*m5.NetworkInfo.Ipv4AddressesPerInterface != 10 || m5.Hypervisor != "nitro" || *m5.ProcessorInfo.Manufacturer != "Intel" ||
		*m5.EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps != 4750 || !slices.Contains(m5.SupportedUsageClasses, "spot") {
		t.Errorf("m5.large is wrong: %+v", m5)
	}
	if g := p5.GpuInfo.Gpus[0]; *g.Name != "H100" || *g.Count != 8 || *g.MemoryInfo.SizeInMiB != 81920 || *p5.InstanceStorageInfo.TotalSizeInGB != 30400 ||
		len(p5.NetworkInfo.NetworkCards) != 32 || *p5.NetworkInfo.EfaInfo.MaximumEfaInterfaces != 32 || len(p5.NetworkInfo.NetworkCards[0].InterfaceTypes) != 3 {
		t.Errorf("p5.48xlarge is wrong: %+v", p5)
	}
	if n := inf.NeuronInfo.NeuronDevices[0]; *n.Name != "Inferentia2" || *n.Count != 6 || *n.CoreInfo.Count != 2 || *inf.InferenceAcceleratorInfo.Accelerators[0].Name != "Inferentia2" {
		t.Errorf("inf2.24xlarge is wrong: %+v", inf)
	}
	if m := all["m5.metal"]; m.Hypervisor != "" || !*m.BareMetal {
		t.Errorf("m5.metal is wrong: %+v", m)
	}
	_, err = w.ec2.DescribeInstanceTypes(w.ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m99.large"}})
	refuses(t, err, "InvalidInstanceType")
	_, err = w.ec2.DescribeInstanceTypes(w.ctx, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(101)})
	refuses(t, err, "InvalidParameterValue")
	_, err = w.ec2.DescribeInstanceTypes(w.ctx, &ec2.DescribeInstanceTypesInput{Filters: filters("colour", "red")})
	refuses(t, err, "InvalidParameterValue")
}

func TestSDKOfferingsAndSpotPrices(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	zones := map[string]int{}
	p := ec2.NewDescribeInstanceTypeOfferingsPaginator(w.ec2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: "availability-zone", MaxResults: aws.Int32(1000)})
	for p.HasMorePages() {
		for _, o := range must[*ec2.DescribeInstanceTypeOfferingsOutput](t)(p.NextPage(w.ctx)).InstanceTypeOfferings {
			zones[*o.Location]++
		}
	}
	if len(zones) != 4 || zones["us-west-2a"] < 700 {
		t.Errorf("offerings per zone: %v", zones)
	}
	sp := ec2.NewDescribeSpotPriceHistoryPaginator(w.ec2, &ec2.DescribeSpotPriceHistoryInput{
		StartTime: aws.Time(start), ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}, MaxResults: aws.Int32(2000),
	})
	seen := map[string]string{}
	for sp.HasMorePages() {
		for _, s := range must[*ec2.DescribeSpotPriceHistoryOutput](t)(sp.NextPage(w.ctx)).SpotPriceHistory {
			key := string(s.InstanceType) + "/" + *s.AvailabilityZone
			if _, twice := seen[key]; twice {
				t.Errorf("%s has more than one current price", key)
			}
			seen[key] = *s.SpotPrice
		}
	}
	if len(seen) < 2000 || seen["m5.large/us-west-2a"] == "" || seen["m5.large/us-west-2a"] == seen["m5.large/us-west-2b"] {
		t.Errorf("%d spot prices; m5.large: %s and %s", len(seen), seen["m5.large/us-west-2a"], seen["m5.large/us-west-2b"])
	}
	az := must[*ec2.DescribeAvailabilityZonesOutput](t)(w.ec2.DescribeAvailabilityZones(w.ctx, &ec2.DescribeAvailabilityZonesInput{}))
	if len(az.AvailabilityZones) != 4 || *az.AvailabilityZones[0].ZoneId != "usw2-az1" || *az.AvailabilityZones[0].ZoneType != "availability-zone" {
		t.Errorf("zones: %+v", az.AvailabilityZones)
	}
	if r := must[*ec2.DescribeRegionsOutput](t)(w.ec2.DescribeRegions(w.ctx, &ec2.DescribeRegionsInput{})); len(r.Regions) < 20 {
		t.Errorf("%d regions", len(r.Regions))
	}
}

func TestSDKNetworkAndImages(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	byTag := must[*ec2.DescribeSubnetsOutput](t)(w.ec2.DescribeSubnets(w.ctx, &ec2.DescribeSubnetsInput{Filters: filters("tag:karpenter.sh/discovery", "my-*"), MaxResults: aws.Int32(500)}))
	if len(byTag.Subnets) != 3 || *byTag.Subnets[0].AvailableIpAddressCount != 16379 || *byTag.Subnets[2].AvailabilityZoneId != "usw2-az3" {
		t.Errorf("subnets by tag: %+v", byTag.Subnets)
	}
	if none := must[*ec2.DescribeSubnetsOutput](t)(w.ec2.DescribeSubnets(w.ctx, &ec2.DescribeSubnetsInput{Filters: filters("tag-key", "nothing")})); len(none.Subnets) != 0 {
		t.Errorf("subnets by absent key: %+v", none.Subnets)
	}
	_, err := w.ec2.DescribeSubnets(w.ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-0"}})
	refuses(t, err, "InvalidSubnetID.NotFound")
	must[*ec2.ModifySubnetAttributeOutput](t)(w.ec2.ModifySubnetAttribute(w.ctx, &ec2.ModifySubnetAttributeInput{SubnetId: byTag.Subnets[0].SubnetId, MapPublicIpOnLaunch: &types.AttributeBooleanValue{Value: aws.Bool(true)}}))
	if v := must[*ec2.DescribeVpcsOutput](t)(w.ec2.DescribeVpcs(w.ctx, &ec2.DescribeVpcsInput{Filters: filters("is-default", "true")})); len(v.Vpcs) != 1 {
		t.Errorf("VPCs: %+v", v.Vpcs)
	}

	g := must[*ec2.CreateSecurityGroupOutput](t)(w.ec2.CreateSecurityGroup(w.ctx, &ec2.CreateSecurityGroupInput{GroupName: aws.String("extra"), Description: aws.String("d"), TagSpecifications: []types.TagSpecification{{ResourceType: "security-group", Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}}}))
	_, err = w.ec2.CreateSecurityGroup(w.ctx, &ec2.CreateSecurityGroupInput{GroupName: aws.String("extra"), Description: aws.String("d")})
	refuses(t, err, "InvalidGroup.Duplicate")
	if sg := must[*ec2.DescribeSecurityGroupsOutput](t)(w.ec2.DescribeSecurityGroups(w.ctx, &ec2.DescribeSecurityGroupsInput{Filters: filters("tag:a", "b,c", "group-name", "ex?ra")})); len(sg.SecurityGroups) != 1 || *sg.SecurityGroups[0].GroupId != *g.GroupId {
		t.Errorf("groups: %+v", sg.SecurityGroups)
	}
	must[*ec2.DeleteSecurityGroupOutput](t)(w.ec2.DeleteSecurityGroup(w.ctx, &ec2.DeleteSecurityGroupInput{GroupId: g.GroupId}))

	images := must[*ec2.DescribeImagesOutput](t)(w.ec2.DescribeImages(w.ctx, &ec2.DescribeImagesInput{
		Owners: []string{"self", "amazon"}, Filters: filters("name", "amazon-eks-node-al2023-x86_64-standard-1.34-*", "state", "available"), IncludeDeprecated: aws.Bool(true), MaxResults: aws.Int32(1000),
	}))
	if len(images.Images) != 2 || images.Images[0].Architecture != "x86_64" || *images.Images[0].CreationDate == "" {
		t.Fatalf("images: %+v", images.Images)
	}
	dup := must[*ec2.CopyImageOutput](t)(w.ec2.CopyImage(w.ctx, &ec2.CopyImageInput{Name: aws.String("mine"), SourceImageId: images.Images[0].ImageId, SourceRegion: aws.String("us-west-2")}))
	must[*ec2.EnableImageDeprecationOutput](t)(w.ec2.EnableImageDeprecation(w.ctx, &ec2.EnableImageDeprecationInput{ImageId: dup.ImageId, DeprecateAt: aws.Time(start.Add(-1))}))
	own := must[*ec2.DescribeImagesOutput](t)(w.ec2.DescribeImages(w.ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}}))
	if len(own.Images) != 1 || own.Images[0].DeprecationTime == nil {
		t.Errorf("own images: %+v", own.Images)
	}
	must[*ec2.DeregisterImageOutput](t)(w.ec2.DeregisterImage(w.ctx, &ec2.DeregisterImageInput{ImageId: dup.ImageId}))
	_, err = w.ec2.EnableImageDeprecation(w.ctx, &ec2.EnableImageDeprecationInput{ImageId: images.Images[0].ImageId, DeprecateAt: aws.Time(start)})
	refuses(t, err, "AuthFailure")
}
