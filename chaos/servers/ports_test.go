//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package servers

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// Sandboxes and other harnesses choose ports long before they listen on them, so chosen ports are reserved.
func TestChosenPortsAreReserved(t *testing.T) {
	const asked = "HANDOFF_TEST_CLAIM"
	if port, err := strconv.Atoi(os.Getenv(asked)); err == nil {
		if claimPort(port) {
			os.Exit(3)
		}
		os.Exit(4)
	}
	seen := make(map[int]bool)
	var last int
	for range mostRecentPorts / 10 {
		ports, err := FreePorts(10)
		check(t, err)
		for _, port := range ports {
			if seen[port] {
				t.Fatalf("port %d was chosen twice", port)
			}
			seen[port], last = true, port
		}
	}
	elsewhere := func(port int) int {
		t.Helper()
		self := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		self.Env = append(os.Environ(), asked+"="+strconv.Itoa(port))
		_ = self.Run() // only its exit code counts
		return self.ProcessState.ExitCode()
	}
	if code := elsewhere(last); code != 4 {
		t.Errorf("another process got the port that this one has chosen: exit %d", code)
	}
	var first int
	recentPorts.Lock()
	first = recentPorts.ports[0]
	recentPorts.Unlock()
	_, err := FreePorts(1)
	check(t, err)
	if code := elsewhere(first); code != 3 {
		t.Errorf("a port that was chosen long ago is still reserved: exit %d", code)
	}
}
