// Package migrate holds the ways in and out against a real API server and the pocket AWS: a cluster that the reference
// implementation has left behind is taken over and handed back, and node groups become pools.
package migrate
