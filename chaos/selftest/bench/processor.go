package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// kinds are the kinds of processes whose processor time is measured separately, in the order of the
// table.
var kinds = []string{"PostgreSQL", "RabbitMQ", "executor", "workers", "clients"}

// kindOf returns the kind of a process by the name of its program. Other programs do no work that
// is measured.
func kindOf(program string) string {
	switch program {
	case "postgres":
		return "PostgreSQL"
	case "beam.smp":
		return "RabbitMQ"
	case "executor":
		return "executor"
	case "worker":
		return "workers"
	}
	return ""
}

// tick is the unit of Linux's processor times (USER_HZ).
const tick = 10 * time.Millisecond

// processorTimes returns how much processor time this process (clients) and its descendants have used,
// by kind. The time of an ended process counts with its parent, so that of a server process that
// ends between two readings is not lost.
func processorTimes() (map[string]time.Duration, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("reading processor times: /proc has no processes (%v); the benchmark runs on Linux", err)
	}
	type process struct {
		parent int
		kind   string
		used   time.Duration
	}
	all := make(map[int]process, len(paths))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// PID (PROGRAM) STATE PPID …: the program's name may contain any character, including
		// parentheses.
		open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		pid, err := strconv.Atoi(strings.TrimSpace(string(text[:max(open, 0)])))
		rest := strings.Fields(string(text[shut+1:]))
		if err != nil || len(rest) < 15 {
			return nil, fmt.Errorf("reading processor times: %s: %q is not in the format of proc(5)", path, text)
		}
		p := process{kind: kindOf(string(text[open+1 : shut]))}
		p.parent, _ = strconv.Atoi(rest[1])
		for _, field := range rest[11:15] { // utime, stime, and those of children that have ended
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("reading processor times: %s: %w", path, err)
			}
			p.used += time.Duration(ticks) * tick
		}
		all[pid] = p
	}
	used := map[string]time.Duration{"clients": all[os.Getpid()].used}
	for _, p := range all {
		below := p.parent
		for below != os.Getpid() && all[below].parent != 0 {
			below = all[below].parent
		}
		if p.kind != "" && below == os.Getpid() {
			used[p.kind] += p.used
		}
	}
	return used, nil
}

// loadAverage is the average number of programs that wanted a processor in the last minute.
func loadAverage() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(first, 64)
}
