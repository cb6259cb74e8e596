package invariant

import (
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
)

func TestRetiredQueuesAllowEarlyCanary(t *testing.T) {
	const retention = 6 * time.Minute
	test := func(at time.Duration) history.Event {
		return history.Event{At: at, Kind: history.Published, Type: uint8(broker.DeadLetterCanary), Process: "executor-1", Message: 1, Count: 1}
	}
	back := registered(1, 1, "shell")
	back.At, back.Incarnation = 5*time.Minute, 2
	for _, c := range []struct {
		name   string
		more   []history.Event
		broken bool
	}{
		{"the retention is over", []history.Event{test(retention + second)}, false},
		{"the retention isn't over", []history.Event{test(retention - 30*second)}, true},
		{"the worker re-registered in time", []history.Event{back, test(retention + second)}, true},
	} {
		conf := config.Default(config.Hardened)
		conf.Executor.QueueRetention = retention
		s := New(conf, []int{18})
		events := append([]history.Event{
			{Kind: history.ProcessStarted, Process: "executor-1"},
			registered(1, 1, "shell"), beat(0, 1),
			worker(second, execution.Stopped), test(2 * second), test(5*time.Minute - second),
		}, c.more...)
		for i := range events {
			s.Observe(&events[i])
		}
		if got := len(s.Findings()) > 0; got != c.broken {
			t.Errorf("%s: broken %v, want %v: %v", c.name, got, c.broken, s.Findings())
		}
	}
}

// The test of the dead letter path needs separate queues. If the broker creates none, each attempt ends
// before its first message, so the history shows no test. Nothing else excuses a missing test.
func TestBlockedQueueCreationExcusesMissingCanary(t *testing.T) {
	test := func(at time.Duration, id uint64) history.Event {
		return history.Event{At: at, Kind: history.Published, Type: uint8(broker.DeadLetterCanary), Process: "executor-1", Message: id, Count: 1}
	}
	died := func(at time.Duration, kind history.Kind, harm int64) history.Event {
		return history.Event{At: at, Kind: kind, Message: 9, Queue: "worker.1.executions", Count: harm}
	}
	check := func(at time.Duration) history.Event { return history.Event{At: at, Kind: history.Quiescent} }
	restarted := func(still int64) []history.Event {
		return []history.Event{
			died(8*time.Minute, history.Expired, 1),
			{At: 12 * time.Minute, Kind: history.BrokerDown},
			{At: 12*time.Minute + second, Kind: history.BrokerUp, Count: still},
		}
	}
	const again = 14 * time.Minute
	for _, c := range []struct {
		name   string
		more   []history.Event
		broken bool
	}{
		{"nothing wrong", []history.Event{check(11 * time.Minute)}, true},
		{"a harmless message died", []history.Event{died(8*time.Minute, history.Expired, 0), check(11 * time.Minute)}, true},
		{"a message expired, and the broker creates no queue since", []history.Event{died(8*time.Minute, history.Expired, 1), check(11 * time.Minute)}, false},
		{"a message was rejected, and the broker creates no queue since", []history.Event{died(8*time.Minute, history.Rejected, 1), check(11 * time.Minute)}, false},
		{"it creates no queue since the test was overdue", []history.Event{check(11 * time.Minute), died(11*time.Minute+second, history.Expired, 1)}, true},
		{"it creates queues again, and one test came", append(restarted(0), test(again, 3), check(again+6*time.Minute)), true},
		{"it has restarted with the message", append(restarted(1), check(again+6*time.Minute)), false},
	} {
		s := New(config.Default(config.Hardened), []int{18})
		events := append([]history.Event{
			{Kind: history.ProcessStarted, Process: "executor-1"}, test(second, 1), test(5*time.Minute+second, 2),
		}, c.more...)
		s.Observe(&events[0])
		k := s.Looks("executor-1", 0)
		// A look without an answer never counts as overdue.
		for l := range lookKinds {
			k.Asks(0, l, 1, l.retentionTime(&s.config))
		}
		for i := range events[1:] {
			s.Observe(&events[i+1])
		}
		if got := len(s.Findings()) > 0; got != c.broken {
			t.Errorf("%s: broken %v, want %v: %v", c.name, got, c.broken, s.Findings())
		}
	}
}
