// Package kube is a Kubernetes API server in memory, and caches of it that lag behind as far as somebody wants them to. It decides
// nothing by itself: it has no goroutine, no clock and no randomness but those that it is given, so that the same calls in the same
// order give the same answers.
package kube
