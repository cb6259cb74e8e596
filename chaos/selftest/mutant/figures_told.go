package mutant

import (
	"time"

	"handoff/core/config"
	"handoff/core/telemetry"
)

// This file plants reported figures that are false. No alert reads them, or none comes near its bound.

func init() {
	registerMutants(
		Mutant{
			Name: "swapped-gauges", Source: "D59", Expected: 15, Scenario: "work-behind-full-workers", Unread: true,
			About: "the load of a worker is reported as the depth of its queue, and the depth as the load",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder {
				return &labelRecorder{Recorder: r, set: func(f telemetry.Figure, v int64, _ telemetry.Labels) (telemetry.Figure, bool) {
					switch f {
					case telemetry.WorkerLoad:
						f = telemetry.QueueDepth
					case telemetry.QueueDepth:
						f = telemetry.WorkerLoad
					default:
						return f, true
					}
					if v > 0 {
						p.Acted("swapped a worker's load and the depth of its queue")
					}
					return f, true
				}}
			},
		},
		Mutant{
			Name: "uncounted-losses", Source: "D34", Expected: 15, Scenario: "half-the-workers-die", Unread: true,
			About: "a worker that is marked lost is not counted",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder {
				return &labelRecorder{Recorder: r, add: func(f telemetry.Figure, l telemetry.Labels) (telemetry.Labels, bool) {
					if f == telemetry.LeasesExpired {
						p.Acted("did not count a worker that was lost")
					}
					return l, f != telemetry.LeasesExpired
				}}
			},
		},
		Mutant{
			Name: "nameless-deaths", Source: "D19", Expected: 15, Scenario: "dead-letter-flood", Unread: true,
			About: "a dispatch that died is counted without the worker in whose queue it died",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder {
				return &labelRecorder{Recorder: r, add: func(f telemetry.Figure, l telemetry.Labels) (telemetry.Labels, bool) {
					if f == telemetry.DeadLettered {
						p.Acted("counted a dead dispatch for no worker")
						l[2] = "0"
					}
					return l, true
				}}
			},
		},
		Mutant{
			Name: "leftover-counts", Source: "D59", Expected: 15, Scenario: "overload", Unread: true,
			About: "a status without executions keeps its last count",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder {
				last := make(map[telemetry.Labels]int64)
				return &labelRecorder{Recorder: r, set: func(f telemetry.Figure, v int64, l telemetry.Labels) (telemetry.Figure, bool) {
					if f != telemetry.Executions {
						return f, true
					}
					before := last[l]
					if v > 0 || before == 0 {
						last[l] = v
						return f, true
					}
					p.Acted("kept the count of a status that is empty")
					return f, false
				}}
			},
		},
		Mutant{
			Name: "seldom-sampled", Source: "D59", Expected: 15, Scenario: "slow-handoffs", Unread: true,
			About:  "an executor samples its figures a quarter as often as it is configured to",
			Config: func(c *config.Config) { c.Executor.FiguresInterval *= 4 },
		},
		Mutant{
			Name: "late-first-passes", Source: "D59", Expected: 15, Scenario: "work-behind-full-workers", Unread: true,
			About: "a loop reports its first pass as late, measured from a moment at which none was due",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder {
				return &lateFirstPassRecorder{r, p, make(map[string]bool)}
			},
		},
	)
}

// labelRecorder changes the reported figures, with their labels.
type labelRecorder struct {
	telemetry.Recorder
	set func(f telemetry.Figure, v int64, l telemetry.Labels) (telemetry.Figure, bool)
	add func(f telemetry.Figure, l telemetry.Labels) (telemetry.Labels, bool)
}

// Set implements telemetry.Recorder.
func (lr *labelRecorder) Set(f telemetry.Figure, v int64, l telemetry.Labels) {
	if lr.set != nil {
		shown, report := lr.set(f, v, l)
		if !report {
			return
		}
		f = shown
	}
	lr.Recorder.Set(f, v, l)
}

// Add implements telemetry.Recorder.
func (lr *labelRecorder) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	if lr.add != nil {
		shown, report := lr.add(f, l)
		if !report {
			return
		}
		l = shown
	}
	lr.Recorder.Add(f, n, l)
}

// lateFirstPassRecorder reports each loop's first pass as late.
type lateFirstPassRecorder struct {
	telemetry.Recorder
	p     Process
	known map[string]bool
}

// Observe implements telemetry.Recorder.
func (lfpr *lateFirstPassRecorder) Observe(f telemetry.Figure, d time.Duration, l telemetry.Labels) {
	if f == telemetry.LoopSeconds && !lfpr.known[l[0]] {
		lfpr.known[l[0]] = true
		lfpr.p.Acted("reported that the first pass of a loop came late")
		lfpr.Recorder.Observe(telemetry.LoopLag, lfpr.p.Host.Monotonic(), l)
	}
	lfpr.Recorder.Observe(f, d, l)
}
