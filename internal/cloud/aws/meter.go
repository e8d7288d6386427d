package aws

import (
	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/meter"
)

// Metrics of AWS alone (aws §7.5).
const (
	UserDataBytes      meter.Name = "ec2nodeclasses_userdata_bytes"
	SDKRequests        meter.Name = "aws_sdk_go_request_total"
	SDKRetries         meter.Name = "aws_sdk_go_request_retry_count"
	SDKDuration        meter.Name = "aws_sdk_go_request_duration_seconds"
	SDKAttempts        meter.Name = "aws_sdk_go_request_attempt_total"
	SDKAttemptDuration meter.Name = "aws_sdk_go_request_attempt_duration_seconds"
)

// Meter is what the provider adds to the table of metrics.
func Meter() meter.Cloud {
	call := []string{"service", "action", "code"}
	return meter.Cloud{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Metrics: []meter.Metric{
		{Name: UserDataBytes, Kind: meter.Gauge, ID: "aws-7.5", Labels: []string{"nodeclass"}, Help: "Size of the user data that a class makes."},
		{Name: SDKRequests, Bare: true, Kind: meter.Counter, ID: "aws-7.5", Labels: call, Help: "Calls to AWS, attempts of one call counted once, by the status of the last answer."},
		{Name: SDKRetries, Bare: true, Kind: meter.Histogram, ID: "aws-7.5", Labels: call, Buckets: []float64{0, 1, 2, 3, 4, 5, 10}, Help: "Attempts after the first, by call."},
		{Name: SDKDuration, Bare: true, Kind: meter.Histogram, ID: "aws-7.5", Labels: call, Buckets: growing(), Help: "Time that calls to AWS took, attempts and waits included."},
		{Name: SDKAttempts, Bare: true, Kind: meter.Counter, ID: "aws-7.5", Labels: call, Help: "Attempts at calls to AWS, by the status of the answer."},
		{Name: SDKAttemptDuration, Bare: true, Kind: meter.Histogram, ID: "aws-7.5", Labels: call, Buckets: growing(), Help: "Time that single attempts took."},
	}, NodeLabels: []string{
		"karpenter.k8s.aws/ec2nodeclass", "karpenter.k8s.aws/instance-category", "karpenter.k8s.aws/instance-family",
		"karpenter.k8s.aws/instance-generation", "karpenter.k8s.aws/instance-size", "karpenter.k8s.aws/instance-cpu",
		"karpenter.k8s.aws/instance-cpu-manufacturer", "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
		"karpenter.k8s.aws/instance-memory", "karpenter.k8s.aws/instance-ebs-bandwidth", "karpenter.k8s.aws/instance-network-bandwidth",
		"karpenter.k8s.aws/instance-local-nvme", "karpenter.k8s.aws/instance-hypervisor",
		"karpenter.k8s.aws/instance-encryption-in-transit-supported", "karpenter.k8s.aws/instance-capability-flex",
		"karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-manufacturer", "karpenter.k8s.aws/instance-gpu-count",
		"karpenter.k8s.aws/instance-gpu-memory", "karpenter.k8s.aws/instance-accelerator-name",
		"karpenter.k8s.aws/instance-accelerator-manufacturer", "karpenter.k8s.aws/instance-accelerator-count",
		"karpenter.k8s.aws/instance-tenancy", "karpenter.k8s.aws/nitro-sandbox", "karpenter.k8s.aws/capacity-reservation-id",
		"karpenter.k8s.aws/capacity-reservation-type", "karpenter.k8s.aws/capacity-reservation-interruptible",
		"karpenter.k8s.aws/placement-group-id", "karpenter.k8s.aws/placement-group-partition", "topology.k8s.aws/zone-id",
	}}
}

// growing are 10 ms to 22 s, each half as much again as the one before.
func growing() []float64 {
	buckets := make([]float64, 20)
	for i, v := 0, .01; i < len(buckets); i, v = i+1, v*1.5 {
		buckets[i] = v
	}
	return buckets
}
