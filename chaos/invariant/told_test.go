package invariant

import (
	"slices"
	"testing"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
)

// Each unlawful story is lawful up to its last event, or up to the end of the run.
func TestUnlawfulNoticeOrHintBreaksInvariant(t *testing.T) {
	told := history.Event{At: 3 * minute, Kind: history.ToldGone, Process: "shell-1", Worker: 1, Incarnation: 1, Count: 1}
	renewed := history.Event{At: 175 * second, Kind: history.HeartbeatRenewed, Process: "shell-1", Worker: 1, Incarnation: 1, Count: 13, Due: 10 * minute, Limit: 1}
	started := history.Event{At: 170 * second, Kind: history.ActionStarted, Process: "shell-1", Execution: 1, Epoch: 1, Worker: 1, Incarnation: 1}
	ended := history.Event{At: 3 * minute, Kind: history.ActionEnded, Process: "shell-1", Execution: 1, Epoch: 1, Worker: 1, Incarnation: 1, To: execution.Cancelled}
	again := history.Event{At: 4 * minute, Kind: history.WorkerRegistered, Process: "shell-1", Worker: 1, Incarnation: 2, Due: 5 * minute, Limit: 2}
	stopping := history.Event{At: 3 * minute, Kind: history.ProcessStopping, Process: "shell-1"}
	dispatched := to(160*second, execution.Scheduling, execution.Scheduled, "executor-1")
	running := to(165*second, execution.Scheduled, execution.Running, "shell-1")
	over := to(166*second, execution.Running, execution.Cancelled, "shell-1")
	over.From = execution.Canceling
	submitted := history.Event{At: 160*second - 1, Kind: history.Created, Execution: 1, Chain: 1, To: execution.Requested, Action: "a", Text: "shell", Process: "client"}
	hint := func(of history.Event, t broker.Type, key string, message uint64) history.Event {
		return history.Event{
			At: of.At, Kind: history.Hinted, Process: of.Process, Message: message, Type: uint8(t), Execution: 1, Epoch: 1,
			From: of.From, To: of.To, Key: key, Limit: 1, Count: 1,
		}
	}
	by := func(process string, e history.Event) history.Event {
		e.Process = process
		return e
	}
	changed := hint(running, broker.ExecutionStatusChanged, "shell-1/1", 7)
	vague := hint(over, broker.ExecutionStatusChanged, "shell-1/2", 8)
	vague.From = execution.Running
	many, other, twice, wrong := changed, changed, changed, changed
	many.Limit = 101
	other.Process, other.Message = "shell-2", 9
	twice.Message = 9
	// Two twins of shell-1 follow each other, and each numbers its hints from 1. The fault names shell-1.
	twins := []history.Event{{At: 140 * second, Kind: history.FaultBegan, Text: "twin", Process: "shell-1"}}
	for _, name := range []string{"shell-1 twin 0", "shell-1 twin 1"} {
		twins = append(twins, history.Event{At: 140 * second, Kind: history.ProcessStarted, Process: name},
			history.Event{At: 140 * second, Kind: history.WorkerRegistered, Process: name, Worker: 1, Incarnation: 2, Due: 5 * minute, Limit: 2})
	}
	wrong.Type, wrong.To, wrong.Worker = uint8(broker.ExecutionCancel), execution.Running, 2
	later := history.Event{At: 230 * second, Kind: history.Quiescent}
	for _, x := range []struct {
		name   string
		rule   int
		story  []history.Event
		breaks bool
	}{
		{"notified of its end, and nothing runs", 4, []history.Event{submitted, dispatched, running, started, renewed, ended, told, later}, false},
		{"notified of its end, and an action continues", 4, []history.Event{submitted, dispatched, running, started, told, later}, true},
		{"notified of a successor, and re-registers", 4, []history.Event{told, again}, true},
		{"an action ends in time for the stop", 10, []history.Event{submitted, dispatched, running, started, stopping, ended, later}, false},
		{"an action outlasts the stop", 10, []history.Event{submitted, dispatched, running, started, stopping, later}, true},
		{"a claim with a hint", 26, []history.Event{submitted, dispatched, running, changed, later}, false},
		{"a claim without a hint", 26, []history.Event{hint(submitted, broker.ExecutionRequested, "client/1", 6), submitted, dispatched, running, later}, true},
		{"a hint with a wrong previous status", 26, []history.Event{submitted, dispatched, running, changed, over, vague}, true},
		{"too many in one message", 26, []history.Event{submitted, dispatched, running, many}, true},
		{"two hints of one id", 26, []history.Event{submitted, dispatched, running, changed, other}, true},
		{"two hints of one id, by two twins", 26, slices.Concat(twins, []history.Event{submitted, dispatched, running, by("shell-1 twin 0", changed), by("shell-1 twin 1", other)}), false},
		{"two hints of one id, by two others while one has twins", 26, slices.Concat(twins, []history.Event{submitted, dispatched, running, by("shell-3", changed), other}), true},
		{"a hint that had arrived is repeated", 26, []history.Event{submitted, dispatched, running, changed, twice}, true},
		{"a cancellation for another worker", 26, []history.Event{submitted, dispatched, running, wrong}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := New(config.Default(config.Hardened), []int{x.rule})
			for _, e := range slices.Concat(calmStory(), x.story) {
				s.Observe(&e)
			}
			if got := s.Findings(); len(got) > 0 != x.breaks {
				t.Errorf("findings %v, want some: %v", got, x.breaks)
			}
		})
	}
}
