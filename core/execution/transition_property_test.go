package execution

import (
	"testing"

	"pgregory.net/rapid"
)

// Every sequence of lawful changes respects ownership: nothing leaves a terminal status, only a worker
// claims, and only the worker that claimed ends the execution.
func TestTransitionWalksRespectOwnership(t *testing.T) {
	transitions, all := NewTransitionTable(), Transitions()
	rapid.Check(t, func(t *rapid.T) {
		at, claimed := None, false
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			var open []Transition
			for _, next := range all {
				if next.From == at {
					open = append(open, next)
				}
			}
			if at.Terminal() != (len(open) == 0) {
				t.Fatalf("%v: terminal is %v, and %d changes leave it", at, at.Terminal(), len(open))
			}
			if len(open) == 0 {
				return
			}
			step := rapid.SampledFrom(open).Draw(t, "step")
			if !transitions.May(step.By, step.From, step.To) || !transitions.Legal(step.From, step.To) {
				t.Fatalf("the table denies %v, which it lists", step)
			}
			if step.To == Running && step.By != Worker {
				t.Fatalf("%v claims", step.By)
			}
			claimed = claimed || step.To == Running
			if claimed && (step.To == Requested || step.To == Scheduling || step.To == Scheduled) {
				t.Fatalf("%v returns claimed work", step)
			}
			at = step.To
		}
	})
}

// No part may make a change that the table does not list.
func TestTransitionTableAllowsOnlyListedChanges(t *testing.T) {
	transitions := NewTransitionTable()
	listed := make(map[Transition]bool)
	for _, known := range Transitions() {
		listed[known] = true
	}
	rapid.Check(t, func(t *rapid.T) {
		try := Transition{
			From: Status(rapid.IntRange(0, Statuses-1).Draw(t, "from")), To: Status(rapid.IntRange(0, Statuses-1).Draw(t, "to")),
			By: Part(rapid.IntRange(0, Parts-1).Draw(t, "by")),
		}
		if transitions.May(try.By, try.From, try.To) != listed[try] {
			t.Fatalf("May(%v, %v, %v) = %v, the table says %v", try.By, try.From, try.To, !listed[try], listed[try])
		}
	})
}
