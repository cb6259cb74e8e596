package mutant

func init() {
	registerMutants(
		// This restores the pool that keeps connections to a server which is no longer the primary.
		Mutant{
			Name: "kept-demoted", Source: "C4", Expected: 17, Scenario: "demoted-database",
			About:       "a connection over which writes are refused is kept, although a new one would reach the primary",
			Connections: func(c *Connections) { c.KeepDemoted = true },
		},
	)
}
