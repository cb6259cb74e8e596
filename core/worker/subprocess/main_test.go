package subprocess

import (
	"os"
	"testing"
)

// TestMain runs one of three programs: a shim of the runners under test, a worker that tests stop and kill,
// or the tests.
func TestMain(m *testing.M) {
	ShimMain()
	workerMain()
	isolatedMain()
	shimKeeps = append(shimKeeps, "GORACE")
	_ = os.Setenv("HANDOFF_DATABASE_URL", "postgres://worker:secret@db/handoff")
	// Under the race detector, each process takes an extra second to exit, and so does each shim.
	_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	code := m.Run()
	if code == 0 && leftovers() {
		code = 1
	}
	os.Exit(code)
}
