package scenario

import "handoff/chaos/verdict"

// Sometimes lists every situation that `sometimes` may name: those that a run counts.
func Sometimes() []verdict.Situation { return verdict.Situations() }
