package main

import (
	"testing"

	"handoff/core/config"
)

// The lock timeout is shorter than a call's, so that a call that has waited for a lock can retry row by row.
func TestCallsOutlastTheirLockTimeout(t *testing.T) {
	c := config.Default(config.Hardened)
	if got := storeOptions(&c).LockTimeout; got <= 0 || got > c.Worker.StatementTimeout/2 {
		t.Errorf("a statement waits %v for a lock, and a call lasts %v", got, c.Worker.StatementTimeout)
	}
}
