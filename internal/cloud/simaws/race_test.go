//go:build race

package simaws

// raceDetector says that the tests were built with the race detector.
const raceDetector = true
