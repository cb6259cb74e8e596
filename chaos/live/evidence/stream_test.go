package evidence

import (
	"math/rand/v2"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// busyHour returns the evidence of n executions that are created, claimed and run, and that fail, in
// overlapping transactions.
func busyHour(n int) (own, database, witness []Item) {
	r := rand.New(rand.NewPCG(1, 1))
	tx := int64(0)
	write := func(ms int, events ...history.Event) {
		tx++
		for i, e := range events {
			item := itemAt(ms+i*int(r.Uint64N(3)), e)
			item.Transaction = tx
			database = append(database, item)
		}
	}
	for i := range n {
		id, ms := execution.ID(i+1), 20*i
		write(ms, history.Event{Kind: history.Created, Execution: id, Chain: id, To: execution.Requested})
		write(ms+50, history.Event{Kind: history.Transition, Execution: id, Chain: id, From: execution.Scheduled, To: execution.Running, OldEpoch: 1, Epoch: 1, Worker: 3, Incarnation: 7})
		witness = append(witness, itemAt(ms+60, history.Event{Kind: history.ActionStarted, Execution: id, Epoch: 1}))
		took := 100 + int(r.Uint64N(5000))
		witness = append(witness, itemAt(ms+60+took, history.Event{Kind: history.ActionEnded, Execution: id, Epoch: 1, To: execution.Failed}))
		write(ms+70+took,
			history.Event{Kind: history.Transition, Execution: id, Chain: id, From: execution.Running, To: execution.Failed, OldEpoch: 1, Epoch: 1},
			history.Event{Kind: history.Orchestrated, Execution: id, Chain: id, From: execution.Failed})
		if i%50 == 0 {
			own = append(own, itemAt(ms+5, history.Event{Kind: history.FaultBegan, Fault: "x"}))
		}
	}
	return own, database, witness
}

// Wherever the windows end, together they are the history that the whole evidence yields.
func TestStreamWindowsEqualWholeHistory(t *testing.T) {
	own, database, witness := busyHour(200)
	failure := func(_ execution.ID, code int) (execution.Reason, int) { return execution.Connection, code + 1 }
	want := Order(Sources{Own: own, Database: database, Witness: witness, Failure: failure})
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := NewStream(nil, nil, start, failure)
		var got []history.Event
		// All evidence before a given time is available, and the window ends then.
		at := start
		for given := (Sources{Own: own, Database: database, Witness: witness}); at.Before(start.Add(20 * time.Second)); {
			at = at.Add(time.Duration(r.Uint64N(700)) * time.Millisecond)
			hand := func(to *[]Item, from *[]Item) {
				var rest []Item
				for _, item := range *from {
					// A transaction becomes visible as a whole, at most a second late.
					if item.Wall.Before(at.Add(time.Second)) {
						*to = append(*to, item)
					} else {
						rest = append(rest, item)
					}
				}
				*from = rest
			}
			hand(&s.own, &given.Own)
			hand(&s.rows, &given.Database)
			hand(&s.runs, &given.Witness)
			got = append(got, s.cutWindow(at)...)
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d events of %d", seed, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("seed %d: event %d is\n%+v, and in the whole\n%+v", seed, i, got[i], want[i])
			}
		}
		if s.Late != 0 || len(s.rows)+len(s.runs)+len(s.own) != 0 {
			t.Errorf("seed %d: %d late, %d kept", seed, s.Late, len(s.rows)+len(s.runs)+len(s.own))
		}
	}
}

// A stream keeps only the claims of executions that may still run.
func TestStreamForgetsOldClaims(t *testing.T) {
	_, database, _ := busyHour(200)
	s := NewStream(nil, nil, start, nil)
	s.rows = database
	s.cutWindow(start.Add(time.Minute))
	if len(s.claims) != 200 {
		t.Errorf("%d of 200 claims are kept for their processes", len(s.claims))
	}
	s.cutWindow(start.Add(time.Hour))
	if len(s.claims) != 0 || len(s.old) != 0 {
		t.Errorf("after an hour %d claims are kept", len(s.claims))
	}
}

// A line that arrives after the end of its window is put at the beginning of the next window, and counted.
func TestStreamCountsLateLine(t *testing.T) {
	s := NewStream(nil, nil, start, nil)
	s.cutWindow(start.Add(time.Second))
	s.runs = append(s.runs, itemAt(400, history.Event{Kind: history.ActionStarted, Execution: 1, Epoch: 1}))
	events := s.cutWindow(start.Add(2 * time.Second))
	if s.Late != 1 || len(events) != 1 || events[0].At != time.Second {
		t.Errorf("%d late: %+v", s.Late, events)
	}
}
