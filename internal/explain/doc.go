// Package explain answers questions about a cluster at one moment: why a pod waits, why a node is still there, what becomes of a
// claim, what a pool may do, what came of a move. An answer says what is the matter in a sentence, on what that rests, what
// comes nearest and at which price, and the smallest change that would flip it.
//
// Nothing is derived a second time here. Reasons are those that the engine gives when it decides; a smallest change is found by
// putting the same question to the engine with something changed, and taking the first change with which the answer is
// another. The package is pure: the caller hands in a view, what is known besides, and the moment.
package explain
