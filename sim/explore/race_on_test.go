//go:build race

package explore

// raceEnabled says that the race detector watches these tests.
const raceEnabled = true
