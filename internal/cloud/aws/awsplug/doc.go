// Package awsplug plugs the AWS provider into the controller: its settings, the SDK's configuration, what EKS and the API server say of
// the cluster that nodes join, and the reconcilers of what is AWS's own.
package awsplug
