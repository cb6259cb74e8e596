package sim

import (
	"handoff/chaos/mutant"
	"handoff/core/telemetry"
)

// recorder is where a process reports its figures to: to nobody, unless something is expected of the alerts or a mutant
// listens.
func (w *world) recorder(id mutant.Process) telemetry.Recorder {
	var r telemetry.Recorder = telemetry.Discard{}
	if evaluator := w.alerts.Evaluator(); evaluator != nil {
		r = evaluator.Process(id.Name)
	}
	if w.mutant.Recorder != nil {
		r = w.mutant.Recorder(id, r)
	}
	return r
}
