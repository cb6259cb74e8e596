package servers

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"handoff/core/testenv"
)

// If a server starts processes while it is being killed, Kill ends these too. PostgreSQL starts a backend
// whenever a client connects. A backend that is missed keeps the shared memory, and the next start fails.
func TestKillEndsProcessesBeingStarted(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err) // the rest of the test relies only on the kernel
	}
	g, err := startGuard("")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	}()
	rounds := 5
	if testenv.All() {
		rounds = 20
	}
	for round := range rounds {
		dir := t.TempDir()
		c, err := startChild(&program{
			name: "a server that starts processes", path: shell, dir: dir, log: filepath.Join(dir, "log"), env: serverEnv(dir),
			// Like a PostgreSQL backend, each process leads its own session, so no signal to the server's
			// group reaches it. At most two hundred start.
			args: []string{"-c", "for i in {1..200}; do setsid sleep 20 & done; wait"},
		}, g)
		if err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(testenv.Patience()); len(descendantPIDs(c.pid)) < 3; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal("the server starts nothing")
			}
		}
		c.kill()
		left := processesUnder(dir)
		for _, pid := range left {
			signalProcess(pid, sigKill)
		}
		if len(left) > 0 {
			t.Fatalf("round %d: processes %v remain", round, left)
		}
	}
}
