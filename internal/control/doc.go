// Package control holds the reconcilers, one file each: load, one decision, apply. It is the only part that writes to
// Kubernetes. The caller gives clients, clock and rules; nothing in here reads the environment.
package control
