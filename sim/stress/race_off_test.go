//go:build !race

package stress

// raceDetector reports whether these tests were built with -race.
const raceDetector = false
