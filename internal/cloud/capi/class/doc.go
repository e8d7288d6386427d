// Package class has the reconcilers of what is Cluster API's own: the status of ClusterAPINodeClasses, and the end of claims whose Machine
// somebody else has deleted or that has failed. They are thin: package capi decides.
package class
