//go:build !race

package explore

// raceEnabled reports whether these tests were built with the race detector.
const raceEnabled = false
