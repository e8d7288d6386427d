package awscontract

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"karpenter/internal/cloud/simaws"
)

const trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// nodeProfile makes a role and an instance profile for nodes.
func (w *world) nodeProfile() {
	w.t.Helper()
	must[*iam.CreateRoleOutput](w.t)(w.iam.CreateRole(w.ctx, &iam.CreateRoleInput{RoleName: aws.String("node"), AssumeRolePolicyDocument: aws.String(trust)}))
	must[*iam.CreateInstanceProfileOutput](w.t)(w.iam.CreateInstanceProfile(w.ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("node")}))
	must[*iam.AddRoleToInstanceProfileOutput](w.t)(w.iam.AddRoleToInstanceProfile(w.ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("node"), RoleName: aws.String("node")}))
}

func (w *world) ami() string {
	w.t.Helper()
	p := must[*ssm.GetParameterOutput](w.t)(w.ssm.GetParameter(w.ctx, &ssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id")}))
	return *p.Parameter.Value
}

const nodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: my-cluster, apiServerEndpoint: "https://cluster.local", certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
  kubelet:
    config: {maxPods: 29}
    flags: ["--node-labels=karpenter.sh/nodepool=default"]
`

func tagSpec(kind types.ResourceType, pairs ...string) types.TagSpecification {
	s := types.TagSpecification{ResourceType: kind}
	for i := 0; i < len(pairs); i += 2 {
		s.Tags = append(s.Tags, types.Tag{Key: aws.String(pairs[i]), Value: aws.String(pairs[i+1])})
	}
	return s
}

// template makes a launch template of the shape that the controller makes.
func (w *world) template(name string, edit func(*types.RequestLaunchTemplateData)) {
	w.t.Helper()
	d := &types.RequestLaunchTemplateData{
		ImageId:            aws.String(w.ami()),
		UserData:           aws.String(base64.StdEncoding.EncodeToString([]byte(nodeConfig))),
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("node")},
		Monitoring:         &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(true)},
		MetadataOptions:    &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpEndpoint: "enabled", HttpTokens: "required", HttpPutResponseHopLimit: aws.Int32(1)},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{
			VolumeSize: aws.Int32(20), VolumeType: "gp3", Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true),
		}}},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: aws.Int32(0), NetworkCardIndex: aws.Int32(0), Groups: []string{"sg-0abc123"}}},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: "network-interface", Tags: []types.Tag{{Key: aws.String("eni"), Value: aws.String("yes")}}}},
	}
	if edit != nil {
		edit(d)
	}
	must[*ec2.CreateLaunchTemplateOutput](w.t)(w.ec2.CreateLaunchTemplate(w.ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(name), LaunchTemplateData: d, TagSpecifications: []types.TagSpecification{tagSpec("launch-template", "karpenter.sh/nodepool", "default")},
	}))
}

func fleetInput(template, capacityType string, n int32, overrides ...types.FleetLaunchTemplateOverridesRequest) *ec2.CreateFleetInput {
	in := &ec2.CreateFleetInput{
		Type: "instant",
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String(template), Version: aws.String("$Latest")},
			Overrides:                   overrides,
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(n), DefaultTargetCapacityType: types.DefaultTargetCapacityType(capacityType)},
		TagSpecifications:           []types.TagSpecification{tagSpec("instance", "karpenter.sh/nodepool", "default", "Name", "n"), tagSpec("volume", "v", "1"), tagSpec("fleet", "f", "1")},
	}
	if capacityType == "spot" {
		in.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: "price-capacity-optimized"}
	} else {
		in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: "lowest-price"}
	}
	return in
}

func override(typ, subnet string) types.FleetLaunchTemplateOverridesRequest {
	return types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(typ), SubnetId: aws.String(subnet)}
}

func (w *world) instance(id string) types.Instance {
	w.t.Helper()
	out := must[*ec2.DescribeInstancesOutput](w.t)(w.ec2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}))
	return out.Reservations[0].Instances[0]
}

func TestSDKLaunchTemplates(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	const name = "karpenter.k8s.aws/1234567890"
	w.template(name, nil)
	_, err := w.ec2.CreateLaunchTemplate(w.ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(name), LaunchTemplateData: &types.RequestLaunchTemplateData{}})
	refuses(t, err, "InvalidLaunchTemplateName.AlreadyExistsException")
	_, err = w.ec2.CreateLaunchTemplate(w.ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("big"), LaunchTemplateData: &types.RequestLaunchTemplateData{UserData: aws.String(base64.StdEncoding.EncodeToString(make([]byte, 16385)))}})
	refuses(t, err, "InvalidUserData.Malformed")
	got := must[*ec2.DescribeLaunchTemplatesOutput](t)(w.ec2.DescribeLaunchTemplates(w.ctx, &ec2.DescribeLaunchTemplatesInput{Filters: filters("tag:karpenter.sh/nodepool", "default"), MaxResults: aws.Int32(200)}))
	if len(got.LaunchTemplates) != 1 || *got.LaunchTemplates[0].LaunchTemplateName != name {
		t.Fatalf("templates: %+v", got.LaunchTemplates)
	}
	_, err = w.ec2.DescribeLaunchTemplates(w.ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"nope"}})
	refuses(t, err, "InvalidLaunchTemplateName.NotFoundException")
	must[*ec2.CreateLaunchTemplateVersionOutput](t)(w.ec2.CreateLaunchTemplateVersion(w.ctx, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateName: aws.String(name), SourceVersion: aws.String("1"), LaunchTemplateData: &types.RequestLaunchTemplateData{KeyName: aws.String("k")}}))
	versions := must[*ec2.DescribeLaunchTemplateVersionsOutput](t)(w.ec2.DescribeLaunchTemplateVersions(w.ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String(name), Versions: []string{"$Latest"}}))
	if d := versions.LaunchTemplateVersions[0]; *d.VersionNumber != 2 || *d.LaunchTemplateData.KeyName != "k" || *d.LaunchTemplateData.ImageId == "" || *d.LaunchTemplateData.BlockDeviceMappings[0].Ebs.VolumeSize != 20 {
		t.Errorf("version: %+v", d)
	}
	must[*ec2.DeleteLaunchTemplateOutput](t)(w.ec2.DeleteLaunchTemplate(w.ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String(name)}))
	_, err = w.ec2.DeleteLaunchTemplate(w.ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: got.LaunchTemplates[0].LaunchTemplateId})
	refuses(t, err, "InvalidLaunchTemplateId.NotFound")
}

func TestSDKFleetLifeCycle(t *testing.T) {
	joined := make(chan simaws.Instance, 10)
	left := make(chan string, 10)
	w := newWorld(t, "sdk", func(o *simaws.Options) { o.Watcher = watcher{joined, left} })
	w.nodeProfile()
	w.template("tpl-1", nil)
	in := fleetInput("tpl-1", "spot", 2, override("c5.2xlarge", "subnet-0def456"), override("m5.large", "subnet-0abc123"))
	in.DryRun = aws.Bool(true)
	_, err := w.ec2.CreateFleet(w.ctx, in)
	refuses(t, err, "DryRunOperation")
	in.DryRun = nil
	out := must[*ec2.CreateFleetOutput](t)(w.ec2.CreateFleet(w.ctx, in))
	if len(out.Errors) != 0 || len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != 2 || out.Instances[0].InstanceType != "m5.large" ||
		*out.Instances[0].LaunchTemplateAndOverrides.Overrides.AvailabilityZone != "us-west-2a" || out.Instances[0].Lifecycle != "spot" {
		t.Fatalf("fleet: %+v", out)
	}
	id := out.Instances[0].InstanceIds[0]
	i := w.instance(id)
	if i.State.Name != "pending" || i.InstanceLifecycle != "spot" || i.SpotInstanceRequestId == nil || *i.Placement.AvailabilityZoneId != "usw2-az1" ||
		*i.Monitoring == (types.Monitoring{}) || !strings.HasSuffix(*i.IamInstanceProfile.Arn, "/node") || *i.SecurityGroups[0].GroupId != "sg-0abc123" ||
		i.MetadataOptions.HttpTokens != "required" || *i.PrivateDnsName == "" || *i.NetworkInterfaces[0].InterfaceType != "interface" || len(i.BlockDeviceMappings) != 1 {
		t.Errorf("instance: %+v", i)
	}
	vols := must[*ec2.DescribeVolumesOutput](t)(w.ec2.DescribeVolumes(w.ctx, &ec2.DescribeVolumesInput{Filters: filters("attachment.instance-id", id)}))
	if len(vols.Volumes) != 1 || *vols.Volumes[0].Size != 20 || *vols.Volumes[0].Tags[0].Key != "v" || !*vols.Volumes[0].Encrypted {
		t.Errorf("volumes: %+v", vols.Volumes)
	}
	enis := must[*ec2.DescribeNetworkInterfacesOutput](t)(w.ec2.DescribeNetworkInterfaces(w.ctx, &ec2.DescribeNetworkInterfacesInput{Filters: filters("attachment.instance-id", id)}))
	if len(enis.NetworkInterfaces) != 1 || *enis.NetworkInterfaces[0].TagSet[0].Key != "eni" {
		t.Errorf("interfaces: %+v", enis.NetworkInterfaces)
	}
	if sr := must[*ec2.DescribeSpotInstanceRequestsOutput](t)(w.ec2.DescribeSpotInstanceRequests(w.ctx, &ec2.DescribeSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{*i.SpotInstanceRequestId}})); sr.SpotInstanceRequests[0].State != "active" {
		t.Errorf("spot request: %+v", sr)
	}
	must[*ec2.DescribeFleetsOutput](t)(w.ec2.DescribeFleets(w.ctx, &ec2.DescribeFleetsInput{FleetIds: []string{*out.FleetId}}))

	w.bootAndTag(id, joined)
	w.reboot(id, joined, left)
	w.stopAndTerminate(id, left)
}

// bootAndTag follows an instance to its node and tags it.
func (w *world) bootAndTag(id string, joined chan simaws.Instance) {
	t := w.t
	t.Helper()
	w.advance(simaws.DefaultTiming.Pending)
	if i := w.instance(id); i.State.Name != "running" {
		t.Errorf("after the pending time the state is %s", i.State.Name)
	}
	w.advance(simaws.DefaultTiming.Join)
	if m := <-joined; m.InstanceID != id || m.Node.MaxPods != 29 || m.Node.Labels["karpenter.sh/nodepool"] != "default" || m.ProviderID != "aws:///us-west-2a/"+id || m.Info.VCPUs != 2 {
		t.Errorf("instance: %+v", m)
	}
	ua := must[*ec2.DescribeInstanceAttributeOutput](t)(w.ec2.DescribeInstanceAttribute(w.ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: "userData"}))
	if raw, _ := base64.StdEncoding.DecodeString(*ua.UserData.Value); string(raw) != nodeConfig {
		t.Errorf("user data: %s", raw)
	}
	if con := must[*ec2.GetConsoleOutputOutput](t)(w.ec2.GetConsoleOutput(w.ctx, &ec2.GetConsoleOutputInput{InstanceId: &id})); con.Output == nil {
		t.Error("no console output")
	}
	must[*ec2.CreateTagsOutput](t)(w.ec2.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String("karpenter.sh/nodeclaim"), Value: aws.String("nc")}}}))
	list := must[*ec2.DescribeInstancesOutput](t)(w.ec2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(1000), Filters: filters("tag-key", "karpenter.sh/nodeclaim", "tag:Name", "n", "instance-state-name", "pending,running")}))
	if len(list.Reservations) != 1 {
		t.Errorf("by tags: %+v", list.Reservations)
	}
	if tags := must[*ec2.DescribeTagsOutput](t)(w.ec2.DescribeTags(w.ctx, &ec2.DescribeTagsInput{Filters: filters("resource-id", id, "key", "Name")})); len(tags.Tags) != 1 {
		t.Errorf("tags: %+v", tags.Tags)
	}
	must[*ec2.DeleteTagsOutput](t)(w.ec2.DeleteTags(w.ctx, &ec2.DeleteTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String("Name")}}}))
}

// reboot restarts an instance: it leaves its cluster for a while and keeps running (N7).
func (w *world) reboot(id string, joined chan simaws.Instance, left chan string) {
	t := w.t
	t.Helper()
	_, err := w.ec2.RebootInstances(w.ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}, DryRun: aws.Bool(true)})
	refuses(t, err, "DryRunOperation")
	for range 2 { // the second comes while it is down
		must[*ec2.RebootInstancesOutput](t)(w.ec2.RebootInstances(w.ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}}))
	}
	if reason := <-left; reason != id+" rebooting" {
		t.Errorf("left: %s", reason)
	}
	if i := w.instance(id); i.State.Name != "running" {
		t.Errorf("while it reboots the state is %s", i.State.Name)
	}
	w.advance(simaws.DefaultTiming.Reboot)
	if m := <-joined; m.InstanceID != id || m.Boot != 1 {
		t.Errorf("after a reboot: %s, boot %d", m.InstanceID, m.Boot)
	}
	_, err = w.ec2.RebootInstances(w.ctx, &ec2.RebootInstancesInput{InstanceIds: []string{"i-0123456789abcdef0"}})
	refuses(t, err, "InvalidInstanceID.NotFound")
}

// stopAndTerminate takes an instance to its end.
func (w *world) stopAndTerminate(id string, left chan string) {
	t := w.t
	t.Helper()
	must[*ec2.StopInstancesOutput](t)(w.ec2.StopInstances(w.ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}}))
	w.advance(time.Minute)
	must[*ec2.StartInstancesOutput](t)(w.ec2.StartInstances(w.ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}}))
	if reason := <-left; reason != id+" stopped" {
		t.Errorf("left: %s", reason)
	}
	term := must[*ec2.TerminateInstancesOutput](t)(w.ec2.TerminateInstances(w.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}))
	if term.TerminatingInstances[0].CurrentState.Name != "shutting-down" || term.TerminatingInstances[0].PreviousState.Name != "pending" {
		t.Errorf("terminate: %+v", term.TerminatingInstances[0])
	}
	w.advance(time.Minute)
	if i := w.instance(id); i.State.Name != "terminated" {
		t.Errorf("state %s, want terminated", i.State.Name)
	}
	w.advance(2 * time.Hour)
	_, err := w.ec2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	refuses(t, err, "InvalidInstanceID.NotFound")
}

type watcher struct {
	joined chan simaws.Instance
	left   chan string
}

func (w watcher) Joined(m simaws.Instance)              { w.joined <- m }
func (w watcher) Left(m simaws.Instance, reason string) { w.left <- m.InstanceID + " " + reason }

func TestSDKRunInstances(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	w.nodeProfile()
	w.template("tpl-1", nil)
	in := &ec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(2), InstanceType: "m5.large", ClientToken: aws.String("tok"),
		LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("tpl-1")},
		TagSpecifications: []types.TagSpecification{tagSpec("instance", "a", "b")}, DryRun: aws.Bool(true),
	}
	_, err := w.ec2.RunInstances(w.ctx, in)
	refuses(t, err, "DryRunOperation")
	in.DryRun = nil
	first := must[*ec2.RunInstancesOutput](t)(w.ec2.RunInstances(w.ctx, in))
	again := must[*ec2.RunInstancesOutput](t)(w.ec2.RunInstances(w.ctx, in))
	if len(first.Instances) != 2 || *first.Instances[0].InstanceId != *again.Instances[0].InstanceId {
		t.Errorf("the same token gave %v and %v", first.Instances, again.Instances)
	}
	in.MaxCount = aws.Int32(1)
	_, err = w.ec2.RunInstances(w.ctx, in)
	refuses(t, err, "IdempotentParameterMismatch")

	st := must[*ec2.DescribeInstanceStatusOutput](t)(w.ec2.DescribeInstanceStatus(w.ctx, &ec2.DescribeInstanceStatusInput{IncludeAllInstances: aws.Bool(true)}))
	if len(st.InstanceStatuses) != 2 {
		t.Errorf("statuses: %+v", st.InstanceStatuses)
	}
	w.advance(10 * time.Minute)
	id := *first.Instances[0].InstanceId
	if err := w.sim.SetHealth(simaws.HealthSpec{Instances: []string{id}, Check: "system", Impaired: true, Event: &simaws.ScheduledEvent{Code: "instance-retirement", Description: "[Completed] x", NotBefore: start}}); err != nil {
		t.Fatal(err)
	}
	for _, f := range [][]types.Filter{filters("system-status.status", "impaired"), filters("event.code", "instance-retirement,system-reboot")} {
		st = must[*ec2.DescribeInstanceStatusOutput](t)(w.ec2.DescribeInstanceStatus(w.ctx, &ec2.DescribeInstanceStatusInput{Filters: f}))
		if len(st.InstanceStatuses) != 1 || *st.InstanceStatuses[0].InstanceId != id || st.InstanceStatuses[0].SystemStatus.Details[0].ImpairedSince == nil || st.InstanceStatuses[0].Events[0].Code != "instance-retirement" {
			t.Errorf("impaired: %+v", st.InstanceStatuses)
		}
	}
}

func TestSDKReservationsAndPlacement(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	w.nodeProfile()
	cr := must[*ec2.CreateCapacityReservationOutput](t)(w.ec2.CreateCapacityReservation(w.ctx, &ec2.CreateCapacityReservationInput{
		InstanceType: aws.String("m5.large"), AvailabilityZone: aws.String("us-west-2a"), InstanceCount: aws.Int32(3), InstancePlatform: "Linux/UNIX", InstanceMatchCriteria: "targeted",
		TagSpecifications: []types.TagSpecification{tagSpec("capacity-reservation", "team", "red")},
	})).CapacityReservation
	must[*ec2.ModifyCapacityReservationOutput](t)(w.ec2.ModifyCapacityReservation(w.ctx, &ec2.ModifyCapacityReservationInput{CapacityReservationId: cr.CapacityReservationId, InstanceCount: aws.Int32(2)}))
	w.template("reserved", func(d *types.RequestLaunchTemplateData) {
		d.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: "capacity-reservations-only",
			CapacityReservationTarget:     &types.CapacityReservationTarget{CapacityReservationId: cr.CapacityReservationId},
		}
	})
	out := must[*ec2.CreateFleetOutput](t)(w.ec2.CreateFleet(w.ctx, fleetInput("reserved", "on-demand", 3, override("m5.large", "subnet-0abc123"))))
	if len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != 2 || len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "ReservationCapacityExceeded" {
		t.Fatalf("two of three fit the reservation: %+v", out)
	}
	i := w.instance(out.Instances[0].InstanceIds[0])
	if *i.CapacityReservationId != *cr.CapacityReservationId || i.CapacityReservationSpecification.CapacityReservationPreference != "capacity-reservations-only" {
		t.Errorf("instance: %+v", i.CapacityReservationSpecification)
	}
	got := must[*ec2.DescribeCapacityReservationsOutput](t)(w.ec2.DescribeCapacityReservations(w.ctx, &ec2.DescribeCapacityReservationsInput{Filters: filters("state", "active", "tag:team", "red"), MaxResults: aws.Int32(1000)}))
	if len(got.CapacityReservations) != 1 || *got.CapacityReservations[0].AvailableInstanceCount != 0 || *got.CapacityReservations[0].TotalInstanceCount != 2 {
		t.Errorf("reservation: %+v", got.CapacityReservations)
	}
	_, err := w.ec2.DescribeCapacityReservations(w.ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{"cr-0"}})
	refuses(t, err, "InvalidCapacityReservationId.NotFound")

	lender := must[*ec2.CreateCapacityReservationOutput](t)(w.ec2.CreateCapacityReservation(w.ctx, &ec2.CreateCapacityReservationInput{InstanceType: aws.String("c5.large"), AvailabilityZone: aws.String("us-west-2a"), InstanceCount: aws.Int32(2), InstancePlatform: "Linux/UNIX", InstanceMatchCriteria: "targeted"})).CapacityReservation
	must[*ec2.CreateInterruptibleCapacityReservationAllocationOutput](t)(w.ec2.CreateInterruptibleCapacityReservationAllocation(w.ctx, &ec2.CreateInterruptibleCapacityReservationAllocationInput{CapacityReservationId: lender.CapacityReservationId, InstanceCount: aws.Int32(2)}))
	must[*ec2.UpdateInterruptibleCapacityReservationAllocationOutput](t)(w.ec2.UpdateInterruptibleCapacityReservationAllocation(w.ctx, &ec2.UpdateInterruptibleCapacityReservationAllocationInput{CapacityReservationId: lender.CapacityReservationId, TargetInstanceCount: aws.Int32(0)}))
	must[*ec2.CancelCapacityReservationOutput](t)(w.ec2.CancelCapacityReservation(w.ctx, &ec2.CancelCapacityReservationInput{CapacityReservationId: cr.CapacityReservationId}))
	if i = w.instance(out.Instances[0].InstanceIds[0]); i.CapacityReservationId != nil {
		t.Errorf("a cancelled reservation is still shown: %s", *i.CapacityReservationId)
	}

	pg := must[*ec2.CreatePlacementGroupOutput](t)(w.ec2.CreatePlacementGroup(w.ctx, &ec2.CreatePlacementGroupInput{GroupName: aws.String("parts"), Strategy: "partition", PartitionCount: aws.Int32(3)})).PlacementGroup
	must[*ec2.CreatePlacementGroupOutput](t)(w.ec2.CreatePlacementGroup(w.ctx, &ec2.CreatePlacementGroupInput{GroupName: aws.String("spread"), Strategy: "spread"}))
	w.template("parts", func(d *types.RequestLaunchTemplateData) {
		d.Placement = &types.LaunchTemplatePlacementRequest{GroupId: pg.GroupId}
	})
	out = must[*ec2.CreateFleetOutput](t)(w.ec2.CreateFleet(w.ctx, fleetInput("parts", "on-demand", 3, override("m5.large", "subnet-0abc123"))))
	parts := map[int32]bool{}
	for _, id := range out.Instances[0].InstanceIds {
		parts[*w.instance(id).Placement.PartitionNumber] = true
	}
	if len(parts) != 3 {
		t.Errorf("three instances went into partitions %v", parts)
	}
	w.template("spread", func(d *types.RequestLaunchTemplateData) {
		d.Placement = &types.LaunchTemplatePlacementRequest{GroupName: aws.String("spread")}
	})
	out = must[*ec2.CreateFleetOutput](t)(w.ec2.CreateFleet(w.ctx, fleetInput("spread", "on-demand", 8, override("m5.large", "subnet-0abc123"))))
	if len(out.Instances[0].InstanceIds) != 7 || len(out.Errors) != 1 {
		t.Errorf("a spread group takes seven per zone: %+v", out)
	}
	_, err = w.ec2.DeletePlacementGroup(w.ctx, &ec2.DeletePlacementGroupInput{GroupName: aws.String("spread")})
	refuses(t, err, "InvalidPlacementGroup.InUse")
	must[*ec2.TerminateInstancesOutput](t)(w.ec2.TerminateInstances(w.ctx, &ec2.TerminateInstancesInput{InstanceIds: out.Instances[0].InstanceIds}))
	must[*ec2.DeletePlacementGroupOutput](t)(w.ec2.DeletePlacementGroup(w.ctx, &ec2.DeletePlacementGroupInput{GroupName: aws.String("spread")}))
	groups := must[*ec2.DescribePlacementGroupsOutput](t)(w.ec2.DescribePlacementGroups(w.ctx, &ec2.DescribePlacementGroupsInput{GroupIds: []string{*pg.GroupId}, Filters: filters("state", "available")}))
	if len(groups.PlacementGroups) != 1 || *groups.PlacementGroups[0].PartitionCount != 3 {
		t.Errorf("groups: %+v", groups.PlacementGroups)
	}
}
