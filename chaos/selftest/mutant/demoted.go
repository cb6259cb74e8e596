package mutant

func init() {
	registerMutants(
		// keptDemoted is the pool before it gave up connections to a server that is no longer the primary.
		Mutant{
			Name: "kept-demoted", Source: "C4", Expected: 17, Scenario: "demoted-database",
			About:       "a connection over which writes are refused is kept, although a new one would reach the primary",
			Connections: func(c *Connections) { c.KeepDemoted = true },
		},
	)
}
