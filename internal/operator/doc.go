// Package operator makes a running controller of the parts: it reads flags and environment, makes the real clock, the
// clients and the logger, finds out what cluster it serves, wires the reconcilers, and sees to the lease, the endpoints for
// metrics and health, and an orderly end.
//
// It decides nothing about nodes. What it is told wrongly it refuses at the start, by name; what fails later it reports on
// /healthz and /readyz.
package operator
