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

// findingsAfterLoss returns the findings of invariants 9, 12 and 19 for a history whose database loses, at 40
// s, everything written since 20 s. From quiet on, nothing is left to do.
func findingsAfterLoss(quiet time.Duration, events ...history.Event) []string {
	return findingsAfterLossWithCalls(quiet, nil, events...)
}

// findingsAfterLossWithCalls does the same as findingsAfterLoss, but with reported calls: answers holds, by
// time, the number of incarnation 1's heartbeat that is answered then. If it is nil, no calls are reported.
func findingsAfterLossWithCalls(quiet time.Duration, answers map[time.Duration]uint64, events ...history.Event) []string {
	s := New(config.Default(config.Hardened), []int{9, 12, 19})
	var now time.Duration
	s.SetRequests(func(key string) (execution.Action, bool) {
		return execution.Action{Timeout: 5 * second, DispatchTimeout: 7 * second, MaxRetries: 1}, key == "k"
	})
	s.ExpectRewinds(1, func() bool { return now >= quiet })
	var calls *Calls
	if answers != nil {
		calls = s.Calls("w", 1)
	}
	lost := history.Event{At: 40 * second, Kind: history.DatabaseRewound, Due: 20 * second}
	i := slices.IndexFunc(events, func(e history.Event) bool { return e.At > lost.At })
	for _, e := range slices.Insert(slices.Clone(events), i, lost) {
		now = e.At
		s.Observe(&e)
		if number := answers[e.At]; number != 0 {
			calls.Answered(1, number)
		}
	}
	var found []string
	for _, f := range s.End(false) {
		found = append(found, f.Message)
	}
	return found
}

// wronglyLimitedExecution returns the creation of an execution without the limits of its request.
func wronglyLimitedExecution(at time.Duration, id execution.ID, parent execution.ID) history.Event {
	return asked(func(e *history.Event) { e.At, e.Execution, e.Chain, e.Related, e.Limit = at, id, id, parent, 9 })
}

// After a loss, only executions that were accepted after all earlier executions had ended are judged.
func TestOnlyNewExecutionsAreJudgedAfterLoss(t *testing.T) {
	tick := func(at time.Duration) history.Event {
		return history.Event{At: at, Kind: history.FaultEnded, Fault: "x"}
	}
	for what, c := range map[string]struct {
		e    history.Event
		want int
	}{
		"before the loss":                         {wronglyLimitedExecution(30*second, 1, 0), 1},
		"while something from before is left":     {wronglyLimitedExecution(41*second, 2, 0), 0},
		"after that":                              {wronglyLimitedExecution(70*second, 3, 0), 1},
		"a child of an execution from before":     {wronglyLimitedExecution(70*second, 3, 1), 0},
		"an execution from before, created again": {wronglyLimitedExecution(70*second, 1, 0), 0},
	} {
		before := asked(func(e *history.Event) { e.At, e.Execution, e.Chain = 2*second, 1, 1 })
		events := []history.Event{before, c.e, tick(60 * second), tick(80 * second)}
		slices.SortStableFunc(events, func(a, b history.Event) int { return int(a.At - b.At) })
		if found := findingsAfterLoss(50*second, events...); len(found) != c.want {
			t.Errorf("%s: found %q, want %d", what, found, c.want)
		}
	}
}

// lostHeartbeatText is part of a finding about an incarnation that continues although its heartbeat is lost.
const lostHeartbeatText = "lost a heartbeat that it had answered"

// An incarnation that has lost an answered heartbeat must end. Other incarnations may continue.
func TestIncarnationWithLostHeartbeatMustEnd(t *testing.T) {
	at := func(e history.Event, at time.Duration) history.Event {
		e.At = at
		return e
	}
	last := beat(300*second, 1)
	for what, c := range map[string]struct {
		events []history.Event
		want   bool
	}{
		"it continues":                   {[]history.Event{registered(1, 1, "shell"), beat(30*second, 1), last}, true},
		"it is lost":                     {[]history.Event{registered(1, 1, "shell"), beat(30*second, 1), at(worker(0, execution.Lost), 45*second), at(created(0), 300*second)}, false},
		"it had sent no heartbeat since": {[]history.Event{registered(1, 1, "shell"), beat(15*second, 1), last}, false},
	} {
		found := slices.ContainsFunc(findingsAfterLoss(400*second, c.events...), func(f string) bool { return strings.Contains(f, lostHeartbeatText) })
		if found != c.want {
			t.Errorf("%s: found is %v, want %v", what, found, c.want)
		}
	}
}

// A worker that got no answer to the lost heartbeat does not know of the loss, and continues. If the answer
// arrives after the loss, its next heartbeat is refused.
func TestIncarnationSurvivesLossOfUnansweredHeartbeat(t *testing.T) {
	numbered := func(at time.Duration, number int64) history.Event {
		e := beat(at, 1)
		e.Count = number
		return e
	}
	events := []history.Event{
		registered(1, 1, "shell"), numbered(15*second, 1), numbered(25*second, 2), numbered(35*second, 3), numbered(41*second, 4), numbered(300*second, 5),
	}
	for what, c := range map[string]struct {
		answers map[time.Duration]uint64
		want    bool
	}{
		"no answer":                             {map[time.Duration]uint64{15 * second: 1, 41 * second: 4}, false},
		"an answer before the last beat":        {map[time.Duration]uint64{15 * second: 1, 25 * second: 2}, true},
		"an answer to the last beat":            {map[time.Duration]uint64{15 * second: 1, 35 * second: 3}, true},
		"an answer that comes after the loss":   {map[time.Duration]uint64{15 * second: 1, 41 * second: 3}, true},
		"a late answer to a beat that was kept": {map[time.Duration]uint64{35 * second: 1, 41 * second: 4}, false},
	} {
		found := slices.ContainsFunc(findingsAfterLossWithCalls(400*second, c.answers, events...), func(f string) bool { return strings.Contains(f, lostHeartbeatText) })
		if found != c.want {
			t.Errorf("%s: found is %v, want %v", what, found, c.want)
		}
	}
}

// A worker continues to count failures from before the loss, whether or not the database has lost them. It
// may count no others.
func TestEarlierWorkerFailuresCountAfterLoss(t *testing.T) {
	failed := func(at time.Duration) history.Event { return failureReport(at, 1)[0] }
	report := func(at time.Duration, n int64) history.Event {
		return history.Event{At: at, Kind: history.HealthReported, Worker: 1, Incarnation: 1, Process: "w", Count: n, Limit: n, Message: 3}
	}
	for what, c := range map[string]struct {
		failures []time.Duration
		counted  int64
		want     bool
	}{
		"kept, lost, and after the loss": {[]time.Duration{10 * second, 30 * second, 45 * second}, 3, false},
		"one more than there were":       {[]time.Duration{10 * second, 30 * second, 45 * second}, 4, true},
		"an execution that fails again":  {[]time.Duration{45 * second, 65 * second}, 2, false},
		"none":                           {nil, 1, true},
	} {
		events := []history.Event{registered(1, 1, "shell"), beat(15*second, 1), beat(50*second, 1), report(70*second, c.counted)}
		for _, at := range c.failures {
			events = append(events, failed(at))
		}
		slices.SortStableFunc(events, func(a, b history.Event) int { return int(a.At - b.At) })
		found := slices.ContainsFunc(findingsAfterLoss(50*second, events...), func(f string) bool { return strings.Contains(f, "is charged with") })
		if found != c.want {
			t.Errorf("%s: found is %v, want %v", what, found, c.want)
		}
	}
}

// A drain request that was stored in the lost period is lost. An earlier request is not.
func TestDatabaseLossErasesLaterDrainRequests(t *testing.T) {
	for at, demanded := range map[time.Duration]bool{15 * second: true, 25 * second: false} {
		s := New(config.Default(config.Hardened), []int{10})
		s.ExpectRewinds(1, func() bool { return true })
		story := []history.Event{
			registered(1, 1, "shell"), beat(0, 1), worker(0, execution.Active), beat(14*second, 1), beginFault(at, "drain", ""),
			{At: at, Kind: history.WorkerCordoned, Worker: 1, Count: 1},
			{At: 40 * second, Kind: history.DatabaseRewound, Due: 20 * second},
		}
		for beats := 41 * second; beats < 100*second; beats += 10 * second {
			story = append(story, beat(beats, 1))
		}
		for i := range story {
			s.Observe(&story[i])
		}
		if got := len(s.End(false)) > 0; got != demanded {
			t.Errorf("requested at %v: the worker must drain: %v, want %v", at, got, demanded)
		}
	}
}
