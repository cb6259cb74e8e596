package run

import (
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/execution"
)

// judged returns the verdict on a run with one requested execution and these rows at the end.
func judged(o Outcome, rows ...execution.Execution) (violations string, gaveUp string) {
	s := &scenario.Scenario{Actions: actions("a"), Workload: []scenario.Load{{Action: "a", Count: 1, Copies: 1}}}
	j := NewJudges(s, config.Hardened, config.Default(config.Hardened), nil)
	for i := range rows {
		j.Observe(&history.Event{Kind: history.Created, Step: uint64(i), Execution: rows[i].ID, Chain: rows[i].ID, To: execution.Requested, Action: "a", Key: "k"})
	}
	j.Observe(&history.Event{Kind: history.Logged, Text: "no evidence"})
	for i := range rows {
		o.Rows = append(o.Rows, &rows[i])
	}
	r := j.Verdict(o)
	var rules []string
	for i := range r.Violations {
		rules = append(rules, r.Violations[i].Rule())
	}
	if len(r.Judged) == 0 || j.Events() != uint64(len(rows)) {
		rules = append(rules, "the judges have not counted right")
	}
	return strings.Join(rules, "; "), r.GaveUp
}

func TestUnacceptedSubmissionIsViolation(t *testing.T) {
	if got, _ := judged(Outcome{Ending: Settled}); got != "acceptance" {
		t.Errorf("nothing was accepted: %q", got)
	}
	for _, o := range []Outcome{{Ending: Settled, Abandoned: true}, {Ending: Cut}, {Ending: Unjudged, GaveUp: "it was interrupted"}} {
		if got, gaveUp := judged(o); got != "" || gaveUp != o.GaveUp {
			t.Errorf("%+v: %q, gave up: %q", o, got, gaveUp)
		}
	}
}

func TestUnfinishedWorkIsViolationOnlyAtEnd(t *testing.T) {
	row := execution.Execution{ID: 1, Status: execution.Requested}
	if got, _ := judged(Outcome{Ending: Settled, At: time.Hour}, row); !strings.Contains(got, "invariant 5,") {
		t.Errorf("the run has settled with an execution that has not ended: %q", got)
	}
	if got, _ := judged(Outcome{Ending: Cut, At: time.Hour}, row); got != "" {
		t.Errorf("it was broken off: %q", got)
	}
}

// The suite receives each event immediately. The other sinks receive events in batches, in the same order,
// and every event before their results are read.
func TestJudgesReceiveEventsOnceInOrder(t *testing.T) {
	for _, n := range []int{0, 1, eventsAtOnce - 1, eventsAtOnce, 3*eventsAtOnce + 7} {
		j := NewJudges(&scenario.Scenario{}, config.Hardened, config.Default(config.Hardened), nil)
		hash := history.NewHasher()
		var e history.Event // an event is valid only during the call to Observe
		for i := range n {
			e = history.Event{Kind: history.Created, At: time.Duration(i), Execution: execution.ID(i + 1), Chain: execution.ID(i + 1), Count: 1, To: execution.Requested}
			hash.Observe(&e)
			j.Observe(&e)
			if i%40 == 39 && j.Events() != uint64(i+1) {
				t.Errorf("%d events of %d were counted", j.Events(), i+1)
			}
		}
		r := j.Verdict(Outcome{Ending: Unjudged})
		if r.Hash != hash.Sum() || j.Events() != uint64(n) || r.Sometimes["retry_scheduled"] != n {
			t.Errorf("of %d events %d were counted, %d by who counts situations; the hash is %x, want %x", n, j.Events(), r.Sometimes["retry_scheduled"], r.Hash, hash.Sum())
		}
	}
}

// A run that has not come to rest does not show that the system recovers.
func TestUnsettledRunDoesNotPass(t *testing.T) {
	done := Outcome{Ending: Unsettled, At: time.Hour, Abandoned: true}
	if got, gaveUp := judged(done); got != "" || gaveUp != "after 1h0m0s it had not come to rest" {
		t.Errorf("%q, gave up: %q", got, gaveUp)
	}
	done.Panic = "a worker ended"
	if _, gaveUp := judged(done); gaveUp != "" {
		t.Errorf("it has broken, and gave up as well: %q", gaveUp)
	}
}
