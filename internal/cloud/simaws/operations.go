package simaws

import (
	"maps"
	"slices"
	"strings"
)

// operations holds every operation by service and name.
var operations = map[string]map[string]*operation{
	"ec2": ec2Operations, "iam": iamOperations, "sts": stsOperations, "sqs": sqsOperations, "ssm": ssmOperations,
	"pricing": pricingOperations, "eks": eksOperations, "arc-zonal-shift": arcOperations, "events": eventsOperations,
	"fis": fisOperations, "cloudformation": cloudformationOperations, "autoscaling": autoscalingOperations,
}

// Operations lists what the world understands, as service:Operation, sorted.
func Operations() []string {
	var out []string
	for service, ops := range operations {
		for name := range ops {
			out = append(out, service+":"+name)
		}
	}
	slices.Sort(out)
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// translate gives errors that handlers share between services the name they
// have in the call's own service.
func (c *call) translate(e *apiError) *apiError {
	if c.proto == protoQuery && c.service == "sqs" {
		return &apiError{Status: e.Status, Code: sqsQueryCode(e.Code), Message: e.Message}
	}
	return e
}

// note says in a few words what a call was about, for the log.
func (c *call) note() string {
	if c.q == nil {
		return strings.Join(c.rest, " ")
	}
	var parts []string
	for _, name := range []string{"LaunchTemplateName", "RoleName", "InstanceProfileName", "StackName", "QueueName", "GroupName", "Name"} {
		if v := c.q.str(name); v != "" {
			parts = append(parts, v)
		}
	}
	for _, name := range []string{"InstanceId", "ResourceId", "LaunchTemplateId", "SubnetId", "ImageId"} {
		if n := c.q.at(name); n != nil && n.kids != nil {
			parts = append(parts, shortList(c.q.strs(name)))
		}
	}
	if n := c.q.str("TargetCapacitySpecification.TotalTargetCapacity"); n != "" {
		parts = append(parts, n+" × "+c.q.str("TargetCapacitySpecification.DefaultTargetCapacityType"))
	}
	return strings.Join(parts, " ")
}

// shortList names the first few of many.
func shortList(all []string) string {
	if len(all) > 3 {
		return strings.Join(all[:3], ",") + ",…"
	}
	return strings.Join(all, ",")
}
