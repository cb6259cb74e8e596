package subprocess

import (
	"os"
	"testing"
)

// TestMain runs one of three programs: the shim of the runners under test, a worker that other tests stop and
// kill, or the tests.
func TestMain(m *testing.M) {
	ShimMain()
	workerMain()
	isolatedMain()
	shimKeeps = append(shimKeeps, "GORACE")
	_ = os.Setenv("HANDOFF_DATABASE_URL", "postgres://worker:secret@db/handoff")
	// Under the race detector, a process and so a shim takes an extra second to exit.
	_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	code := m.Run()
	if code == 0 && leftovers() {
		code = 1
	}
	os.Exit(code)
}
