//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processor is the processor time that a process has used, including all its threads and those that
// have ended.
func processor(pid int) time.Duration {
	var at unix.Timespec
	// The kernel's way to name the clock of a process (clock_getcpuclockid).
	const perProcess = 2
	if unix.ClockGettime(int32(^pid)<<3|perProcess, &at) != nil {
		return 0
	}
	return time.Duration(at.Nano())
}

// memoryOf reads a line of /proc/PID/status, in bytes: VmRSS is the present memory of the process,
// VmHWM its largest since resetPeak. It returns 0 if the process is gone.
func memoryOf(pid int, line string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for l := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(l, ":"); ok && name == line {
			kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

// resetPeak restarts the measurement of VmHWM.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// marked finds the processes, except this one, with a text in their environment or command line.
func marked(mark string) []int {
	var found []int
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, name := range []string{"environ", "cmdline"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && bytes.Contains(text, []byte(mark)) {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// killMarked kills the processes with a mark, which only those of an attack have.
func killMarked(mark string) {
	for _, pid := range marked(mark) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// parentOf is the id of a process's parent, 0 if the process is gone.
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, _ := strconv.Atoi(fields[1])
	return parent
}
