package telemetry

import "time"

// PoolUse is what a pool of connections looks like at a moment, for figures that are read when they are asked for.
type PoolUse struct {
	// Most is how many connections the pool may have; InUse and Idle are those that it has. Those that are being made are in neither.
	Most, InUse, Idle int64
	// Waits counts the calls that found no idle connection, and Waited is how long they have waited for one, together.
	Waits  int64
	Waited time.Duration
	// Resets counts how often all connections were thrown away because they had gone silent or refused writes.
	Resets int64
}

// The figures of pools, beside those of Table: they are read when somebody scrapes, so nobody reports them.
const (
	PoolConnections = "handoff_database_connections"
	PoolWaits       = "handoff_database_connection_waits_total"
	PoolWaited      = "handoff_database_connection_wait_seconds_total"
	PoolResets      = "handoff_database_pool_resets_total"
)

// PoolFigures are the names of the figures of pools.
func PoolFigures() []string { return []string{PoolConnections, PoolWaits, PoolWaited, PoolResets} }
