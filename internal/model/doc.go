// Package model says what there is in a cluster and why, once: a node with its state and its price, what pods that are pending wait
// for and the main reason, a plan, a move, and what all of it costs. The commands, the dashboard's API and the ledger make their
// answers of these values and never of their own, so that two of them cannot say different things about the same object. The
// field names here are those of every document that a program may read.
//
// The package decides nothing and has no clock: it writes down views, plans and decisions that its caller has.
package model
