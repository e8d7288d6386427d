// Package buffer keeps what CapacityBuffers ask for in front of everything that decides: it finds the template and the number of spare
// pods of each buffer, shows them to the mirror, and writes the buffer's status. Room for them is found by plans and moves, which see
// them in every snapshot.
//
// It reads workloads from the API server, past the cache, when their generation changes: the cache does not keep their templates. Every
// replica resolves buffers, so that one that takes over knows them before it decides; only the leader writes.
package buffer
