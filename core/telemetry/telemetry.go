// Package telemetry is the narrow interface through which the core reports figures. It defines the figures
// with their names and labels, and the alerts.
//
// A daemon exports the figures to Prometheus, and a live run reads them there. A simulated run discards them,
// at the cost of one interface call each. If a scenario expects alerts, both record them. Figures and rules
// are tables, so that the exporter, the rule file and the harness can't disagree.
package telemetry

import "time"

// Labels are the values of a figure's labels, in the order of Info.Labels.
type Labels [4]string

// Recorder records figures. Its methods are safe for concurrent use and never block.
type Recorder interface {
	// Listens reports whether the figures are used. If not, figures that need a database statement are not
	// collected.
	Listens() bool
	// Add adds n to a counter.
	Add(f Figure, n int64, l Labels)
	// Set sets a gauge: a number, or nanoseconds if the figure's unit is time.
	Set(f Figure, v int64, l Labels)
	// Drop removes series of a gauge whose subject is gone or can't be queried: the series with these labels,
	// or all of this process if none are given.
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
