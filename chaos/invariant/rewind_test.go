package invariant

import (
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// afterALoss returns the findings of invariants 12 and 19 for a history whose database loses, at 40
// s, everything written since 20 s. From quiet on, nothing is left to do.
func afterALoss(quiet time.Duration, events ...history.Event) []string {
	s := New(config.Default(config.Hardened), []int{12, 19})
	var now time.Duration
	s.SetRequests(func(key string) (execution.Action, bool) {
		return execution.Action{Timeout: 5 * second, DispatchTimeout: 7 * second, MaxRetries: 1}, key == "k"
	})
	s.ExpectRewinds(1, func() bool { return now >= quiet })
	lost := history.Event{At: 40 * second, Kind: history.DatabaseRewound, Due: 20 * second}
	i := slices.IndexFunc(events, func(e history.Event) bool { return e.At > lost.At })
	for _, e := range slices.Insert(slices.Clone(events), i, lost) {
		now = e.At
		s.Observe(&e)
	}
	var found []string
	for _, f := range s.End(false) {
		found = append(found, f.Message)
	}
	return found
}

// wronglyLimited is an execution that does not have the limits of its request.
func wronglyLimited(at time.Duration, id execution.ID, parent execution.ID) history.Event {
	return asked(func(e *history.Event) { e.At, e.Execution, e.Chain, e.Related, e.Limit = at, id, id, parent, 9 })
}

// After a loss, only executions are judged that were accepted once all earlier ones had ended.
func TestAfterALossOnlyWhatIsNewIsJudged(t *testing.T) {
	tick := func(at time.Duration) history.Event {
		return history.Event{At: at, Kind: history.FaultEnded, Fault: "x"}
	}
	for what, c := range map[string]struct {
		e    history.Event
		want int
	}{
		"before the loss":                         {wronglyLimited(30*second, 1, 0), 1},
		"while something from before is left":     {wronglyLimited(41*second, 2, 0), 0},
		"after that":                              {wronglyLimited(70*second, 3, 0), 1},
		"a child of an execution from before":     {wronglyLimited(70*second, 3, 1), 0},
		"an execution from before, told of again": {wronglyLimited(70*second, 1, 0), 0},
	} {
		before := asked(func(e *history.Event) { e.At, e.Execution, e.Chain = 2*second, 1, 1 })
		events := []history.Event{before, c.e, tick(60 * second), tick(80 * second)}
		slices.SortStableFunc(events, func(a, b history.Event) int { return int(a.At - b.At) })
		if found := afterALoss(50*second, events...); len(found) != c.want {
			t.Errorf("%s: found %q, want %d", what, found, c.want)
		}
	}
}

// An incarnation that has lost a heartbeat must end; one that has lost none may go on.
func TestAnIncarnationThatLostAHeartbeatMustEnd(t *testing.T) {
	at := func(e history.Event, at time.Duration) history.Event {
		e.At = at
		return e
	}
	last := beat(300*second, 1)
	for what, c := range map[string]struct {
		events []history.Event
		want   bool
	}{
		"it goes on":              {[]history.Event{registered(1, 1, "shell"), beat(30*second, 1), last}, true},
		"it is lost":              {[]history.Event{registered(1, 1, "shell"), beat(30*second, 1), at(worker(0, execution.Lost), 45*second), at(created(0), 300*second)}, false},
		"it had not beaten since": {[]history.Event{registered(1, 1, "shell"), beat(15*second, 1), last}, false},
	} {
		found := slices.ContainsFunc(afterALoss(400*second, c.events...), func(f string) bool { return strings.Contains(f, "lost one of its heartbeats") })
		if found != c.want {
			t.Errorf("%s: found is %v, want %v", what, found, c.want)
		}
	}
}
