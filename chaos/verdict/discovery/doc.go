// Package discovery measures what a green result is worth: how many distinct situations the runs of
// a scenario showed, how many more runs would add, and how often a run may still fail although none
// did.
//
// Each run gives the set of situations that it showed (Collector). Counts holds the number of runs
// in which each was seen, and the estimates need nothing else: the number of situations that few
// runs have seen tells how many no run has seen (Good and Toulmin, Biometrika 43 (1956) 45–63). A
// situation counts once per run, however often the run shows it, because moments of one run are not
// independent, while runs of different seeds are.
//
// The estimates hold for more seeds that are drawn in the same way. They know nothing about
// situations that no seed of a scenario can show.
package discovery
