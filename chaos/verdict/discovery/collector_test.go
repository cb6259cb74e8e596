package discovery

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// A story holds the events of a run, a second apart.
type story []history.Event

func (s story) situations() []uint64 {
	c := NewCollector()
	for i, e := range s {
		e.At = time.Duration(i) * time.Second
		c.Observe(&e)
	}
	return c.Situations()
}

func createdEvent(id execution.ID) history.Event {
	return history.Event{Kind: history.Created, Execution: id}
}

// dispatchEvent returns the transition by which an executor dispatches an execution to worker 1.
func dispatchEvent(id execution.ID, by string) history.Event {
	return history.Event{
		Kind: history.Transition, Execution: id, From: execution.Scheduling, To: execution.Scheduled, Epoch: 1, OldEpoch: 1, Worker: 1, Process: by,
	}
}

func faultBegin(kind, process string) history.Event {
	return history.Event{Kind: history.FaultBegan, Fault: kind + " " + process, Text: kind, Process: process}
}

func faultEnd(kind, process string) history.Event {
	return history.Event{Kind: history.FaultEnded, Fault: kind + " " + process, Text: kind, Process: process}
}

func registrationEvent(worker execution.WorkerID, process string) history.Event {
	return history.Event{Kind: history.WorkerRegistered, Worker: worker, Process: process}
}

func TestSituationIsTransitionWithPathFaults(t *testing.T) {
	plain := story{registrationEvent(1, "w-1"), createdEvent(7), dispatchEvent(7, "e-1")}.situations()
	if len(plain) != 1 {
		t.Fatalf("one transition is %d situations", len(plain))
	}
	other := func(change func(*history.Event)) story {
		e := dispatchEvent(7, "e-1")
		change(&e)
		return story{registrationEvent(1, "w-1"), createdEvent(7), e}
	}
	crash := story{registrationEvent(1, "w-1"), createdEvent(7), faultBegin("crash", "w-1"), dispatchEvent(7, "e-1")}.situations()
	for _, tt := range []struct {
		name string
		s    story
		same []uint64
	}{
		{"another execution at another time", story{registrationEvent(1, "w-1"), createdEvent(3), createdEvent(9), dispatchEvent(9, "e-2")}, plain},
		{"another process without faults", other(func(e *history.Event) { e.Process = "e-2" }), plain},
		{"another status", other(func(e *history.Event) { e.To = execution.Running }), nil},
		{"another reason", other(func(e *history.Event) { e.Reason = execution.WorkerLost }), nil},
		{"another epoch", other(func(e *history.Event) { e.Epoch, e.OldEpoch = 2, 2 }), nil},
		{"another change of the epoch", other(func(e *history.Event) { e.OldEpoch = 0 }), nil},
		{"a fault of the worker", story{registrationEvent(1, "w-1"), createdEvent(7), faultBegin("crash", "w-1"), dispatchEvent(7, "e-1")}, crash},
		{"a fault of the writer", story{registrationEvent(1, "w-1"), createdEvent(7), faultBegin("crash", "e-1"), dispatchEvent(7, "e-1")}, crash},
		{"a fault of several processes", story{registrationEvent(1, "w-1"), createdEvent(7), faultBegin("crash", "w-2,w-1"), dispatchEvent(7, "e-1")}, crash},
		{"the same fault twice", story{registrationEvent(1, "w-1"), createdEvent(7), faultBegin("crash", "w-1"), faultBegin("crash", "e-1"), dispatchEvent(7, "e-1")}, crash},
		{"a fault of a server", story{registrationEvent(1, "w-1"), createdEvent(7), faultBegin("crash", "broker"), dispatchEvent(7, "e-1")}, crash},
		{"a fault that ended since", story{registrationEvent(1, "w-1"), createdEvent(7), faultBegin("crash", "w-1"), faultEnd("crash", "w-1"), dispatchEvent(7, "e-1")}, crash},
		{"a fault that ended before", story{registrationEvent(1, "w-1"), faultBegin("crash", "w-1"), faultEnd("crash", "w-1"), createdEvent(7), dispatchEvent(7, "e-1")}, plain},
		{"a fault of another process", story{registrationEvent(1, "w-1"), createdEvent(7), faultBegin("crash", "w-2"), dispatchEvent(7, "e-1")}, plain},
		{"another kind of fault", story{registrationEvent(1, "w-1"), createdEvent(7), faultBegin("pause", "w-1"), dispatchEvent(7, "e-1")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.s.situations()
			if tt.same != nil && !slices.Equal(got, tt.same) {
				t.Errorf("situations %x, want %x", got, tt.same)
			}
			if tt.same == nil && (slices.Equal(got, plain) || slices.Equal(got, crash)) {
				t.Errorf("%x is the same situation", got)
			}
		})
	}
}

func TestPreviousTransitionsWriterIsOnPath(t *testing.T) {
	back := dispatchEvent(7, "e-2")
	back.From, back.To, back.Epoch = execution.Scheduled, execution.Requested, 2
	without := story{createdEvent(7), dispatchEvent(7, "e-1"), back}.situations()
	with := story{createdEvent(7), dispatchEvent(7, "e-1"), faultBegin("crash", "e-1"), back}.situations()
	if slices.Equal(with, without) {
		t.Error("a crash of the dispatching executor is not on the path of the reclaim")
	}
}

// Two runs with the same faults in different orders must have the same situations.
func TestSituationIgnoresFaultOrder(t *testing.T) {
	a := story{createdEvent(7), faultBegin("crash", "e-1"), faultBegin("pause", "e-1"), dispatchEvent(7, "e-1")}.situations()
	b := story{createdEvent(7), faultBegin("pause", "e-1"), faultBegin("crash", "e-1"), dispatchEvent(7, "e-1")}.situations()
	if !slices.Equal(a, b) {
		t.Errorf("%x and %x", a, b)
	}
}
