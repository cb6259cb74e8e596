package invariant

import (
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/testenv"
)

// The time to judge a history must be linear in its length, because a production history may have any number
// of registrations.
func TestJudgingTimeGrowsLinearly(t *testing.T) {
	testenv.Nightly(t, "only a clock shows that judging takes the square of the events")
	for name, story := range map[string]func(n int, tell func(history.Event)){
		"a worker whose process restarts repeatedly": func(n int, tell func(history.Event)) {
			for i := range n {
				at := time.Duration(i) * time.Minute
				tell(history.Event{At: at, Kind: history.ProcessStarted, Process: "w"})
				tell(reregistered(at, i))
				tell(lifecycleEvent(at+time.Second, i, execution.Active))
				tell(history.Event{At: at + 30*time.Second, Kind: history.ProcessCrashed, Process: "w"})
			}
		},
		"a process that registers repeatedly": func(n int, tell func(history.Event)) {
			tell(history.Event{Kind: history.ProcessStarted, Process: "w"})
			for i := range n {
				at := time.Duration(i) * time.Minute
				tell(reregistered(at, i))
				tell(lifecycleEvent(at+time.Second, i, execution.Active))
			}
		},
		"executions that complete one after the other": func(n int, tell func(history.Event)) {
			for i := range n {
				completeExecution(time.Duration(i)*10*time.Millisecond, int64(i+1), tell)
			}
		},
		"executions that are all open before the first one ends": func(n int, tell func(history.Event)) {
			for i := range n {
				asExecution(int64(i+1), tell)(created(0))
			}
			for i := range n {
				runExecution(time.Duration(i)*10*time.Millisecond, int64(i+1), tell)
			}
		},
	} {
		took := [2]time.Duration{time.Hour, time.Hour}
		tooMuch := func() bool { return took[1] > 8*took[0] }            // twice the linear time, half of the quadratic time
		for round := 0; round == 0 || tooMuch() && round < 10; round++ { // take the best of each, because the machine has other load
			for i, n := range []int{5_000, 20_000} {
				s := New(config.Default(config.Hardened), nil)
				begin := time.Now()
				story(n, func(e history.Event) { s.Observe(&e) })
				took[i] = min(took[i], time.Since(begin))
			}
		}
		t.Logf("%s: %v, and %v for four times as many", name, took[0], took[1])
		if tooMuch() {
			t.Errorf("%s: %v, and %v for four times as many", name, took[0], took[1])
		}
	}
}

// asExecution returns a function that reports an event of execution 1 as an event of execution id.
func asExecution(id int64, tell func(history.Event)) func(history.Event) {
	return func(e history.Event) {
		e.Execution, e.Chain = execution.ID(id), execution.ID(id)
		tell(e)
	}
}

func completeExecution(at time.Duration, id int64, tell func(history.Event)) {
	asExecution(id, tell)(created(at))
	runExecution(at, id, tell)
}

func runExecution(at time.Duration, id int64, tell func(history.Event)) {
	tell = asExecution(id, tell)
	tell(move(at+1, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 1))
	tell(move(at+2, execution.Scheduling, execution.Scheduled, execution.Scheduler, 1, 2))
	tell(move(at+3, execution.Scheduled, execution.Running, execution.Worker, 2, 3))
	tell(move(at+4, execution.Running, execution.Completed, execution.Worker, 3, 3))
	tell(history.Event{At: at + 5, Kind: history.Orchestrated, From: execution.Completed, Process: "executor-1"})
}

func reregistered(at time.Duration, i int) history.Event {
	e := registered(1, 4, "shell")
	e.At, e.Process, e.Incarnation, e.Due = at, "w", execution.Incarnation(i+1), at+time.Minute
	return e
}

func lifecycleEvent(at time.Duration, i int, to execution.Lifecycle) history.Event {
	return history.Event{At: at, Kind: history.WorkerLifecycle, Worker: 1, Incarnation: execution.Incarnation(i + 1), Lifecycle: to, Process: "w"}
}
