package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws/userdata"
)

// templatePrefix starts the names of launch templates; a hash of the content follows.
const templatePrefix = awsv1.Group + "/"

// blueprint is what makes one launch template different from another.
type blueprint struct {
	class *awsv1.EC2NodeClass
	claim *karpv1.NodeClaim
	tags  map[string]string

	capacityType string
	tenancy      string
	image        awsv1.AMI
	pods         int64
	// kubelet are the class's settings as they are for the types that the template is for.
	kubelet *awsv1.KubeletConfiguration
	// efas is how many EFA devices to attach, where the class does not list interfaces itself.
	efas int64
	// enclave turns Nitro enclaves on.
	enclave bool
	// reservation, group and partition are empty where there are none. kind ranks the reservation, see reservationKind.
	reservation string
	kind        int
	group       string
	partition   int32
}

// template is a launch template that may have to be made.
type template struct {
	name string
	data *types.RequestLaunchTemplateData
	tags map[string]string
	// userData is the size of the user data in bytes, before EC2's encoding.
	userData int
}

// newTemplate writes the template of a blueprint. Equal blueprints give templates of equal name.
func (p *Provider) newTemplate(b blueprint) (*template, error) {
	doc, err := p.userData(b)
	if err != nil {
		return nil, err
	}
	spec := &b.class.Spec
	disks, err := blockDevices(b.class)
	if err != nil {
		return nil, err
	}
	data := &types.RequestLaunchTemplateData{
		BlockDeviceMappings: disks,
		IamInstanceProfile:  &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String(b.class.Status.InstanceProfile)},
		Monitoring:          &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(aws.ToBool(spec.DetailedMonitoring))},
		ImageId:             aws.String(b.image.ID),
		MetadataOptions:     p.metadata(spec.MetadataOptions),
		NetworkInterfaces:   p.interfaces(b),
		TagSpecifications:   []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeNetworkInterface, Tags: toTags(b.tags)}},
		Placement:           placementOf(b),
	}
	if doc.Text != "" {
		data.UserData = aws.String(doc.Base64())
	}
	if b.capacityType == karpv1.CapacityTypeSpot {
		data.TagSpecifications = append(data.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{ResourceType: types.ResourceTypeSpotInstancesRequest, Tags: toTags(b.tags)})
	}
	if o := spec.CPUOptions; o != nil && o.NestedVirtualization != nil {
		data.CpuOptions = &types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: types.NestedVirtualizationSpecification(*o.NestedVirtualization)}
	}
	if b.enclave || b.class.Enclaves() {
		data.EnclaveOptions = &types.LaunchTemplateEnclaveOptionsRequest{Enabled: aws.Bool(true)}
	}
	if p.opt.ReservedCapacity {
		addReservation(data, b)
	}
	text, err := json.Marshal([]any{data, b.tags})
	if err != nil {
		return nil, fmt.Errorf("write launch template of class %s: %w", b.class.Name, err)
	}
	sum := sha256.Sum256(text)
	return &template{name: templatePrefix + hex.EncodeToString(sum[:16]), data: data, tags: b.tags, userData: len(doc.Text)}, nil
}

// imageVersion finds the release in the name of a Bottlerocket image.
var imageVersion = regexp.MustCompile(`-v([0-9]+\.[0-9]+\.[0-9]+)`)

// userData writes what the instance reads at its first boot.
func (p *Provider) userData(b blueprint) (userdata.Document, error) {
	c := p.opt.Cluster
	o := userdata.Options{
		ClusterName: c.Name, Endpoint: c.Endpoint, CABundle: c.CABundle, ServiceCIDR: c.ServiceCIDR,
		Labels: map[string]string{karpv1.CapacityTypeLabelKey: b.capacityType}, Kubelet: kubeletOf(b.kubelet, c.DNS, b.pods),
		UserData: aws.ToString(b.class.Spec.UserData),
	}
	for k, v := range b.claim.Labels {
		o.Labels[k] = v
	}
	for _, list := range [][]karpv1.Taint{b.claim.Spec.Taints, b.claim.Spec.StartupTaints} {
		for _, t := range list {
			o.Taints = append(o.Taints, userdata.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	if policy := b.class.Spec.InstanceStorePolicy; policy != nil {
		o.InstanceStore = userdata.InstanceStorePolicy(*policy)
	}
	if found := imageVersion.FindStringSubmatch(b.image.Name); found != nil {
		o.AMIVersion = found[1]
	}
	doc, err := userdata.Render(userdata.Family(b.class.AMIFamily()), o)
	if err != nil {
		return doc, fmt.Errorf("class %s: %w", b.class.Name, err)
	}
	return doc, nil
}

// kubeletOf is the class's kubelet settings, with the cluster's DNS and the number of pods that the type was counted with.
func kubeletOf(k *awsv1.KubeletConfiguration, dns []string, pods int64) userdata.Kubelet {
	out := userdata.Kubelet{ClusterDNS: dns, MaxPods: aws.Int32(int32(pods))}
	if k == nil {
		return out
	}
	if len(k.ClusterDNS) > 0 {
		out.ClusterDNS = k.ClusterDNS
	}
	out.PodsPerCore, out.SystemReserved, out.KubeReserved = k.PodsPerCore, k.SystemReserved, k.KubeReserved
	out.EvictionHard, out.EvictionSoft, out.EvictionMaxPodGracePeriod = k.EvictionHard, k.EvictionSoft, k.EvictionMaxPodGracePeriod
	out.ImageGCHighThresholdPercent, out.ImageGCLowThresholdPercent = k.ImageGCHighThresholdPercent, k.ImageGCLowThresholdPercent
	out.CPUCFSQuota, out.Extra = k.CPUCFSQuota, k.Extra
	for signal, grace := range k.EvictionSoftGracePeriod {
		if out.EvictionSoftGracePeriod == nil {
			out.EvictionSoftGracePeriod = map[string]graceDuration{}
		}
		out.EvictionSoftGracePeriod[signal] = grace.Duration
	}
	return out
}

// metadata says how the instance metadata service can be reached. Isolated regions do not know the IPv6 setting.
func (p *Provider) metadata(m *awsv1.MetadataOptions) *types.LaunchTemplateInstanceMetadataOptionsRequest {
	if m == nil {
		m = &awsv1.MetadataOptions{}
	}
	or := func(given *string, otherwise string) string {
		if given == nil {
			return otherwise
		}
		return *given
	}
	hops := int32(1)
	if m.HTTPPutResponseHopLimit != nil {
		hops = int32(*m.HTTPPutResponseHopLimit)
	}
	out := &types.LaunchTemplateInstanceMetadataOptionsRequest{
		HttpEndpoint:            types.LaunchTemplateInstanceMetadataEndpointState(or(m.HTTPEndpoint, "enabled")),
		HttpTokens:              types.LaunchTemplateHttpTokensState(or(m.HTTPTokens, "required")),
		HttpPutResponseHopLimit: aws.Int32(hops),
		InstanceMetadataTags:    types.LaunchTemplateInstanceMetadataTagsStateDisabled,
	}
	if !strings.HasPrefix(p.opt.Region, "us-iso") {
		out.HttpProtocolIpv6 = types.LaunchTemplateInstanceMetadataProtocolIpv6(or(m.HTTPProtocolIPv6, "disabled"))
	}
	return out
}

func placementOf(b blueprint) *types.LaunchTemplatePlacementRequest {
	out := &types.LaunchTemplatePlacementRequest{Tenancy: types.Tenancy(b.tenancy)}
	if b.group != "" {
		out.GroupId = aws.String(b.group)
	}
	if b.partition > 0 {
		out.PartitionNumber = aws.Int32(b.partition)
	}
	return out
}

// addReservation ties a reserved instance to its reservation and keeps all others out of open ones, which other users of the
// account count on.
func addReservation(data *types.RequestLaunchTemplateData, b blueprint) {
	data.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationPreference: types.CapacityReservationPreferenceNone}
	if b.reservation == "" {
		return
	}
	data.CapacityReservationSpecification.CapacityReservationPreference = types.CapacityReservationPreferenceCapacityReservationsOnly
	data.CapacityReservationSpecification.CapacityReservationTarget = &types.CapacityReservationTarget{CapacityReservationId: aws.String(b.reservation)}
	switch b.kind {
	case kindBlock:
		data.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock}
	case kindInterruptible:
		data.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeInterruptibleCapacityReservation}
	}
}

// ipv6 says whether the cluster's pods have IPv6 addresses, which its DNS address shows.
func (p *Provider) ipv6(class *awsv1.EC2NodeClass) bool {
	dns := p.opt.Cluster.DNS
	if k := class.Spec.Kubelet; k != nil && len(k.ClusterDNS) > 0 {
		dns = k.ClusterDNS
	}
	if len(dns) == 0 {
		return false
	}
	address, err := netip.ParseAddr(dns[0])
	return err == nil && address.Is6()
}
