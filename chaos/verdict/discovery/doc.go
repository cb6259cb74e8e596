// Package discovery measures the worth of a green result: how many distinct situations the runs of a scenario
// showed, how many more runs would add, and how often runs may still fail although none did.
//
// Each run yields the set of its situations (Collector). Counts holds the number of runs in which each was
// seen, and the estimates need nothing else: the number of situations seen in few runs predicts the number
// seen in none (Good and Toulmin, Biometrika 43 (1956) 45–63). A situation counts once per run, however often
// the run shows it, because moments of one run are not independent, while runs of different seeds are.
//
// The estimates hold for further seeds drawn in the same way. They ignore situations that no seed of a
// scenario can show.
package discovery
