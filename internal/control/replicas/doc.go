// Package replicas keeps static pools at the number of nodes that they are to have: it creates claims where nodes are missing, and deletes
// claims where there are too many.
//
// How many, which and why is the engine's decision; this package decides when to ask. It reads the cluster through the mirror, and before it
// changes anything the claims of the pool from the API server too, so that neither a cache that is behind nor a process that led before makes it
// create or delete one too many. Drift and repair of static pools are package disruption's.
package replicas
