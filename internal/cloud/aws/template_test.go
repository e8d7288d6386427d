package aws

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// resolved is a class with everything found.
func resolved(edit ...func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	c := newClass("default")
	c.Status = awsv1.EC2NodeClassStatus{
		InstanceProfile: "profile", SecurityGroups: []awsv1.SecurityGroup{{ID: "sg-1"}, {ID: "sg-2"}},
		AMIs: []awsv1.AMI{{ID: "ami-1", Name: "image"}},
	}
	for _, e := range edit {
		e(c)
	}
	return c
}

// written is the content of the launch template of a blueprint.
func written(t *testing.T, p *Provider, b blueprint) *types.RequestLaunchTemplateData {
	t.Helper()
	b.claim = &karpv1.NodeClaim{}
	b.claim.Labels = map[string]string{"team": "web"}
	b.image = b.class.Status.AMIs[0]
	got, err := p.newTemplate(b)
	if err != nil {
		t.Fatal(err)
	}
	return got.data
}

func testProvider(edit ...func(*Options)) *Provider {
	o := Options{
		Clock: simClock(), Region: "us-west-2", ReservedCapacity: true,
		Cluster: Cluster{Name: "test", Endpoint: "https://test.local", CABundle: "Y2E=", ServiceCIDR: "10.100.0.0/16", DNS: []string{"10.100.0.10"}, Version: "1.34"},
	}
	for _, e := range edit {
		e(&o)
	}
	return New(o)
}

func TestAWS_2_5_TemplateDefaults(t *testing.T) {
	got := written(t, testProvider(), blueprint{class: resolved(), capacityType: "spot", tenancy: "default", pods: 29, tags: map[string]string{"a": "b"}})
	text, err := base64.StdEncoding.DecodeString(aws.ToString(got.UserData))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"application/node.eks.aws", "29", "team=web", "karpenter.sh/capacity-type=spot", "karpenter.sh/unregistered"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("user data lacks %q:\n%s", want, text)
		}
	}
	got.UserData = nil
	tags := []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}
	want := &types.RequestLaunchTemplateData{
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{
			VolumeSize: aws.Int32(20), VolumeType: "gp3", Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true),
		}}},
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("profile")},
		Monitoring:         &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(false)},
		ImageId:            aws.String("ami-1"),
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpEndpoint: "enabled", HttpTokens: "required", HttpProtocolIpv6: "disabled", HttpPutResponseHopLimit: aws.Int32(1), InstanceMetadataTags: "disabled",
		},
		NetworkInterfaces: []networkInterface{{NetworkCardIndex: aws.Int32(0), DeviceIndex: aws.Int32(0), Groups: []string{"sg-1", "sg-2"}}},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: "network-interface", Tags: tags}, {ResourceType: "spot-instances-request", Tags: tags}},
		Placement:         &types.LaunchTemplatePlacementRequest{Tenancy: "default"},
		CapacityReservationSpecification: &types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: "none",
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(types.RequestLaunchTemplateData{}), ignoreSDK); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
}

// ignoreSDK leaves out what the SDK's types keep for themselves.
var ignoreSDK = cmp.FilterPath(func(p cmp.Path) bool {
	field, ok := p.Last().(cmp.StructField)
	return ok && field.Name() == "noSmithyDocumentSerde"
}, cmp.Ignore())

func TestAWS_2_5_Interfaces(t *testing.T) {
	print := func(list []networkInterface) string {
		var out []string
		for _, n := range list {
			text := string(rune('0'+aws.ToInt32(n.NetworkCardIndex))) + "/" + string(rune('0'+aws.ToInt32(n.DeviceIndex))) + " " + aws.ToString(n.InterfaceType)
			if n.PrimaryIpv6 != nil {
				text += " ipv6"
			}
			if n.AssociatePublicIpAddress != nil {
				text += " public"
			}
			if n.Ipv4PrefixCount != nil || n.Ipv6PrefixCount != nil {
				text += " prefixes"
			}
			if n.ConnectionTrackingSpecification != nil {
				text += " tracked"
			}
			out = append(out, strings.Join(strings.Fields(text), " "))
		}
		return strings.Join(out, ", ")
	}
	v6 := testProvider(func(o *Options) { o.Cluster.DNS = []string{"fd00::a"} })
	for _, tt := range []struct {
		name string
		p    *Provider
		b    blueprint
		want string
	}{
		{"plain", testProvider(), blueprint{class: resolved()}, "0/0"},
		{"EFA devices", testProvider(), blueprint{class: resolved(), efas: 4}, "0/0 efa, 1/1 efa, 2/1 efa, 3/1 efa"},
		{"IPv6", v6, blueprint{class: resolved(func(c *awsv1.EC2NodeClass) { c.Spec.IPPrefixCount = aws.Int32(1) })}, "0/0 ipv6 prefixes"},
		{"public and prefixes", testProvider(), blueprint{class: resolved(func(c *awsv1.EC2NodeClass) {
			c.Spec.AssociatePublicIPAddress, c.Spec.IPPrefixCount = aws.Bool(false), aws.Int32(2)
		})}, "0/0 public prefixes"},
		{"listed", testProvider(), blueprint{efas: 9, class: resolved(func(c *awsv1.EC2NodeClass) {
			c.Spec.ConnectionTracking = &awsv1.ConnectionTracking{UDPTimeout: aws.Int32(30)}
			c.Spec.NetworkInterfaces = []*awsv1.NetworkInterface{{InterfaceType: "interface"}, {NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: "efa-only"}}
		})}, "0/0 interface tracked, 1/1 efa-only"},
	} {
		if got := print(tt.p.interfaces(tt.b)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAWS_2_5_TemplateFields(t *testing.T) {
	class := resolved(func(c *awsv1.EC2NodeClass) {
		size := resource.MustParse("100G")
		c.Spec.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), EBS: &awsv1.BlockDevice{VolumeSize: &size, IOPS: aws.Int64(3000), VolumeType: aws.String("gp3")}}}
		c.Spec.MetadataOptions = &awsv1.MetadataOptions{HTTPPutResponseHopLimit: aws.Int64(2), HTTPTokens: aws.String("optional")}
		c.Spec.DetailedMonitoring = aws.Bool(true)
		c.Spec.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: aws.String("enabled")}
		c.Spec.EnclaveOptions = &awsv1.EnclaveOptions{Enabled: aws.Bool(true)}
	})
	isolated := testProvider(func(o *Options) { o.Region = "us-iso-east-1" })
	got := written(t, isolated, blueprint{class: class, capacityType: "reserved", reservation: "cr-1", kind: kindBlock, group: "pg-1", partition: 3, tenancy: "default"})
	for what, ok := range map[string]bool{
		"size rounded up to GiB":         *got.BlockDeviceMappings[0].Ebs.VolumeSize == 94 && *got.BlockDeviceMappings[0].Ebs.Iops == 3000,
		"metadata without IPv6 in iso":   got.MetadataOptions.HttpProtocolIpv6 == "" && got.MetadataOptions.HttpTokens == "optional" && *got.MetadataOptions.HttpPutResponseHopLimit == 2,
		"monitoring":                     *got.Monitoring.Enabled,
		"enclaves":                       *got.EnclaveOptions.Enabled,
		"nested virtualization":          got.CpuOptions.NestedVirtualization == "enabled",
		"reservation":                    got.CapacityReservationSpecification.CapacityReservationPreference == "capacity-reservations-only" && *got.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId == "cr-1",
		"block capacityType":             got.InstanceMarketOptions.MarketType == "capacity-block",
		"placement group and partition":  *got.Placement.GroupId == "pg-1" && *got.Placement.PartitionNumber == 3,
		"no spot request tags elsewhere": len(got.TagSpecifications) == 1,
	} {
		if !ok {
			t.Errorf("%s: got %+v", what, got)
		}
	}
	off := testProvider(func(o *Options) { o.ReservedCapacity = false })
	if got := written(t, off, blueprint{class: resolved(), capacityType: "spot"}); got.CapacityReservationSpecification != nil {
		t.Error("with reserved capacity turned off nothing is said of reservations")
	}
}

func TestAWS_2_5_NameFollowsContent(t *testing.T) {
	p := testProvider()
	base := blueprint{class: resolved(), claim: &karpv1.NodeClaim{}, capacityType: "spot", image: awsv1.AMI{ID: "ami-1"}, pods: 29}
	name := func(b blueprint) string {
		got, err := p.newTemplate(b)
		if err != nil {
			t.Fatal(err)
		}
		return got.name
	}
	first, again := name(base), name(base)
	if first != again || !strings.HasPrefix(first, "karpenter.k8s.aws/") {
		t.Errorf("names %s, %s", first, again)
	}
	for what, edit := range map[string]func(*blueprint){
		"image":        func(b *blueprint) { b.image.ID = "ami-2" },
		"pods":         func(b *blueprint) { b.pods = 58 },
		"capacityType": func(b *blueprint) { b.capacityType = "on-demand" },
		"tags":         func(b *blueprint) { b.tags = map[string]string{"x": "y"} },
		"labels":       func(b *blueprint) { b.claim = b.claim.DeepCopy(); b.claim.Labels = map[string]string{"x": "y"} },
		"taints": func(b *blueprint) {
			b.claim = b.claim.DeepCopy()
			b.claim.Spec.Taints = []karpv1.Taint{{Key: "k", Effect: "NoSchedule"}}
		},
		"reservation": func(b *blueprint) { b.reservation = "cr-1" },
	} {
		other := base
		edit(&other)
		if name(other) == name(base) {
			t.Errorf("%s must change the name", what)
		}
	}
}
