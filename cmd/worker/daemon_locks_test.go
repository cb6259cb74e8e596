package main

import (
	"testing"

	"handoff/core/config"
)

// The lock timeout must be shorter than a call's timeout. Otherwise a call that waits for a lock can't retry
// row by row.
func TestCallsOutlastTheirLockTimeout(t *testing.T) {
	c := config.Default(config.Hardened)
	if got := storeOptions(&c).LockTimeout; got <= 0 || got > c.Worker.StatementTimeout/2 {
		t.Errorf("a statement waits %v for a lock, and a call lasts %v", got, c.Worker.StatementTimeout)
	}
}
