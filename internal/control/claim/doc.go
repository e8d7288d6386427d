// Package claim follows a NodeClaim from its creation until somebody deletes it: launch, registration and initialization of
// its node, their deadlines, expiry, consistency, and the search for claims without instances and instances without claims.
//
// What to do next, and what counts as proof, is decided by package life; this package loads, carries out and tells. A claim is
// on record before its instance is launched, and a launch whose outcome is not known is repeated under the same token, so
// that a process may end at any point. Draining and the end of instances belong to package drain: here claims are only deleted.
//
// The caller gives a client that reads from a cache with the indexes of Index, one that does not, the cloud, and the clock.
// One claim, batch or pool that fails delays itself only.
package claim
