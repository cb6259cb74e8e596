package sim

import "handoff/core/telemetry"

// recorder is where a process reports its figures to: to nobody, unless something is expected of the alerts.
func (w *world) recorder(process string) telemetry.Recorder {
	if evaluator := w.alerts.Evaluator(); evaluator != nil {
		return evaluator.Process(process)
	}
	return telemetry.Discard{}
}
