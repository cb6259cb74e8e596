package sim

import "handoff/core/telemetry"

// figureRecorder returns the recorder of a process's metrics. It discards them unless the scenario expects
// alerts.
func (w *world) figureRecorder(process string) telemetry.Recorder {
	if evaluator := w.alerts.Evaluator(); evaluator != nil {
		return evaluator.Process(process)
	}
	return telemetry.Discard{}
}
