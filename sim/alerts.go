package sim

import (
	"handoff/chaos/alert"
	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/core/telemetry"
)

// alerts judges the alert rules over a run whose scenario expects something of them. In all others nobody
// listens to the core's figures.
type alerts struct {
	w         *world
	evaluator *alert.Evaluator
	wait      []string
}

func newAlerts(w *world, expected scenario.Alerts) *alerts {
	if !expected.Any() {
		return nil
	}
	w.suite.ExpectAlerts(invariant.Alerts(expected))
	return &alerts{w: w, evaluator: alert.NewEvaluator(), wait: expected.Resolves}
}

// look judges the rules now, and again after every sample interval.
func (a *alerts) look() {
	if a == nil {
		return
	}
	for _, c := range a.evaluator.Look(a.w.k.Now()) {
		kind := history.AlertResolved
		if c.Firing {
			kind = history.AlertFired
		}
		a.w.emit(history.Event{Kind: kind, Fault: c.Alert})
	}
	a.w.k.After(telemetry.SampleInterval, a.look)
}

// pending says that an alert fires which has to resolve.
func (a *alerts) pending() bool {
	if a == nil {
		return false
	}
	for _, name := range a.wait {
		if a.evaluator.Firing(name) {
			return true
		}
	}
	return false
}

func (a *alerts) ended(process string) {
	if a != nil {
		a.evaluator.Ended(process)
	}
}

// recorder is where a process reports its figures to: to nobody, unless something is expected of the alerts.
func (w *world) recorder(process string) telemetry.Recorder {
	if w.alerts == nil {
		return telemetry.Discard{}
	}
	return w.alerts.evaluator.Process(process)
}
