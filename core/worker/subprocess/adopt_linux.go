package subprocess

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// shims holds the shims that this process has started. All its other children are adopted.
var shims = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// startShim starts a shim. The lock keeps killOrphans from finding the child before it is in shims.
func startShim(c *exec.Cmd) error {
	shims.Lock()
	defer shims.Unlock()
	if err := c.Start(); err != nil {
		return err
	}
	shims.pids[c.Process.Pid] = true
	return nil
}

// waitShim waits for a shim and reaps it.
func waitShim(c *exec.Cmd) {
	_ = c.Wait() // its reports contain all that its exit status could show
	shims.Lock()
	defer shims.Unlock()
	delete(shims.pids, c.Process.Pid)
}

// killOrphans kills and reaps everything that a killed shim has left. Every child that is not a shim is a
// shim's descendant, because this process adopts orphans. A child's process id is not reused until it is
// reaped here.
func killOrphans() {
	if !adopts.Load() {
		return
	}
	for deadline := time.Now().Add(answerTimeout); time.Now().Before(deadline); {
		orphans := findOrphans()
		if len(orphans) == 0 {
			return
		}
		for _, pid := range orphans {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range orphans {
			var status syscall.WaitStatus
			if got, err := waitChild(pid, &status, syscall.WNOHANG); err == nil && got == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// findOrphans returns the children of this process that are not shims.
func findOrphans() (found []int) {
	shims.Lock()
	defer shims.Unlock()
	children, err := childrenOf(os.Getpid())
	if err != nil {
		return nil
	}
	for _, pid := range children {
		if !shims.pids[pid] {
			found = append(found, pid)
		}
	}
	return found
}
