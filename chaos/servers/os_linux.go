package servers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// setProcess gives the command its own process group and the given user. It makes the kernel kill the command
// when its parent thread dies, which is always the spawner's. The signal is SIGKILL, because a paused process
// would not act on any other.
func setProcess(cmd *exec.Cmd, user *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: user.sysCredential()}
}

// processStat returns a process's parent and its state, a letter from proc(5).
func processStat(pid int) (parent int, state byte, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	// The name, in parentheses, may contain any character; the fields after it can't.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, fields[0][0], err == nil
}

func processIDs() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// descendantPIDs returns all descendants of the process pid.
func descendantPIDs(pid int) []int {
	children := map[int][]int{}
	for _, p := range processIDs() {
		if parent, _, ok := processStat(p); ok {
			children[parent] = append(children[parent], p)
		}
	}
	out := children[pid]
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}

// anyAlive reports whether any of the processes still runs. A zombie doesn't count: it holds no resources.
func anyAlive(pids []int) bool {
	for _, pid := range pids {
		if _, state, ok := processStat(pid); ok && state != 'Z' && state != 'X' {
			return true
		}
	}
	return false
}

// isHalted reports whether a process has stopped or is gone, and so can't start more processes.
func isHalted(pid int) bool {
	_, state, ok := processStat(pid)
	return !ok || strings.IndexByte("TtZX", state) >= 0
}

// processesUnder returns the processes whose current directory is in dir. Only servers have such a directory.
func processesUnder(dir string) []int {
	var out []int
	for _, pid := range processIDs() {
		cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
		if err != nil || pid == os.Getpid() {
			continue
		}
		cwd = strings.TrimSuffix(cwd, " (deleted)")
		if rel, err := filepath.Rel(dir, cwd); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			out = append(out, pid)
		}
	}
	return out
}
