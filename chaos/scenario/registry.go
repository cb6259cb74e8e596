package scenario

import "handoff/chaos/verdict"

// Sometimes lists every situation that `sometimes` may name: those that the verdict counts.
func Sometimes() []verdict.Situation { return verdict.Situations() }
