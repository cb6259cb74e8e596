package subprocess

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// shims are the children that this process started itself.
var shims = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// startShim starts a shim. Nobody sees a child that is not known yet.
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
	_ = c.Wait() // its exit says nothing that its reports don't
	shims.Lock()
	defer shims.Unlock()
	delete(shims.pids, c.Process.Pid)
}

// killOrphans kills and reaps what a shim that was killed has left, until there is nothing. Whoever is not a shim is a
// descendant of one: the dead leave their children to this process. A number of a child stays its own until it is
// reaped here.
func killOrphans() {
	if !adopts.Load() {
		return
	}
	for deadline := time.Now().Add(answerTimeout); time.Now().Before(deadline); {
		orphans := orphans()
		if len(orphans) == 0 {
			return
		}
		for _, pid := range orphans {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range orphans {
			var status syscall.WaitStatus
			if got, err := wait(pid, &status, syscall.WNOHANG); err == nil && got == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// orphans are the children of this process that are no shims.
func orphans() (found []int) {
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
