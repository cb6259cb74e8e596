package mutant

import (
	"time"

	"handoff/core/config"
)

func init() {
	registerMutants(
		Mutant{
			Name: "stops-late", Source: "D40", Expected: 10, Scenario: "shutdown-timeout",
			About:  "a worker that stops lets its actions run 8 seconds longer than its shutdown timeout",
			Config: func(c *config.Config) { c.Worker.ShutdownTimeout += 8 * time.Second },
		},
		Mutant{
			Name: "stops-hastily", Source: "D40", Expected: 10, Scenario: "shutdown-timeout",
			About:  "a worker that stops ends its actions when half of its shutdown timeout is over",
			Config: func(c *config.Config) { c.Worker.ShutdownTimeout /= 2 },
		},
	)
}
