//go:build !race

package stress

// raceDetector says that the tests were built with -race.
const raceDetector = false
