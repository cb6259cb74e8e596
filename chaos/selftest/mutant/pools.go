package mutant

import "handoff/core/config"

// This file plants mistakes in the way processes keep their connections to the database.

func init() {
	registerMutants(
		Mutant{
			Name: "dead-pool", Source: "C4", Expected: 17, Scenario: "silent-database-connections",
			About: "heartbeats share the pool of all calls, and pings of idle connections have no time limit: each attempt waits for another dead connection",
			Config: func(c *config.Config) {
				c.Database.HeartbeatConnections, c.Database.PingTimeout = 0, 0
			},
		},
	)
}
