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
	// Every is how much of the clock's time lies between two samples: telemetry.SampleInterval, scaled as the scenario is.
	Every time.Duration
	// Patience is how long an alert that has to resolve may outlive everything else of a run; see Patience. 0 stands for as
	// long as the run may last.
	Patience time.Duration
	// Collect asks for the figures of all processes, before each sample, and returns what hands them to the evaluator; nil
	// if there is to be no sample any more. It may take its time. A nil Collect stands for processes that report to the
	// evaluator themselves.
	Collect func() (hand func())
	// Emit writes an event of kind AlertFired or AlertResolved.
	Emit func(history.Event)
}

// Alerts judges the alert rules over a run whose scenario expects something of them, as Prometheus would: it takes a sample
// after every sample interval. In all other runs it is nil, all of whose methods do nothing.
type Alerts struct {
	o    AlertsOptions
	wait []string
	// rested is since when the run waits for nothing but alerts, -1 if it does not. Only Pending uses it.
	rested time.Duration

	// sampling is held while a sample is taken. next is the number of the next one, from 0.
	sampling sync.Mutex
	next     time.Duration
	stopped  bool

	// mu guards the evaluator against Pending.
	mu        sync.Mutex
	evaluator *alert.Evaluator
}

// NewAlerts returns alerts that have taken no sample, nil if nothing is expected of any.
func NewAlerts(expected scenario.Alerts, o AlertsOptions) *Alerts {
	if !expected.Any() {
		return nil
	}
	return &Alerts{o: o, wait: expected.Resolves, rested: -1, evaluator: alert.NewEvaluator()}
}

// Evaluator is what processes report to that are not asked, nil if nobody listens. It is for one task at a time.
func (a *Alerts) Evaluator() *alert.Evaluator {
	if a == nil {
		return nil
	}
	return a.evaluator
}

// Sample takes a sample now, and sees to it that one is taken after every interval from then on. If a sample takes longer
// than the interval, the next ones are skipped.
func (a *Alerts) Sample() {
	if a == nil {
		return
	}
	a.sampling.Lock()
	defer a.sampling.Unlock()
	if a.stopped {
		return
	}
	// A real clock may show a little less than what a timer waited for.
	n := max(a.next, a.o.Clock.Now()/a.o.Every)
	var hand func()
	if a.o.Collect != nil {
		if hand = a.o.Collect(); hand == nil {
			return
		}
	}
	a.look(n, hand)
	now := a.o.Clock.Now()
	a.next = max(n, now/a.o.Every) + 1
	a.o.Clock.After(a.next*a.o.Every-now, a.Sample)
}

// look judges the rules on the n-th sample, from 0. Windows are those of the rules, however much of a clock's time lies
// between two samples.
func (a *Alerts) look(n time.Duration, hand func()) {
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

// Awake is told that the run waits for something else than alerts. It is for the task that asks Pending.
func (a *Alerts) Awake() {
	if a != nil {
		a.rested = -1
	}
}

// Pending says that an alert fires which has to resolve, and that the run has to wait for it. It is asked by one task, when
// the run waits for nothing else.
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

// Stop waits for the sample that is being taken, and lets no other follow.
func (a *Alerts) Stop() {
	if a == nil {
		return
	}
	a.sampling.Lock()
	defer a.sampling.Unlock()
	a.stopped = true
}

// Patience is how long an alert may outlive everything else of a run: until the last worker that is over is marked as lost,
// the brake's hold included, and the longest window of a rule has passed, and then what it takes to see it. every is the
// sample interval as in AlertsOptions.
func Patience(c config.Config, workers int, every time.Duration) time.Duration {
	longest := time.Duration(0)
	for _, r := range telemetry.Rules() {
		longest = max(longest, r.Of.Window+r.For)
	}
	b := invariant.BoundsOf(c)
	samples := (longest+telemetry.SampleInterval-1)/telemetry.SampleInterval + 4
	return b.Warmup + b.WorkerDead + b.Hold + time.Duration(workers)*b.Trickle + samples*every
}
