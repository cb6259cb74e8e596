package run

import (
	"testing"
	"testing/synctest"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/core/telemetry"
)

// left is the work that a test leaves to do.
type left struct{ faults, actions, unfinished, messages, queued bool }

func (l *left) Faults() bool     { return l.faults }
func (l *left) Actions() bool    { return l.actions }
func (l *left) Unfinished() bool { return l.unfinished }
func (l *left) Messages() bool   { return l.messages }
func (l *left) Drained() bool    { return !l.queued }

// resting calls check with a run that has no remaining work except l's.
func resting(t *testing.T, alerts *Alerts, submits int, check func(r *Rest, l *left)) {
	t.Helper()
	s := &scenario.Scenario{Workload: make([]scenario.Load, submits)}
	l := &left{}
	check(&Rest{
		Clock: wall{time.Now()}, Linger: time.Minute, Workload: NewWorkload(WorkloadOptions{Scenario: s}), Alerts: alerts, State: l,
	}, l)
}

// after checks a run now and again after d, and reports whether it is over then.
func after(r *Rest, d time.Duration) bool {
	r.Over()
	time.Sleep(d)
	return r.Over()
}

func TestRunIsOverAfterQuietPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resting(t, nil, 0, func(r *Rest, _ *left) {
			if after(r, time.Minute-1) {
				t.Error("it is over too early")
			}
			if time.Sleep(time.Nanosecond); !r.Over() {
				t.Error("it is not over")
			}
		})
	})
}

func TestRunContinuesWhileWorkRemains(t *testing.T) {
	for what, keep := range map[string]func(*left) *bool{
		"a fault":                 func(l *left) *bool { return &l.faults },
		"an action":               func(l *left) *bool { return &l.actions },
		"an unfinished execution": func(l *left) *bool { return &l.unfinished },
		"a message":               func(l *left) *bool { return &l.messages },
		"a message in a queue that only its server knows": func(l *left) *bool { return &l.queued },
	} {
		synctest.Test(t, func(t *testing.T) {
			resting(t, nil, 0, func(r *Rest, l *left) {
				// The work appears a nanosecond before the run would be over.
				after(r, time.Minute-1)
				*keep(l) = true
				if after(r, time.Hour) {
					t.Errorf("%s is left, and the run is over", what)
				}
				*keep(l) = false
				if after(r, time.Minute-1) {
					t.Errorf("%s: what was quiet before counts", what)
				}
				if time.Sleep(time.Nanosecond); !r.Over() {
					t.Errorf("%s: it is not over", what)
				}
			})
		})
	}
}

func TestRunContinuesUntilWorkloadIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resting(t, nil, 1, func(r *Rest, _ *left) {
			if after(r, time.Hour) {
				t.Error("it is over before everything was submitted")
			}
			r.Workload.Abandon()
			if !after(r, time.Minute) {
				t.Error("it is not over")
			}
		})
	})
}

// A firing alert delays the end of a run by Patience at most.
func TestFiringAlertExtendsRunUpToPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAlerts(scenario.Alerts{Resolves: []string{brake}}, AlertsOptions{
			Clock: wall{time.Now()}, Every: telemetry.SampleInterval, Patience: time.Hour, Emit: func(history.Event) {},
		})
		a.brake(1)
		a.takeSample(0, nil)
		resting(t, a, 0, func(r *Rest, l *left) {
			l.actions = true
			after(r, time.Hour)
			l.actions = false
			if after(r, time.Hour-1) {
				t.Error("it is over while an alert fires")
			}
			if after(r, time.Minute) {
				t.Error("it is over without a linger")
			}
			if time.Sleep(time.Minute); !r.Over() {
				t.Error("it waits for ever")
			}
		})
	})
}
