package servers

import (
	"os/exec"
	"testing"
	"time"

	"handoff/core/testenv"
)

// However a process ends, its containers are removed: at once if the guard has a docker client, otherwise at
// the next start.
func TestContainersEndWithTheirProcess(t *testing.T) {
	e := engine(t)
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip("no docker client: the next start removes them, as TestNextStartRemovesLeftoverContainers shows")
	}
	t.Setenv(ImagePostgres, postgresImage())
	for _, mode := range []string{"interrupt", "killed by -9", "paused"} {
		c, dirs, _ := startVictim(t, mode)
		if count(t, e, dirs[0]) != 1 {
			t.Fatalf("%s: the other process made no container", mode)
		}
		if mode == "interrupt" {
			check(t, c.Process.Signal(sigInt))
		} else {
			check(t, c.Process.Kill())
		}
		_ = c.Wait() // it was killed
		for deadline := time.Now().Add(testenv.Patience()); count(t, e, dirs[0]) != 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: its container outlives it", mode)
			}
		}
	}
}
