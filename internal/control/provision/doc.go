// Package provision turns pods that nothing can place into NodeClaims: it gathers triggers into batches, has the engine plan
// over one view of the cluster, creates the claims of the plan, and tells users what was decided and why.
//
// The plan is the engine's; this package decides only when to ask for one, and at the moment of acting whether a claim still
// stays within its pool's limits. It reads the cluster through the mirror alone, writes NodeClaims and events, and takes the
// clock from its caller. Nothing in here waits for an object to appear: what has been created counts at once.
package provision
