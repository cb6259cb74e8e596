package soak_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/soak"
	"handoff/core/execution"
)

func created(id execution.ID, n int) history.Event {
	return history.Event{Kind: history.Created, Execution: id, Chain: id, Key: soak.Action + " " + soak.KeyPrefix + strconv.Itoa(n)}
}

func ended(id, next execution.ID, as execution.Status) history.Event {
	return history.Event{Kind: history.Orchestrated, Execution: id, Chain: id, From: as, Related: next}
}

func all(int) bool { return true }

// The ledger reports an accepted request without an execution, an execution that has not ended, and a request
// that became two executions.
func TestBalanceReportsLostAndDuplicateRequests(t *testing.T) {
	good := []history.Event{created(1, 0), created(2, 1), ended(1, 0, execution.Completed), ended(2, 0, execution.Failed)}
	for _, c := range []struct {
		name   string
		events []history.Event
		sent   int
		wrong  string
	}{
		{"all is well", good, 2, ""},
		{"a request that was accepted is nowhere", good, 3, "answered with an execution that the database never had, the first is request 2"},
		{"an execution has not ended", append(slices.Clone(good), created(3, 2)), 3, "have not ended, the first is that of request 2"},
		{"a failure that is retried is no end", []history.Event{created(1, 0), ended(1, 2, execution.Failed)}, 1, "have not ended"},
		{"one key, two executions", append(slices.Clone(good), created(3, 1)), 2, "request 1 became a second execution, 3"},
		{"a key that nobody sent", append(slices.Clone(good), history.Event{Kind: history.Created, Execution: 9, Chain: 9, Key: "x"}), 2, "nobody sent"},
	} {
		l := soak.NewLedger()
		for i := range c.events {
			l.Observe(&c.events[i])
		}
		got := strings.Join(l.Balance(c.sent, all), "; ")
		if c.wrong == "" && got != "" || !strings.Contains(got, c.wrong) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// A request without an answer may or may not have become an execution.
func TestUnansweredRequestNeedsNoExecution(t *testing.T) {
	var accepted soak.Accepted
	accepted.Add(0)
	accepted.Add(0)
	l := soak.NewLedger()
	e := created(1, 0)
	l.Observe(&e)
	e = ended(1, 0, execution.Completed)
	l.Observe(&e)
	if wrong := l.Balance(5, accepted.Has); wrong != nil || accepted.N != 1 {
		t.Errorf("%d accepted: %v", accepted.N, wrong)
	}
}

// A ramp stops at the first rate that is not sustained. Safe is a share of the last sustained rate.
func TestRampFindsSustainedRate(t *testing.T) {
	for _, most := range []float64{2, 10, 47, 120} {
		r := soak.NewRamp()
		for open := 0; ; {
			done := min(r.Rate, most)
			open += int(5 * (r.Rate - done) * 3)
			if !r.Step(open+int(2*r.Rate), r.Rate) {
				break
			}
		}
		if r.Held > 1.5*most || r.Held < most/2.3 && r.Held < 5 || r.Safe() >= r.Held && r.Held > 1 {
			t.Errorf("a machine that holds %v: held %v, safe %v", most, r.Held, r.Safe())
		}
	}
}
