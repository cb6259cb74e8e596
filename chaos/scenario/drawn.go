package scenario

import (
	"time"
)

// This file replaces ranges of durations with values drawn from a run's seed.

// Drawer draws durations from least to most, both included. Duration draws uniformly, and LogDuration
// log-uniformly: every order of magnitude is equally likely, so from 1 s to 100 s half of the draws are below
// 10 s. Each world has its own drawer.
type Drawer interface {
	Duration(least, most time.Duration) time.Duration
	LogDuration(least, most time.Duration) time.Duration
}

// Draw draws a duration from least to most, log-uniformly if log is set.
func Draw(d Drawer, least, most time.Duration, log bool) time.Duration {
	if log {
		return d.LogDuration(least, most)
	}
	return d.Duration(least, most)
}

// Drawn returns a copy of the fault for one run, with For and RestartAfter fixed. Fixed durations
// draw nothing from d.
func (f *Fault) Drawn(d Drawer) *Fault {
	out := *f
	if f.ForMin > 0 {
		out.For = Draw(d, f.ForMin, f.For, f.ForLog)
	}
	if f.RestartMin > 0 {
		out.RestartAfter = Draw(d, f.RestartMin, f.RestartAfter, f.RestartLog)
	}
	out.ForMin, out.ForLog, out.RestartMin, out.RestartLog = 0, false, 0, false
	return &out
}
