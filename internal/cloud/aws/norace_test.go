//go:build !race

package aws

// raceDetector says that the tests were built with the race detector, which makes them slow.
const raceDetector = false
