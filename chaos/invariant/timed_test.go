package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// A timed check happens at the first event at or after its time, whatever the event is about. If it came
// later, other events could excuse the finding. None of these rules observes that a message was stored.
func TestTimedCheckRunsAtNextEvent(t *testing.T) {
	stored := func(at time.Duration) history.Event {
		return history.Event{At: at, Kind: history.Enqueued, Message: 9, Queue: "q"}
	}
	server := func(at time.Duration, kind history.Kind) history.Event { return history.Event{At: at, Kind: kind} }
	claimed := beginning()[:len(beginning())-1]
	last := claimed[len(claimed)-2].At
	bound := startBound(New(config.Default(config.Hardened), nil))
	lost := history.Event{At: 3 * second, Kind: history.WorkerLifecycle, Worker: 1, Incarnation: 1, Lifecycle: execution.Lost, Process: "executor-1"}
	anew := history.Event{At: 4 * second, Kind: history.WorkerRegistered, Worker: 1, Incarnation: 2, Process: "w", Due: 34 * second, Limit: 1, Text: "shell"}
	for _, x := range []struct {
		name   string
		rule   int
		story  []history.Event
		breaks bool
	}{
		{"a claim that is not started while its worker has its lease", 20, append(slices.Clone(claimed), beat(last+bound, 1), stored(last+bound+second), quietEvent(last+bound+time.Hour)), true},
		{"such a claim, without an event until the lease is over", 20, append(slices.Clone(claimed), beat(last+bound, 1), quietEvent(last+bound+time.Hour)), false},
		{"statements in the first window of an outage", 23, []history.Event{server(second, history.DatabaseDown), stored(11 * second), server(time.Hour, history.DatabaseUp)}, true},
		{"as many in a whole outage", 23, []history.Event{server(second, history.DatabaseDown), server(time.Hour, history.DatabaseUp)}, false},
		{"connections in the first window of an outage", 23, []history.Event{server(second, history.BrokerDown), stored(11 * second), server(time.Hour, history.BrokerUp)}, true},
		{"as many connections in a whole outage", 23, []history.Event{server(second, history.BrokerDown), server(time.Hour, history.BrokerUp)}, false},
		{"a worker that is marked lost early, and a later registration", 2, []history.Event{registered(1, 1, "shell"), beat(0, 1), lost, stored(3 * second), anew}, true},
		{"a worker that is marked lost early, and a registration that follows", 2, []history.Event{registered(1, 1, "shell"), beat(0, 1), lost, anew}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, work := New(config.Default(config.Hardened), []int{x.rule}), new(callWorld)
			s.SetWork(work)
			for i := range x.story {
				s.Observe(&x.story[i])
				if k := x.story[i].Kind; k == history.DatabaseDown || k == history.BrokerDown {
					work.statements, work.connections = 5000, 100
				}
			}
			if found := s.End(false); (len(found) > 0) != x.breaks {
				t.Errorf("found %+v, broken should be %v", found, x.breaks)
			}
		})
	}
}

// A database that has lost its latest writes may itself report incarnations as lost. No executor has then
// marked a worker lost.
func TestDatabaseMayReportLostIncarnations(t *testing.T) {
	for process, breaks := range map[string]bool{"executor-1": true, "database": false} {
		s := New(config.Default(config.Hardened), []int{2})
		for _, e := range []history.Event{
			registered(1, 1, "shell"), beat(0, 1),
			{At: 3 * second, Kind: history.WorkerLifecycle, Worker: 1, Incarnation: 1, Lifecycle: execution.Lost, Process: process},
		} {
			s.Observe(&e)
		}
		if found := s.End(false); (len(found) > 0) != breaks {
			t.Errorf("reported by %s: found %+v, broken should be %v", process, found, breaks)
		}
	}
}
