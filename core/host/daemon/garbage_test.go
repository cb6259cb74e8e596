package daemon

import (
	"runtime/debug"
	"testing"
)

// Garbage is collected rarely, unless GOGC is set.
func TestCollectRarely(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOGC", "")
	CollectRarely()
	if percent := debug.SetGCPercent(150); percent != garbagePercent {
		t.Errorf("the heap may grow by %d %%, want %d", percent, garbagePercent)
	}
	t.Setenv("GOGC", "150")
	CollectRarely()
	if percent := debug.SetGCPercent(100); percent != 150 {
		t.Errorf("with GOGC=150 the heap may grow by %d %%, want 150", percent)
	}
}
