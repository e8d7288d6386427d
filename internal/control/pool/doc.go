// Package pool keeps what a NodePool says of itself true: whether it can be used, the hash that its claims are compared
// with, how much it holds, and whether its instances join. It writes pools' status and annotations, and on claims only the
// hash annotations. The caller gives clients, clock and rules.
package pool
