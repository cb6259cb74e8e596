package invariant

import (
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
)

func TestTheDeadLetterPathIsTestedOutOfTurnOnlyForTheQueuesOfADepartedWorker(t *testing.T) {
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
		{"the worker came back in time", []history.Event{back, test(retention + second)}, true},
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
