package simaws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// reservedTemplate makes a template that may only use one reservation.
func (w *world) reservedTemplate(name, capacityType, id string) {
	w.t.Helper()
	w.launchTemplate(name,
		"LaunchTemplateData.InstanceMarketOptions.MarketType", capacityType,
		"LaunchTemplateData.CapacityReservationSpecification.CapacityReservationPreference", "capacity-reservations-only",
		"LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId", id)
}

func TestCapacityBlock(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	end := epoch.Add(24 * time.Hour)
	id, err := w.AddReservation(ReservationSpec{Type: "p5.48xlarge", Zone: "us-west-2b", Count: 1, Block: true, End: end})
	if err != nil {
		t.Fatal(err)
	}
	w.reservedTemplate("block", "capacity-block", id)
	body := w.must("ec2", "CreateFleet", fleetPairs("block", "capacity-block", 2, "p5.48xlarge@"+subnetB)...)
	got := launched(body)
	if len(got) != 1 || pickFirst(body, "errorCode") != "ReservationCapacityExceeded" {
		t.Fatalf("launched %v: %s", got, body)
	}
	in := w.must("ec2", "DescribeInstances", "InstanceId.1", got[0])
	if pickFirst(in, "instanceLifecycle") != "capacity-block" || pickFirst(in, "capacityReservationId") != id {
		t.Errorf("instance: %s", in)
	}
	w.advance(25 * time.Hour)
	if got := pickFirst(w.must("ec2", "DescribeCapacityReservations", "CapacityReservationId.1", id), "state"); got != "expired" {
		t.Errorf("the block is %s after its end", got)
	}
}

func TestInterruptibleReservation(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	src := pickFirst(w.must("ec2", "CreateCapacityReservation", "InstanceType", "c5.large", "AvailabilityZone", "us-west-2a", "InstanceCount", "3", "InstancePlatform", "Linux/UNIX", "InstanceMatchCriteria", "targeted"), "capacityReservationId")
	w.must("ec2", "CreateInterruptibleCapacityReservationAllocation", "CapacityReservationId", src, "InstanceCount", "2")
	ids := pickAll(w.must("ec2", "DescribeCapacityReservations", "Filter.1.Name", "state", "Filter.1.Value.1", "active"), "capacityReservationId")
	lent := ids[slices.IndexFunc(ids, func(id string) bool { return id != src })]
	w.reservedTemplate("lent", "interruptible-capacity-reservation", lent)
	got := launched(w.must("ec2", "CreateFleet", fleetPairs("lent", "reserved-capacity", 2, "c5.large@"+subnetA)...))
	if len(got) != 2 || !strings.Contains(w.must("ec2", "DescribeInstances", "InstanceId.1", got[0]), "<instanceLifecycle>interruptible-capacity-reservation<") {
		t.Fatalf("launched %v", got)
	}
	w.advance(time.Minute)
	w.messages()
	w.must("ec2", "UpdateInterruptibleCapacityReservationAllocation", "CapacityReservationId", src, "TargetInstanceCount", "1")
	if ms := w.messages(); len(ms) != 1 || !strings.Contains(ms[0], "EC2 Capacity Reservation Instance Interruption Warning") || !strings.Contains(ms[0], got[0]) {
		t.Errorf("messages %v", ms)
	}
	w.advance(3 * time.Minute)
	if a, b := w.stateOf(got[0]), w.stateOf(got[1]); a != "terminated" || b != "running" {
		t.Errorf("states %s and %s", a, b)
	}
}

// TestOpenReservation is used by whoever matches it and did not opt out.
func TestOpenReservation(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	id := pickFirst(w.must("ec2", "CreateCapacityReservation", "InstanceType", "m5.large", "AvailabilityZone", "us-west-2a", "InstanceCount", "1", "InstancePlatform", "Linux/UNIX"), "capacityReservationId")
	w.launchTemplate("none", "LaunchTemplateData.CapacityReservationSpecification.CapacityReservationPreference", "none")
	used := func(template string) string {
		i := launched(w.must("ec2", "CreateFleet", fleetPairs(template, "on-demand", 1, "m5.large@"+subnetA)...))[0]
		return pickFirst(w.must("ec2", "DescribeInstances", "InstanceId.1", i), "capacityReservationId")
	}
	if got := used("none"); got != "" {
		t.Errorf("who opted out got %s", got)
	}
	if got := used("tpl"); got != id {
		t.Errorf("who matches got %q, want %s", got, id)
	}
	if got := used("tpl"); got != "" {
		t.Errorf("a full reservation took one more: %s", got)
	}
}

func TestInterfaces(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	var efa []string
	for i := range 4 {
		prefix := fmt.Sprintf("LaunchTemplateData.NetworkInterface.%d.", i+1)
		efa = append(efa, prefix+"NetworkCardIndex", fmt.Sprint(i), prefix+"DeviceIndex", fmt.Sprint(min(i, 1)), prefix+"InterfaceType", []string{"interface", "efa-only"}[min(i, 1)], prefix+"SecurityGroupId.1", seedGroup)
	}
	efa = append(efa, "LaunchTemplateData.NetworkInterface.1.Ipv4PrefixCount", "2", "LaunchTemplateData.NetworkInterface.1.PrimaryIpv6", "true", "LaunchTemplateData.NetworkInterface.1.Ipv6AddressCount", "1",
		"LaunchTemplateData.NetworkInterface.1.ConnectionTrackingSpecification.TcpEstablishedTimeout", "600")
	w.launchTemplate("efa", efa...)
	body := w.must("ec2", "CreateFleet", fleetPairs("efa", "on-demand", 1, "m5.large@"+subnetA, "p4d.24xlarge@"+subnetB)...)
	if got := pickFirst(body, "errorMessage"); !strings.Contains(got, "Network card index 1 exceeds") {
		t.Errorf("m5.large: %s", got)
	}
	in := w.must("ec2", "DescribeInstances", "InstanceId.1", launched(body)[0])
	if kinds := pickAll(in, "interfaceType"); !slices.Equal(kinds, []string{"interface", "efa-only", "efa-only", "efa-only"}) {
		t.Errorf("interfaces %v", kinds)
	}
	if strings.Count(in, "<ipv4Prefix>") != 2 || pickFirst(in, "isPrimaryIpv6") != "true" || pickFirst(in, "tcpEstablishedTimeout") != "600" || strings.Count(in, "<macAddress>") != 4 {
		t.Errorf("instance: %s", in)
	}
	if free := pickFirst(w.must("ec2", "DescribeSubnets", "SubnetId.1", subnetB), "availableIpAddressCount"); free != fmt.Sprint(16379-33) {
		t.Errorf("%s addresses free; one and two prefixes of 16 were taken", free)
	}
	w.must("ec2", "TerminateInstances", "InstanceId.1", launched(body)[0])
	if free := pickFirst(w.must("ec2", "DescribeSubnets", "SubnetId.1", subnetB), "availableIpAddressCount"); free != "16379" {
		t.Errorf("%s addresses free after the end", free)
	}
	w.refused("InvalidParameterCombination", "CreateLaunchTemplate", append([]string{"LaunchTemplateName", "public", "LaunchTemplateData.NetworkInterface.1.AssociatePublicIpAddress", "true"}, efa[8:]...)...)
}
