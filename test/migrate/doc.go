// Package migrate holds the ways in and out against a real API server and the AWS simulator: a cluster that upstream
// Karpenter has left behind is taken over and handed back, and node groups become pools.
package migrate
