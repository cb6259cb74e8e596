//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// probeArgument turns this program into a probe, which an action runs to see what it can find of
// its worker.
const probeArgument = "look-for-secrets"

// secretPrefix begins every secret. The probe knows only the prefix, so that it does not find
// itself.
const secretPrefix = "attack-secret-"

var secret = regexp.MustCompile(secretPrefix + "[0-9a-f]{12}")

// loot is what the probe found.
type loot struct {
	// Ran distinguishes an empty loot from none.
	Ran bool `json:"ran"`
	// User is the id of the probe's user.
	User int `json:"user"`
	// Environment is how many secrets are in the probe's own environment. Environments is in how
	// many other processes' environments it could read one.
	Environment  int `json:"environment"`
	Environments int `json:"environments"`
	// Memories is in how many ancestors' memory it found a secret. Traced is to how many ancestors
	// it could attach.
	Memories int `json:"memories"`
	Traced   int `json:"traced"`
	// Opened is how many descriptors of its parent it could open, apart from its own.
	Opened int `json:"opened"`
	// Inherited are descriptors that it had at its start, apart from the first three.
	Inherited []string `json:"inherited"`
}

// probe searches, and writes its findings as one line.
func probe(_ []string, out io.Writer) int {
	l := loot{Ran: true, User: os.Getuid(), Inherited: inherited()}
	l.Environment = len(secret.FindAllString(strings.Join(os.Environ(), "\n"), -1))
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		if text, err := os.ReadFile(path); err == nil && secret.Match(text) {
			l.Environments++
		}
	}
	for _, pid := range ancestors() {
		if inMemory(pid) {
			l.Memories++
		}
		if traced(pid) {
			l.Traced++
		}
	}
	l.Opened = opened(os.Getppid())
	_ = json.NewEncoder(out).Encode(l) // if it fails, the reader is gone
	return 0
}

// inherited lists the descriptors that came through exec, because they do not close on exec.
func inherited() []string {
	found := []string{}
	for fd := 3; fd < 1024; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			found = append(found, fmt.Sprintf("%d %s", fd, link))
		}
	}
	return found
}

// ancestors are the shim and the worker, as far as they are visible, but not the process that
// started the worker.
func ancestors() []int {
	var found []int
	for pid := os.Getppid(); pid > 1 && len(found) < 3; pid = parentOf(pid) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if n := strings.TrimSpace(string(name)); n != "worker" && n != "exe" {
			break
		}
		found = append(found, pid)
	}
	return found
}

// inMemory searches a process's memory for a secret.
func inMemory(pid int) bool {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return false
	}
	defer func() { _ = maps.Close() }()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return false
	}
	defer func() { _ = memory.Close() }()
	const chunk, overlap = 1 << 20, 64
	buffer := make([]byte, chunk)
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		span, rest, _ := strings.Cut(lines.Text(), " ")
		from, to, _ := strings.Cut(span, "-")
		start, _ := strconv.ParseInt(from, 16, 64)
		end, err := strconv.ParseInt(to, 16, 64)
		if err != nil || !strings.HasPrefix(rest, "r") {
			continue
		}
		for at := start; at < end; at += chunk - overlap {
			n, _ := memory.ReadAt(buffer[:min(chunk, end-at)], at)
			if n == 0 {
				break // no such page
			}
			if i := bytes.Index(buffer[:n], []byte(secretPrefix)); i >= 0 && secret.Match(buffer[i:n]) {
				return true
			}
		}
	}
	return false
}

// traced attaches to a process and detaches again.
func traced(pid int) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.PtraceAttach(pid) != nil {
		return false
	}
	var status unix.WaitStatus
	_, _ = unix.Wait4(pid, &status, unix.WALL, nil)
	_ = unix.PtraceDetach(pid)
	return true
}

// opened counts the descriptors of a process that can be opened and that lead elsewhere than the
// probe's own.
func opened(pid int) int {
	own := map[string]bool{"/dev/null": true}
	for fd := range 3 {
		link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		own[link] = true
	}
	count := 0
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, path := range all {
		link, err := os.Readlink(path)
		if err != nil || own[link] {
			continue
		}
		for _, way := range []int{unix.O_WRONLY, unix.O_RDONLY} {
			if fd, err := unix.Open(path, way|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
				_ = unix.Close(fd)
				count++
				break
			}
		}
	}
	return count
}
