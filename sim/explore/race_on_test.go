//go:build race

package explore

// raceEnabled reports whether the race detector watches these tests.
const raceEnabled = true
