package aws

import (
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

// Kind is EC2NodeClass.
func Kind() cloud.Kind {
	of := func(c cloud.NodeClass) *awsv1.EC2NodeClass { return c.(*awsv1.EC2NodeClass) }
	return cloud.Kind{
		GroupVersionKind: awsv1.SchemeGroupVersion.WithKind(awsv1.EC2NodeClassKind), Resource: "ec2nodeclasses",
		AddToScheme: awsv1.AddToScheme,
		New:         func() cloud.NodeClass { return &awsv1.EC2NodeClass{} }, Finalizer: awsv1.TerminationFinalizer,
		Conditions: func(c cloud.NodeClass) []karpv1.Condition { return of(c).Status.Conditions },
		Ready:      func(c cloud.NodeClass) karpv1.Condition { return *of(c).StatusConditions(true).Root() },
		// The cluster's certificate authority is part of what claims carry, and the same for both.
		Hash: func(c cloud.NodeClass) string { return of(c).Hash("") }, DriftReason: awsv1.ReasonNodeClassDrift,
		Labels: awsv1.LabelRules, Aliases: map[string]string{awsv1.LabelCSIZone: corev1.LabelTopologyZone}, Domains: []string{awsv1.Group, "topology.k8s.aws"},
	}
}
