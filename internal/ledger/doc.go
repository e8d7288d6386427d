// Package ledger keeps decisions as data: what was decided, about what, why, at which price, and what came of it. Entries go
// into a bounded ring in memory, and to files if asked; recordings hold everything that a decision was made from, so that it
// can be made again elsewhere.
package ledger
