package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Group is the path of a run's control group, as a string, so that it can be sent to another process.
type Group string

func (g Group) filePath(name string) string { return filepath.Join(string(g), name) }

func (g Group) writeFile(name, text string) error {
	// No O_CREATE and no O_TRUNC, because these are kernel files.
	f, err := os.OpenFile(g.filePath(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Open opens the group's directory, for a process to be started in it (SysProcAttr.CgroupFD).
func (g Group) Open() (*os.File, error) { return os.Open(string(g)) }

// setLimits sets the limits for which the group has controllers. A kernel without swap has no file for the
// swap limit.
func (g Group) setLimits(l Limits, have map[string]bool) error {
	type setting struct {
		controller, file, text string
		optional               bool
	}
	var all []setting
	if l.Memory > 0 {
		// At its memory limit the whole run ends, not only the process that the kernel picks, because half a
		// run has no result.
		all = append(all, setting{"memory", "memory.max", strconv.FormatInt(l.Memory, 10), false},
			setting{"memory", "memory.oom.group", "1", true}, setting{"memory", "memory.swap.max", "0", true})
	}
	if l.CPUs > 0 {
		const period = 100_000 // microseconds, the kernel's default
		all = append(all, setting{"cpu", "cpu.max", fmt.Sprintf("%d %d", max(1000, int64(l.CPUs*period)), period), false})
	}
	if l.Processes > 0 {
		all = append(all, setting{"pids", "pids.max", strconv.FormatInt(l.Processes, 10), false})
	}
	for _, s := range all {
		if !have[s.controller] {
			continue
		}
		if err := g.writeFile(s.file, s.text); err != nil && (!s.optional || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// isPopulated reports whether any process in the group or below it is alive; false for a removed group.
func (g Group) isPopulated() bool {
	text, err := os.ReadFile(g.filePath("cgroup.events"))
	return err == nil && strings.Contains(string(text), "populated 1")
}

// Kill kills everything in the group and below it, and waits until all of it is dead. It returns ErrAlive if
// that takes longer than the duration within.
func (g Group) Kill(within time.Duration) error {
	if !g.isPopulated() {
		return nil
	}
	killed := g.writeFile("cgroup.kill", "1") == nil
	for deadline := time.Now().Add(within); g.isPopulated(); time.Sleep(time.Millisecond) {
		if !killed {
			g.killEach()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %s", ErrAlive, g)
		}
	}
	return nil
}

// killEach kills the processes one by one, for kernels before 5.14, which have no cgroup.kill. A frozen
// process can't fork, and SIGKILL kills it.
func (g Group) killEach() {
	_ = g.writeFile("cgroup.freeze", "1")
	_ = filepath.WalkDir(string(g), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil
		}
		text, _ := os.ReadFile(path)
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		return nil
	})
	_ = g.writeFile("cgroup.freeze", "0")
}

// OutOfMemory returns how often the kernel killed a process in the group at the group's memory limit.
func (g Group) OutOfMemory() int {
	text, err := os.ReadFile(g.filePath("memory.events"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			n, _ := strconv.Atoi(count)
			return n
		}
	}
	return 0
}

// Remove removes the group and the groups below it, all of which must be empty. The kernel may need
// a moment to release processes that have just died.
func (g Group) Remove(within time.Duration) error {
	var err error
	for deadline := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		if err = g.removeTree(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (g Group) removeTree() error {
	err := unix.Rmdir(string(g))
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	children, readErr := os.ReadDir(string(g))
	if readErr != nil {
		return err
	}
	for _, c := range children {
		if c.IsDir() {
			if err := Group(g.filePath(c.Name())).removeTree(); err != nil {
				return err
			}
		}
	}
	err = unix.Rmdir(string(g))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the control group %s: %w", g, err)
	}
	return nil
}
