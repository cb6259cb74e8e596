// Package discovery measures how much a green result is worth: how many distinct situations a scenario's runs
// showed, how many further runs would add, and how often runs may still fail although none did.
//
// Each run yields the set of its situations (Collector). Counts holds the number of runs in which each
// situation was seen. The estimates need nothing else, because the number of situations seen in few runs
// predicts the number seen in none (Good and Toulmin, Biometrika 43 (1956) 45–63). A situation counts once
// per run, however often the run shows it, because events of one run are not independent, while runs with
// different seeds are.
//
// The estimates hold for further seeds drawn in the same way. They ignore situations that no seed of a
// scenario can show.
package discovery
