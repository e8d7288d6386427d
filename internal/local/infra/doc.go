// Package infra is a simulated infrastructure provider of Cluster API: its controllers keep the contract v1beta2 for the kinds SimCluster,
// SimControlPlane, SimMachine and SimMachineTemplate.
//
// It decides when an instance is provisioned, out of stock, failed or gone, from the objects and the clock alone, so that it can be stopped and
// started at any time. Its caller runs the kubelets (Nodes) and Cluster API's own controllers. It writes to the management cluster and logs nothing.
package infra
