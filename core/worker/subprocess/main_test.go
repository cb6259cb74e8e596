package subprocess

import (
	"os"
	"testing"
)

// TestMain is three programs: the shim of the runners under test, a worker that other tests stop and
// kill, and the tests.
func TestMain(m *testing.M) {
	ShimMain()
	workerMain()
	_ = os.Setenv("HANDOFF_DATABASE_URL", "postgres://worker:secret@db/handoff")
	code := m.Run()
	if code == 0 && leftovers() {
		code = 1
	}
	os.Exit(code)
}
