// Package disruption disrupts nodes voluntarily: those that are empty, that have drifted, or whose pods cost less elsewhere.
// What to do is decided by engine/disrupt; this package finds out which nodes have drifted or been quiet for long enough, and
// carries moves out, many at a time and within budgets.
//
// A move is written on the objects that it is about before it has any effect: the claims that go name the claims that replace
// them, and the other way round. So a process that takes over goes on where the one before stopped. No node is removed
// before everything that replaces it is up; if that fails, everything is put back as it was.
package disruption
