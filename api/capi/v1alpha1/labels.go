package v1alpha1

import karpv1 "karpenter/api/karpenter/v1"

// Labels.
const (
	// LabelNodeClass names the ClusterAPINodeClass of a claim or a node.
	LabelNodeClass = Group + "/clusterapinodeclass"
	// LabelMember is on scalable resources that Karpenter may scale, whatever its value.
	LabelMember = "node.cluster.x-k8s.io/karpenter-member"
	// LabelBatch is on Machines that belong to claims: the batch that they were launched with.
	LabelBatch = Group + "/batch"

	// LabelInstanceCPU and LabelInstanceMemory describe an instance type: CPUs, and MiB.
	LabelInstanceCPU    = "capacity." + Group + "/cpu"
	LabelInstanceMemory = "capacity." + Group + "/memory"
)

// Annotations of scalable resources.
const (
	// PriceAnnotationKey is what a node of the scalable resource costs per hour in dollars, for example "0.42".
	PriceAnnotationKey = Group + "/price"
	// RecordAnnotationKey is where Karpenter keeps which claims it has raised the replicas for, and which Machines it has lowered them for.
	RecordAnnotationKey = Group + "/record"
	// LoweredAnnotationKey names, on a MachineSet of a MachineDeployment in a rollout, Machines that its replicas were lowered for.
	LoweredAnnotationKey = Group + "/lowered-for"
)

// Annotations of Machines that belong to claims.
const (
	ClaimAnnotationKey    = Group + "/claim"
	ClaimUIDAnnotationKey = Group + "/claim-uid"
	// ResourceAnnotationKey names the scalable resource that the Machine was made by: its kind and name.
	ResourceAnnotationKey = Group + "/scalable-resource"
	// BatchAnnotationKey is the batch that the claim was launched with, in full.
	BatchAnnotationKey = Group + "/launch-batch"
	// PoolAnnotationKey and ClassAnnotationKey name the claim's NodePool and ClusterAPINodeClass.
	PoolAnnotationKey  = karpv1.NodePoolLabelKey
	ClassAnnotationKey = LabelNodeClass
)

// Annotations of claims, and of nodes, which Cluster API gives the same.
const (
	// MachineAnnotationKey names the claim's Machine, ClusterNameAnnotationKey and ClusterNamespaceAnnotationKey where it is.
	MachineAnnotationKey          = "cluster.x-k8s.io/machine"
	ClusterNameAnnotationKey      = "cluster.x-k8s.io/cluster-name"
	ClusterNamespaceAnnotationKey = "cluster.x-k8s.io/cluster-namespace"
)

// TerminationFinalizer keeps a class until no claim uses it.
const TerminationFinalizer = Group + "/termination"

// LabelRules returns the rules for label keys: the core ones, and the closed domain karpenter.cluster.x-k8s.io.
func LabelRules() karpv1.LabelRules {
	rules := karpv1.CoreLabelRules()
	rules.WellKnown.Insert(LabelNodeClass, LabelInstanceCPU, LabelInstanceMemory)
	rules.Restricted = append(rules.Restricted, Group)
	return rules
}
