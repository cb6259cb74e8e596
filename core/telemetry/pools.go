package telemetry

import "time"

// PoolUse is a snapshot of a pool of connections, for figures that are read at each scrape.
type PoolUse struct {
	// Most is the maximum number of connections. InUse and Idle count existing ones, without those that are
	// being opened.
	Most, InUse, Idle int64
	// Waits counts the calls that found no idle connection. Waited is their total waiting time.
	Waits  int64
	Waited time.Duration
	// Resets counts how often all connections were closed because they were silent or refused writes.
	Resets int64
}

// The figures of pools, in addition to those of Table. They are read at each scrape, so the core
// does not report them.
const (
	PoolConnections = "handoff_database_connections"
	PoolWaits       = "handoff_database_connection_waits_total"
	PoolWaited      = "handoff_database_connection_wait_seconds_total"
	PoolResets      = "handoff_database_pool_resets_total"
)

// PoolFigures returns the names of the figures of pools.
func PoolFigures() []string { return []string{PoolConnections, PoolWaits, PoolWaited, PoolResets} }
