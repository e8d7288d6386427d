// Package conversion holds v1beta1 to its word on a real API server: manifests that people have can be applied as they are, mean
// in v1 what they meant, and read back as they were written; v1 needs nothing of it.
package conversion
