//go:build !race

package stress

// raceDetector reports whether the tests were built with -race.
const raceDetector = false
