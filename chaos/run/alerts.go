package run

import (
	"slices"
	"sync"
	"time"

	"handoff/chaos/alert"
	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/telemetry"
)

// AlertsOptions configures Alerts. Emit is required.
type AlertsOptions struct {
	Clock Clock
	// Every is the time between two samples: telemetry.SampleInterval, scaled like the scenario.
	Every time.Duration
	// Patience is how long a run waits, once nothing else is left, for an alert that must resolve; see the
	// function Patience. 0 means as long as the run may last.
	Patience time.Duration
	// Collect asks all processes for their metrics before each sample and returns a function that passes them
	// to the evaluator, or nil to end the sampling. It may block. A nil Collect is for processes that report
	// to the evaluator themselves.
	Collect func() (hand func())
	// Emit writes an event of kind AlertFired or AlertResolved.
	Emit func(history.Event)
}

// Alerts evaluates the alert rules during a run whose scenario has expectations about alerts. Like
// Prometheus, it takes a sample every sample interval. In all other runs it is nil, and all methods of a
// nil Alerts do nothing.
type Alerts struct {
	o    AlertsOptions
	wait []string
	// rested is the time at which the run began to wait only for alerts, or -1 if it waits for something
	// else. Only Awake and Pending use it.
	rested time.Duration

	// sampling is held during a sample. next is the number of the next sample, from 0.
	sampling sync.Mutex
	next     time.Duration
	stopped  bool

	// mu guards the evaluator against Pending.
	mu        sync.Mutex
	evaluator *alert.Evaluator
}

// NewAlerts returns Alerts without samples, or nil if the scenario expects nothing of alerts.
func NewAlerts(expected scenario.Alerts, o AlertsOptions) *Alerts {
	if !expected.Any() {
		return nil
	}
	return &Alerts{o: o, wait: expected.Resolves, rested: -1, evaluator: alert.NewEvaluator()}
}

// Evaluator returns the evaluator, for processes that report their metrics to it directly; nil if a is nil.
// Only one task at a time may use it.
func (a *Alerts) Evaluator() *alert.Evaluator {
	if a == nil {
		return nil
	}
	return a.evaluator
}

// Sample takes a sample now and schedules one after every interval. If a sample takes longer than
// the interval, the samples due meanwhile are skipped.
func (a *Alerts) Sample() {
	if a == nil {
		return
	}
	a.sampling.Lock()
	defer a.sampling.Unlock()
	if a.stopped {
		return
	}
	// A real clock may show slightly less than the time for which a timer waited.
	n := max(a.next, a.o.Clock.Now()/a.o.Every)
	var hand func()
	if a.o.Collect != nil {
		if hand = a.o.Collect(); hand == nil {
			return
		}
	}
	a.takeSample(n, hand)
	now := a.o.Clock.Now()
	a.next = max(n, now/a.o.Every) + 1
	a.o.Clock.After(a.next*a.o.Every-now, a.Sample)
}

// takeSample evaluates the rules on the n-th sample, counted from 0. The rules' windows are not scaled,
// whatever the clock time between two samples.
func (a *Alerts) takeSample(n time.Duration, hand func()) {
	a.mu.Lock()
	if hand != nil {
		hand()
	}
	changes := a.evaluator.Look(n * telemetry.SampleInterval)
	a.mu.Unlock()
	for _, c := range changes {
		kind := history.AlertResolved
		if c.Firing {
			kind = history.AlertFired
		}
		a.o.Emit(history.Event{Kind: kind, Fault: c.Alert})
	}
}

// Awake records that the run is waiting for something other than alerts. Call it in the task that calls
// Pending.
func (a *Alerts) Awake() {
	if a != nil {
		a.rested = -1
	}
}

// Pending reports whether the run must wait, because an alert that must resolve still fires. One task calls
// it, when the run waits for nothing else.
func (a *Alerts) Pending() bool {
	if a == nil {
		return false
	}
	if a.rested < 0 {
		a.rested = a.o.Clock.Now()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.ContainsFunc(a.wait, a.evaluator.Firing) {
		return false
	}
	return a.o.Patience == 0 || a.o.Clock.Now()-a.rested < a.o.Patience
}

// Stop waits for a sample in progress and prevents further ones.
func (a *Alerts) Stop() {
	if a == nil {
		return
	}
	a.sampling.Lock()
	defer a.sampling.Unlock()
	a.stopped = true
}

// Patience returns how long a run waits for an alert to resolve once nothing else is left. By then, the last
// dead worker has been marked lost, even if the brake held, and the longest rule window has passed, plus a
// few samples. every is the sample interval as in AlertsOptions.
func Patience(c config.Config, workers int, every time.Duration) time.Duration {
	longest := time.Duration(0)
	for _, r := range telemetry.Rules() {
		longest = max(longest, r.Of.Window+r.For)
	}
	b := invariant.BoundsOf(c)
	samples := (longest+telemetry.SampleInterval-1)/telemetry.SampleInterval + 4
	return b.Warmup + b.WorkerDead + b.Hold + time.Duration(workers)*b.Trickle + samples*every
}
