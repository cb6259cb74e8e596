package executor

import (
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// manualHost is a host whose clock the test sets.
type manualHost struct {
	host.Host
	now time.Duration
}

// Monotonic implements host.Host.
func (m *manualHost) Monotonic() time.Duration { return m.now }

func TestSupersededWorkerRunsUntilExecutorLeaseEnds(t *testing.T) {
	h := &manualHost{now: time.Hour}
	o := newOwnerWatch(h, 30*time.Second)
	at := func(i execution.Incarnation, l execution.Lifecycle) []store.WorkerRow {
		return []store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 1, Incarnation: i}, Lifecycle: l}}
	}
	ran := &execution.Execution{Worker: 1, Incarnation: 1, Status: execution.Running}
	waits := &execution.Execution{Worker: 1, Incarnation: 1, Status: execution.Scheduled}
	o.surveyOwners(at(1, execution.Active))
	if o.actionsEnded(ran) {
		t.Error("it is over on the word of the database alone, before anybody has seen what became of its worker")
	}
	h.now += 5 * time.Second
	o.surveyOwners(at(2, execution.Active))
	if o.actionsEnded(ran) || !o.actionsEnded(waits) {
		t.Error("right after it was superseded, what it ran is over, or what only waited there is not")
	}
	h.now += 30*time.Second - time.Nanosecond
	if o.actionsEnded(ran) {
		t.Error("it is over before a lease")
	}
	h.now += time.Nanosecond
	if !o.actionsEnded(ran) {
		t.Error("it is not over after a lease")
	}

	// An incarnation that was marked lost needs no second watch, whichever incarnations have registered
	// since.
	o.surveyOwners(at(2, execution.Lost))
	o.surveyOwners(at(3, execution.Active))
	if !o.actionsEnded(&execution.Execution{Worker: 1, Incarnation: 2, Status: execution.Running}) {
		t.Error("an execution of a lost incarnation waits for a second watch")
	}

	// An executor that has seen neither incarnation starts its watch with the first query.
	fresh := newOwnerWatch(h, 30*time.Second)
	if fresh.actionsEnded(ran) {
		t.Error("an executor that has seen neither incarnation reclaims the execution at once")
	}
	h.now += 30 * time.Second
	if !fresh.actionsEnded(ran) {
		t.Error("an executor that has watched for a lease does not take it")
	}
}

// A process that starts often has incarnations that no survey sees. Such an incarnation is superseded at the
// latest when a later one is first seen, however many follow.
func TestUnseenIncarnationIsSupersededByLaterOne(t *testing.T) {
	const lease, hour = 30 * time.Second, time.Hour
	h := &manualHost{now: hour}
	o := newOwnerWatch(h, lease)
	for _, seen := range []struct {
		at          time.Duration
		incarnation execution.Incarnation
	}{{0, 3}, {10 * time.Second, 5}, {35 * time.Second, 8}} {
		h.now = hour + seen.at
		o.surveyOwners([]store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 1, Incarnation: seen.incarnation}, Lifecycle: execution.Active}})
	}
	for ran, since := range map[execution.Incarnation]time.Duration{1: 0, 3: 10 * time.Second, 4: 10 * time.Second, 7: 35 * time.Second} {
		row := &execution.Execution{Worker: 1, Incarnation: ran, Status: execution.Running}
		h.now = hour + since + lease - time.Nanosecond
		early := o.actionsEnded(row)
		h.now += time.Nanosecond
		if early || !o.actionsEnded(row) {
			t.Errorf("what incarnation %d ran is over before a lease: %v, after it: %v", ran, early, o.actionsEnded(row))
		}
	}
	// Only the latest sighting is kept forever.
	h.now += 21 * lease
	o.surveyOwners(nil)
	if n := len(o.seen[1]); n != 1 || o.seen[1][0].incarnation != 8 {
		t.Errorf("%d sightings are remembered, want that of incarnation 8", n)
	}
}
