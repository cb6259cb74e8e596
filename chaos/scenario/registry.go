package scenario

import "handoff/chaos/verdict"

// Sometimes lists every situation that `sometimes` may name, which the verdict counts.
func Sometimes() []verdict.Situation { return verdict.Situations() }
