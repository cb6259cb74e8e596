package flaw

// All lists the flaws in the order of their sources.
func All() []*Flaw { return nil }
