package scenario

import (
	"slices"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Trigger is an event that a fault can wait for.
type Trigger struct {
	Name  string
	About string
	// Matches reports whether an event of a history is an occurrence of the trigger.
	Matches func(e *history.Event) bool
	// ofWorker reports whether `of` refers to the worker that the event concerns, not to the process in which
	// it happened.
	ofWorker bool
}

// Whose returns the process that `of` must match. workers returns a worker's name by its id.
func (t *Trigger) Whose(e *history.Event, workers func(execution.WorkerID) string) string {
	if t.ofWorker {
		return workers(e.Worker)
	}
	return e.Process
}

var triggers = []Trigger{ //detlint:ok a constant table, never written
	{"heartbeat", "a worker's lease was renewed", matchKind(history.HeartbeatRenewed), false},
	{"registered", "a worker has registered", matchKind(history.WorkerRegistered), false},
	{"scheduled", "an execution was dispatched to a worker (`of` names the worker)", matchTransitionTo(execution.Scheduled), true},
	{"delivered", "a dispatch reached a worker", matchKindOfExecution(history.Delivered), false},
	{"claimed", "a worker has claimed an execution", matchTransitionTo(execution.Running), false},
	{"action_started", "a worker has started an action", matchKind(history.ActionStarted), false},
	{"action_ended", "an action has ended", matchKind(history.ActionEnded), false},
	{"completed", "an execution has completed", matchTransitionTo(execution.Completed), false},
	{"expired", "a message's time to live ended in a queue", matchKindOfExecution(history.Expired), false},
}

// Triggers lists every event that `when: {after: …}` may name.
func Triggers() []Trigger { return slices.Clone(triggers) }

// FindTrigger returns the trigger with a name, or nil if there is none.
func FindTrigger(name string) *Trigger {
	for i := range triggers {
		if triggers[i].Name == name {
			return &triggers[i]
		}
	}
	return nil
}

func matchKind(kind history.Kind) func(*history.Event) bool {
	return func(e *history.Event) bool { return e.Kind == kind }
}

func matchKindOfExecution(kind history.Kind) func(*history.Event) bool {
	return func(e *history.Event) bool { return e.Kind == kind && e.Execution != 0 }
}

func matchTransitionTo(status execution.Status) func(*history.Event) bool {
	return func(e *history.Event) bool { return e.Kind == history.Transition && e.To == status }
}
