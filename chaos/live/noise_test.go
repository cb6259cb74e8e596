package live

import (
	"context"
	"errors"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/verdict"
	"handoff/core/config"
)

// A violation doesn't count if the machine stalled shortly before, for longer than the worker's margin allows.
func TestNoiseExcusesNearbyViolations(t *testing.T) {
	const second = time.Second
	c := config.Worker{HeartbeatInterval: 2 * second, HeartbeatStalenessMultiplier: 3, FenceMargin: second, KillGrace: 400 * time.Millisecond}
	const most = 600 * time.Millisecond // a quarter of the lease of six seconds would be longer
	violation, unmet := []verdict.Violation{{Invariant: 2, At: 20 * second}}, []verdict.Violation{{At: 90 * second}}
	alert := []verdict.Violation{{Invariant: invariant.AlertsNumber, At: 90 * second}}
	for _, x := range []struct {
		name       string
		violations []verdict.Violation
		stall      Stall
		noisy      bool
	}{
		{"violation during the stall", violation, Stall{"x", 19 * second, 2 * second}, true},
		{"stall that ended less than a lease before", violation, Stall{"x", 13 * second, 2 * second}, true},
		{"stall that ended long before", violation, Stall{"x", 5 * second, 2 * second}, false},
		{"stall after the violation", violation, Stall{"x", 21 * second, 2 * second}, false},
		{"stall that uses up the margin for ending actions", violation, Stall{"x", 19 * second, most + 1}, true},
		{"short stall", violation, Stall{"x", 19 * second, most}, false},
		{"stall with an unmet expectation", unmet, Stall{"x", 19 * second, 2 * second}, true},
		{"short stall with an unmet expectation", unmet, Stall{"x", 19 * second, most}, false},
		{"stall long before an alert that did not fire", alert, Stall{"x", 19 * second, 2 * second}, true},
		{"short stall with such an alert", alert, Stall{"x", 19 * second, most}, false},
		{"stall without a violation", nil, Stall{"x", 19 * second, 2 * second}, false},
	} {
		if got := noiseReason(x.violations, []Stall{x.stall}, c); (got != "") != x.noisy {
			t.Errorf("%s: %q", x.name, got)
		}
	}
}

// A late answer counts as a stall. An error doesn't, because a fault may have caused it. A stall's time
// counts from the start of the run, a minute before the watch.
func TestLateAnswersAreStalls(t *testing.T) {
	n := newNoiseWatch(time.Now().Add(-time.Minute))
	calls := 0
	n.runProbe(time.Millisecond, "late", func(context.Context) error {
		calls++
		if calls == 3 {
			n.end()
			return nil
		}
		time.Sleep(leastStall + 10*time.Millisecond) // the measured stall
		if calls == 1 {
			return errors.New("refused")
		}
		return nil
	})
	if got := n.stop(); len(got) != 1 || got[0].At < time.Minute+leastStall || got[0].For < leastStall {
		t.Errorf("stalls: %+v, want the second call's alone", got)
	}
}

// A log line about an unanswered statement counts as a stall, unless a fault explains it.
func TestUnansweredStatementsAreStalls(t *testing.T) {
	const text = "WARN scheduling pass failed, the next one starts anew error=postgres: parking: database outcome unknown: timeout: context deadline exceeded executor=executor-1"
	const second = time.Second
	c := config.Config{Executor: config.Executor{StatementTimeout: second}, Worker: config.Worker{StatementTimeout: second / 2}}
	began := func(process string) history.Event {
		return history.Event{At: 2 * second, Kind: history.FaultBegan, Process: process}
	}
	ended := func(process string, at time.Duration) history.Event {
		return history.Event{At: at, Kind: history.FaultEnded, Process: process}
	}
	said := history.Event{At: 9 * second, Kind: history.Logged, Process: "executor-1", Text: text}
	refused := said
	refused.Text = "WARN scheduling pass failed, the next one starts anew error=postgres: parking: connection refused executor=executor-1"
	for _, x := range []struct {
		name   string
		events []history.Event
		stalls int
	}{
		{"nothing explains it", []history.Event{said}, 1},
		{"a fault of others lasts", []history.Event{began("shell-1,shell-2"), said}, 1},
		{"its own fault lasts", []history.Event{began("shell-1,executor-1"), said}, 0},
		{"the database's fault lasts", []history.Event{began("database"), said}, 0},
		{"its fault ended within the timeout", []history.Event{began("executor-1"), ended("executor-1", 8*second), said}, 0},
		{"its fault ended before", []history.Event{began("executor-1"), ended("executor-1", 7*second), said}, 1},
		{"one of two faults ended", []history.Event{began("executor-1"), began("executor-1"), ended("executor-1", 7*second), said}, 0},
		{"another error", []history.Event{refused}, 0},
	} {
		got := unansweredStatements(x.events, &c)
		if len(got) != x.stalls || len(got) > 0 && (got[0].At != 8*second || got[0].For != second) {
			t.Errorf("%s: %+v, want %d", x.name, got, x.stalls)
		}
	}
}
