package mutant

import (
	"sync"

	"handoff/core/execution"
	"handoff/core/telemetry"
)

// This file plants figures that are not reported, so that an alert is wrong.

func init() {
	registerMutants(
		Mutant{
			Name: "silent-brake", Source: "D47", Expected: 15, Scenario: "half-the-workers-die",
			About: "the reaper's brake holds, and no figure shows it",
			Recorder: changeFigures("kept back the figure of the reaper's brake", func(f telemetry.Figure, v int64) (int64, bool) {
				return v, f != telemetry.ReaperBrake
			}),
		},
		Mutant{
			Name: "alert-for-ever", Source: "D59", Expected: 15, Scenario: "half-the-workers-die",
			About: "the alarm of the reaper's brake is raised and never taken back",
			Recorder: changeFigures("did not report that the reaper's brake let go", func(f telemetry.Figure, v int64) (int64, bool) {
				return v, f != telemetry.ReaperBrake || v > 0
			}),
		},
		Mutant{
			Name: "empty-archive", Source: "D26", Expected: 15, Scenario: "dead-letters-pile-up",
			About: "the depth of the dead letter queue is reported as the number of open dead letters; the queue is empty as long as its handler lives",
			Recorder: changeFigures("reported that no dead letters wait", func(f telemetry.Figure, v int64) (int64, bool) {
				if f == telemetry.DeadLettersOpen {
					v = 0
				}
				return v, true
			}),
		},
		Mutant{
			Name: "never-old", Source: "D59", Expected: 15, Scenario: "work-waits-too-long",
			About: "the age of waiting executions begins anew with every look at them, so none ever waits for long",
			Recorder: changeFigures("reported that nothing waits for long", func(f telemetry.Figure, v int64) (int64, bool) {
				if f == telemetry.OldestExecution {
					v = min(v, int64(telemetry.SampleInterval))
				}
				return v, true
			}),
		},
		Mutant{
			Name: "sick-look-healthy", Source: "D59", Expected: 15, Scenario: "degraded-then-healthy",
			About:    "the figures leave out health, so no alert shows workers that can't run anything",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder { return &healthyRecorder{r, p} },
		},
		Mutant{
			Name: "gone-workers-count", Source: "D26", Expected: 15, Scenario: "alerts-fire-and-resolve",
			About: "the number of live workers is reported as the largest that was ever seen, so no alert shows that all are gone",
			Recorder: func(p Process, r telemetry.Recorder) telemetry.Recorder {
				most := int64(0)
				return newReporter(p, r, "reported the largest number of workers that was ever seen", func(f telemetry.Figure, v int64) (int64, bool) {
					if f == telemetry.Workers {
						most = max(most, v)
						return most, true
					}
					return v, true
				})
			},
		},
	)
}

// figureRecorder changes the reported figures.
type figureRecorder struct {
	telemetry.Recorder
	p Process
	// text describes what is wrong with a figure that set has changed or suppressed.
	text string
	set  func(f telemetry.Figure, v int64) (int64, bool)

	mu sync.Mutex
	// last are the values reported last.
	last map[figureSeries]int64
}

// figureSeries is a figure with its labels.
type figureSeries struct {
	figure telemetry.Figure
	labels telemetry.Labels
}

func newReporter(p Process, r telemetry.Recorder, text string, set func(f telemetry.Figure, v int64) (int64, bool)) *figureRecorder {
	return &figureRecorder{Recorder: r, p: p, text: text, set: set, last: make(map[figureSeries]int64)}
}

// Set implements telemetry.Recorder.
func (fr *figureRecorder) Set(f telemetry.Figure, v int64, l telemetry.Labels) {
	shown, report := fr.set(f, v)
	of := figureSeries{f, l}
	fr.mu.Lock()
	if report {
		fr.last[of] = shown
	}
	seen := fr.last[of]
	fr.mu.Unlock()
	if seen != v {
		fr.p.Acted(fr.text)
	}
	if report {
		fr.Recorder.Set(f, shown, l)
	}
}

func changeFigures(text string, set func(f telemetry.Figure, v int64) (int64, bool)) func(Process, telemetry.Recorder) telemetry.Recorder {
	return func(p Process, r telemetry.Recorder) telemetry.Recorder { return newReporter(p, r, text, set) }
}

// healthyRecorder reports no worker as unhealthy.
type healthyRecorder struct {
	telemetry.Recorder
	p Process
}

// Set implements telemetry.Recorder.
func (h *healthyRecorder) Set(f telemetry.Figure, v int64, l telemetry.Labels) {
	if f == telemetry.Workers && l[2] == execution.Unhealthy.String() && v != 0 {
		h.p.Acted("reported no unhealthy workers")
		v = 0
	}
	h.Recorder.Set(f, v, l)
}
