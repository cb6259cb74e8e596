//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package servers

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// setProcess gives the command its own process group and the given user. This system can't kill a child when
// its parent dies; the guard does.
func setProcess(cmd *exec.Cmd, user *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user.sysCredential()}
}

// descendantPIDs returns the direct children of pid: deeper descendants of a server don't matter.
func descendantPIDs(pid int) []int {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	var pids []int
	for _, f := range strings.Fields(string(out)) {
		if p, err := strconv.Atoi(f); err == nil {
			pids = append(pids, p)
		}
	}
	return pids
}

func anyAlive(pids []int) bool {
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			return true
		}
	}
	return false
}

// isHalted can't be determined on this system; suspendTree lists descendants at least twice.
func isHalted(int) bool { return true }

// processesUnder returns no processes, because this system does not show their current directories.
func processesUnder(string) []int { return nil }
