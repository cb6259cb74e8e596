package telemetry

import "time"

// PoolUse is what a pool of connections looks like at a moment, for figures that are read when they are asked for.
type PoolUse struct {
	// Most is how many connections the pool may have; InUse and Idle are those that it has. Those that are being made are in neither.
	Most, InUse, Idle int64
	// Waits counts the calls that found no idle connection, and Waited is how long they have waited for one, together.
	Waits  int64
	Waited time.Duration
	// Resets counts how often all connections were thrown away because they had gone silent.
	Resets int64
}
