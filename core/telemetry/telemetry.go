// Package telemetry is the narrow interface through which the core reports figures. It defines what
// is counted and measured, under which names and labels, and which alerts follow.
//
// A daemon exports the figures to Prometheus, and a live run reads them there. A simulated run
// discards them and pays one interface call each. If a scenario expects alerts, both record them.
// Figures and rules are tables, so that the exporter, the rule file and the harness cannot
// disagree.
package telemetry

import "time"

// Labels are the values of a figure's labels, in the order in which Info lists them.
type Labels [4]string

// Recorder records figures. Its methods are safe for concurrent use and never block.
type Recorder interface {
	// Listens says that somebody reads the figures. Figures that cost a statement are only
	// collected then.
	Listens() bool
	// Add counts n more of a counter.
	Add(f Figure, n int64, l Labels)
	// Set sets a gauge: a number, or nanoseconds if the figure's unit is time.
	Set(f Figure, v int64, l Labels)
	// Drop removes series of a gauge, so that nothing is shown of what is gone or can't be asked: the
	// series with these labels, or all of this process if none are given.
	Drop(f Figure, series ...Labels)
	// Observe adds one measurement to a histogram.
	Observe(f Figure, d time.Duration, l Labels)
}

// Discard is a Recorder that keeps nothing.
type Discard struct{}

// Listens implements Recorder.
func (Discard) Listens() bool { return false }

// Add implements Recorder.
func (Discard) Add(Figure, int64, Labels) {}

// Set implements Recorder.
func (Discard) Set(Figure, int64, Labels) {}

// Drop implements Recorder.
func (Discard) Drop(Figure, ...Labels) {}

// Observe implements Recorder.
func (Discard) Observe(Figure, time.Duration, Labels) {}
