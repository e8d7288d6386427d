package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// EC2NodeClassStatus is what was found in AWS for a class.
type EC2NodeClassStatus struct {
	// subnets that match, most free addresses first.
	// +optional
	Subnets []Subnet `json:"subnets,omitempty"`
	// securityGroups that match, by id.
	// +optional
	SecurityGroups []SecurityGroup `json:"securityGroups,omitempty"`
	// capacityReservations that match, by id.
	// +optional
	CapacityReservations []CapacityReservation `json:"capacityReservations,omitempty"`
	// amis that match, newest first. An instance type uses the first whose requirements it meets.
	// +optional
	AMIs []AMI `json:"amis,omitempty"`
	// instanceProfile that nodes use.
	// +optional
	InstanceProfile string `json:"instanceProfile,omitempty"`
	// conditions tell whether the class can be used; Ready is true when all the others are.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []karpv1.Condition `json:"conditions,omitempty"`
}

// Subnet is a subnet that nodes can be launched into.
type Subnet struct {
	// id of the subnet.
	// +required
	ID string `json:"id"`
	// zone of the subnet, for example us-east-1a.
	// +required
	Zone string `json:"zone"`
	// zoneID is the zone's name that is the same in every account, for example use1-az1.
	// +optional
	ZoneID string `json:"zoneID,omitempty"`
}

// SecurityGroup is a security group that nodes get.
type SecurityGroup struct {
	// id of the security group.
	// +required
	ID string `json:"id"`
	// name of the security group.
	// +optional
	Name string `json:"name,omitempty"`
}

// AMI is an image that nodes can be started from.
type AMI struct {
	// id of the image.
	// +required
	ID string `json:"id"`
	// deprecated by its owner.
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`
	// name of the image.
	// +optional
	Name string `json:"name,omitempty"`
	// requirements that an instance type must meet to use the image, for example its architecture.
	// +required
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
}

// CapacityReservation is a reservation that nodes can be launched into.
type CapacityReservation struct {
	// availabilityZone that the reservation is in.
	// +required
	AvailabilityZone string `json:"availabilityZone"`
	// endTime is when the reservation ends; unset if it has no end.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty" hash:"ignore"`
	// id of the reservation.
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +required
	ID string `json:"id"`
	// instanceMatchCriteria: open or targeted.
	// +kubebuilder:validation:Enum=open;targeted
	// +required
	InstanceMatchCriteria string `json:"instanceMatchCriteria"`
	// instanceType that is reserved.
	// +required
	InstanceType string `json:"instanceType"`
	// ownerID is the account that owns the reservation.
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +required
	OwnerID string `json:"ownerID"`
	// reservationType: default for an on-demand capacity reservation, capacity-block for a block of GPU time.
	// +kubebuilder:default=default
	// +optional
	ReservationType CapacityReservationType `json:"reservationType"`
	// interruptible reservations can be taken back by their owner.
	// +optional
	Interruptible bool `json:"interruptible"`
	// state: active, or expiring when it is about to end and nodes on it are being drained.
	// +kubebuilder:default=active
	// +optional
	State CapacityReservationState `json:"state"`
}

// CapacityReservationType is the kind of a reservation.
// +kubebuilder:validation:Enum=default;capacity-block
type CapacityReservationType string

// The kinds of capacity reservation.
const (
	CapacityReservationTypeDefault       CapacityReservationType = "default"
	CapacityReservationTypeCapacityBlock CapacityReservationType = "capacity-block"
)

// CapacityReservationState says whether a reservation can still be launched into.
// +kubebuilder:validation:Enum=active;expiring
type CapacityReservationState string

// The states of a capacity reservation.
const (
	CapacityReservationStateActive   CapacityReservationState = "active"
	CapacityReservationStateExpiring CapacityReservationState = "expiring"
)
