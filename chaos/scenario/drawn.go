package scenario

import (
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// This file reads durations that the seed draws, and fixes them for a run.

// Drawer draws durations from least to most, both included. Duration draws uniformly, LogDuration log-uniformly:
// every factor is as likely as every other, so from 1 s to 100 s half of the draws lie under 10 s. Each world
// brings its own drawer.
type Drawer interface {
	Duration(least, most time.Duration) time.Duration
	LogDuration(least, most time.Duration) time.Duration
}

// Draw draws a duration from least to most, log-uniformly if log says so.
func Draw(d Drawer, least, most time.Duration, log bool) time.Duration {
	if log {
		return d.LogDuration(least, most)
	}
	return d.Duration(least, most)
}

// Drawn returns the fault for one run, with For and RestartAfter fixed. Fixed durations take nothing from d.
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

// drawnShape is the mapping that says how a duration is drawn; where is the key whose value it is.
func drawnShape(where string) yamlfile.Shape {
	return yamlfile.NewShape(where,
		yamlfile.Optional("uniform", "a drawn duration: the shortest and the longest", yamlfile.SpanSchema()),
		yamlfile.Optional(
			"log_uniform", "a drawn duration: the shortest (above 0s) and the longest. The logarithm is drawn uniformly, so from 1s to 100s half of the draws are under 10s", yamlfile.SpanSchema(),
		),
	)
}

// drawnSchema is a fixed duration or a drawn one.
func drawnSchema(where string) yamlfile.Schema {
	drawn := drawnShape(where).Object()
	drawn["minProperties"], drawn["maxProperties"] = 1, 1
	return yamlfile.Schema{"oneOf": []any{yamlfile.DurationSchema(), drawn}}
}

// drawn is a duration between two bounds, which are equal if it is fixed.
type drawn struct {
	least, most time.Duration
	log         bool
}

// min is the lower bound of a drawn duration, 0 if it is fixed.
func (d drawn) min() time.Duration {
	if d.least == d.most {
		return 0
	}
	return d.least
}

// drawn reads 10s, {uniform: [1s, 5s]} or {log_uniform: [1s, 1h]}; no bound may be below least.
func (l *loader) drawn(n *yaml.Node, what string, least time.Duration) drawn {
	if n.Kind != yaml.MappingNode {
		d, _ := l.Duration(n, what, least)
		return drawn{d, d, false}
	}
	m, ok := l.Mapping(n, drawnShape(what))
	if !ok {
		return drawn{}
	}
	uniform, log := m.At("uniform"), m.At("log_uniform")
	switch {
	case uniform != nil && log != nil:
		l.Refuse(m.Keys["log_uniform"], "%s is drawn in two ways, uniform and log_uniform: write one of them", what)
	case uniform != nil:
		from, to, _ := l.Span(uniform, "uniform", least)
		return drawn{from, to, false}
	case log != nil:
		from, to, _ := l.Span(log, "log_uniform", max(least, time.Millisecond))
		return drawn{from, to, true}
	case !m.Invalid:
		l.Unknown(n, what+" does not say how it is drawn", "", drawnShape(what).Names())
	}
	return drawn{}
}
