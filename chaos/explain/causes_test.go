package explain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/core/execution"
)

// recordOf returns a run whose events are a second and a step apart.
func recordOf(events ...history.Event) *explain.Run {
	for i := range events {
		events[i].Step, events[i].At = uint64(i+1), time.Duration(i)*time.Second
	}
	return &explain.Run{Events: events, Workers: map[execution.WorkerID]string{1: "shell-1"}}
}

func transitionEvent(id execution.ID, to execution.Status, process string) history.Event {
	return history.Event{Kind: history.Transition, Execution: id, Chain: id, To: to, Process: process}
}

// lostExecutionRun returns a run in which a partition makes a worker lose an execution, while another
// execution runs undisturbed.
func lostExecutionRun() (*explain.Run, *explain.Violation) {
	claimed := transitionEvent(7, execution.Running, "shell-1")
	claimed.Worker, claimed.Incarnation = 1, 1
	r := recordOf(
		history.Event{Kind: history.ProcessStarted, Process: "shell-1"},
		history.Event{Kind: history.WorkerRegistered, Process: "shell-1", Worker: 1, Incarnation: 1},
		history.Event{Kind: history.Created, Execution: 7, Chain: 7, Process: "client"},
		history.Event{Kind: history.Created, Execution: 8, Chain: 8, Process: "client"},
		transitionEvent(7, execution.Scheduled, "executor-1"),
		history.Event{Kind: history.Published, Message: 3, Execution: 7, Process: "executor-1"},
		history.Event{Kind: history.Delivered, Message: 3, Execution: 7, Process: "shell-1"},
		history.Event{Kind: history.FaultBegan, Fault: "partition shell-1", Process: "shell-1"},
		claimed,
		transitionEvent(8, execution.Scheduled, "executor-1"),
		history.Event{Kind: history.Logged, Process: "executor-1", Text: "noise"},
		transitionEvent(8, execution.Running, "shell-2"),
		history.Event{Kind: history.WorkerLifecycle, Process: "executor-1", Worker: 1, Incarnation: 1},
		transitionEvent(7, execution.Abandoned, "executor-1"),
		transitionEvent(8, execution.Completed, "shell-2"),
	)
	return r, &explain.Violation{Execution: 7, Step: 14, At: 13 * time.Second, Message: "execution 7 was taken from shell-1"}
}

func TestFindCausesPrefersOwnExecution(t *testing.T) {
	r, v := lostExecutionRun()
	s := explain.FindCauses(r, v, 10)
	for _, want := range []int{2, 4, 7, 8, 12, 13} {
		if !slices.Contains(s.Events, want) {
			t.Errorf("without event %d (%v): %v", want, r.Events[want].Kind, s.Events)
		}
	}
	for _, i := range s.Events {
		if r.Events[i].Execution == 8 || r.Events[i].Kind == history.Logged {
			t.Errorf("with event %d (%v)", i, r.Events[i].Kind)
		}
	}
	if len(s.Events) != 10 || s.Past < 10 || !slices.IsSorted(s.Events) {
		t.Errorf("%d events of %d: %v", len(s.Events), s.Past, s.Events)
	}
	for _, x := range s.Edges {
		if x[0] >= x[1] || !slices.Contains(s.Events, x[0]) || !slices.Contains(s.Events, x[1]) {
			t.Errorf("edge %v does not lead from a cause to a later one", x)
		}
	}
	if !slices.Contains(s.Edges, [2]int{8, 13}) {
		t.Errorf("no edge leads from the claim to the execution's end: %v", s.Edges)
	}
}

// FindCauses follows recorded parents: a log line links an executor's work on execution 8 to the end of
// execution 7.
func TestFindCausesFollowsRecordedParents(t *testing.T) {
	r, v := lostExecutionRun()
	edge := [2]int{9, 13}
	if s := explain.FindCauses(r, v, 100); slices.Contains(s.Edges, edge) {
		t.Errorf("without recorded parents: %v", s.Edges)
	}
	r.Parents = make([][]int32, len(r.Events))
	r.Parents[13], r.Parents[10] = []int32{10}, []int32{9}
	if s := explain.FindCauses(r, v, 100); !slices.Contains(s.Edges, edge) || slices.Contains(s.Events, 10) {
		t.Errorf("%v, %v", s.Events, s.Edges)
	}
}

func TestFindCausesIncludesFirstMutantActs(t *testing.T) {
	mark := func(at string) history.Event {
		return history.Event{Kind: history.MutantActed, Process: at, Text: "forgot a row"}
	}
	events := []history.Event{mark("executor-2"), mark("executor-1")}
	for i := range 60 {
		events = append(events, transitionEvent(execution.ID(100+i), execution.Scheduled, "executor-1"))
	}
	events = append(events, transitionEvent(7, execution.Failed, "executor-1"))
	r := recordOf(events...)
	s := explain.FindCauses(r, &explain.Violation{Execution: 7, Step: uint64(len(events)), Message: "execution 7 failed"}, 5)
	if !slices.Contains(s.Events, 0) || !slices.Contains(s.Events, 1) {
		t.Errorf("without the acts: %v", s.Events)
	}
}

func TestEmptyHistoryHasNoCauses(t *testing.T) {
	if s := explain.FindCauses(&explain.Run{}, &explain.Violation{Execution: 3, Step: 9, Message: "execution 3"}, explain.MostCauses); len(s.Events) != 0 || s.Past != 0 {
		t.Error(s)
	}
}

// Repeated calls for the same record return the same causes, although Go's map order varies.
func TestFindCausesIsDeterministic(t *testing.T) {
	r, v := lostExecutionRun()
	v.Message = "shell-1 shell-2 executor-1 client execution 7 execution 8"
	first := fmt.Sprint(explain.FindCauses(r, v, 7))
	for range 50 {
		if again := fmt.Sprint(explain.FindCauses(r, v, 7)); again != first {
			t.Fatalf("%s, and then %s", first, again)
		}
	}
}
