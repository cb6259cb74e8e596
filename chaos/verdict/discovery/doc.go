// Package discovery says how much a green result is worth: how many distinct situations the runs of a scenario showed,
// how many more runs would add, and how often a run may still fail although none did.
//
// Each run gives the set of situations that it showed (Collector). Counts says in how many runs each was seen, and that is
// all that the estimates need: what few runs have seen tells how much none has (Good and Toulmin, Biometrika 43 (1956)
// 45–63). A situation counts once a run, however often the run shows it, because moments of one run are not independent
// and runs of different seeds are.
//
// The estimates speak of seeds that are drawn like those that were run: of more of the same. What no seed of a scenario
// can show, they can't know.
package discovery
