package sim

import (
	"handoff/chaos/invariant"
	"handoff/chaos/mutant"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/core/telemetry"
)

// expectAlerts judges the alert rules over a run whose scenario expects something of them. In all others nobody listens to
// the core's figures. A run waits for its alerts up to its horizon: virtual time costs nothing.
func (w *world) expectAlerts(expected scenario.Alerts) {
	w.alerts = run.NewAlerts(expected, run.AlertsOptions{Clock: clock{w.k}, Every: telemetry.SampleInterval, Emit: w.emit})
	if w.alerts != nil {
		w.suite.ExpectAlerts(invariant.Alerts(expected))
	}
}

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
