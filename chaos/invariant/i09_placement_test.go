package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// workerPair returns two active, consuming workers of capacity 1, and execution 1, which is due at 1 s.
func workerPair() []history.Event {
	second1 := worker(0, execution.Active)
	second1.Worker, second1.Incarnation = 2, 2
	return []history.Event{
		registered(1, 1, "shell"), registered(2, 1, "shell"), beat(0, 1), beat(0, 2), worker(0, execution.Active), second1, created(second),
	}
}

func dispatchEvents(at time.Duration) []history.Event {
	return []history.Event{
		move(at, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0),
		move(at, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1),
	}
}

// heartbeats returns the heartbeats that keep both workers alive until to.
func heartbeats(from, to time.Duration) (all []history.Event) {
	for at := from; at <= to; at += 10 * second {
		all = append(all, beat(at, 1), beat(at, 2))
	}
	return all
}

// failureReport returns n failed runs in a row of a worker, and the worker's report about them.
func failureReport(at time.Duration, n int) (all []history.Event) {
	for i := range n {
		id := execution.ID(100 + i)
		e := move(at, execution.Running, execution.Failed, execution.Worker, 1, 1)
		e.Execution, e.Chain, e.Reason = id, id, execution.WorkerUnavailable
		all = append(all, e)
	}
	return append(all, history.Event{
		At: at, Kind: history.HealthReported, Worker: 1, Incarnation: 1, Count: int64(n), Limit: int64(n), Message: uint64(n), Due: at,
	})
}

// Each case makes a lawful story unlawful, or keeps it lawful, by one change.
func TestOnlyUnlawfulPlacementBreaksInvariant(t *testing.T) {
	with := slices.Concat[[]history.Event]
	one := func(e ...history.Event) []history.Event { return e }
	first := worker(second, execution.Draining)
	deaf := beat(second, 1)
	deaf.Limit = 0
	elsewhere := workerPair()
	elsewhere[0].Text = "python node"
	pinned := workerPair()
	pinned[6].Worker = 2
	cordon := history.Event{At: second, Kind: history.WorkerCordoned, Worker: 1, Count: 1}
	uncordon := history.Event{At: 2 * second, Kind: history.WorkerCordoned, Worker: 1}
	failed := move(70*second, execution.Scheduling, execution.Failed, execution.Scheduler, 0, 0)
	failed.Reason, failed.Text = execution.NoWorkers, "No workers available: of 2 workers, 2 are not active"
	explained := failed
	explained.Text = "No workers available: " + textStale + ": of 2 workers, 2 have a stale heartbeat"
	stopped := worker(3*second, execution.Stopped)
	stopped.Worker, stopped.Incarnation = 2, 2
	claimed := move(70*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0)
	full := func(n int) (all []history.Event) {
		for i := range n {
			id := execution.ID(50 + i)
			for _, e := range with(one(created(second)), dispatchEvents(second)) {
				e.Execution, e.Chain = id, id
				all = append(all, e)
			}
		}
		return all
	}
	busy := func(at time.Duration) []history.Event {
		story := append(one(created(at)), dispatchEvents(at)...)
		for i := range story {
			story[i].Execution, story[i].Chain = 60, 60
		}
		return story
	}
	up := history.Event{Kind: history.ProcessStarted, Process: "w"}
	unasked := history.Event{At: 100 * second, Kind: history.FaultBegan, Fault: "cut", Text: "partition", Process: "w", Queue: "executors"}
	last := append(one(created(300*second)), dispatchEvents(300*second)...)
	moved := func(at, by time.Duration) history.Event {
		return history.Event{At: at, Kind: history.ClockStepped, Process: "database", Due: by}
	}
	// from returns a dispatch to worker w that is reclaimed.
	from := func(w execution.WorkerID) []history.Event {
		story := append(dispatchEvents(42*second), move(43*second, execution.Scheduled, execution.Requested, execution.Scheduler, 1, 2))
		for i := range story[1:] {
			story[i+1].Worker, story[i+1].Incarnation = w, execution.Incarnation(w)
		}
		return story
	}
	// after moves the failure to a time when the grace is over even for executions that had a fitting worker
	// until the leases ended.
	after := func(e history.Event) history.Event {
		e.At = 100 * second
		return e
	}
	cordonOther := history.Event{At: 40 * second, Kind: history.WorkerCordoned, Worker: 2, Count: 1}
	again := []history.Event{
		move(60*second, execution.Requested, execution.Scheduling, execution.Scheduler, 2, 2),
		move(60*second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 2, 3),
	}
	charged := failureReport(20*second, 10)
	charged[10].Limit = 11
	// late returns a failure at 20 s that the worker reports only at 405 s, long after the health window,
	// with the given events in between.
	late := func(between ...history.Event) []history.Event {
		story := failureReport(20*second, 1)
		report := story[1]
		report.At, report.Due, report.Process = 405*second, 400*second, "w"
		return with(workerPair()[:6], heartbeats(10*second, 20*second), story[:1], heartbeats(30*second, 370*second), between, one(report))
	}
	// writtenAgain returns the refusal of a repeated write of that end.
	writtenAgain := func(to execution.Status, process string, epoch execution.Epoch) history.Event {
		return history.Event{At: 400 * second, Kind: history.StaleWrite, Execution: 100, Epoch: epoch, To: to, By: execution.Worker, Process: process}
	}
	// cut returns a partition of that worker from the server end. It ends at the time until.
	cut := func(end string, until time.Duration) []history.Event {
		of := history.Event{At: 370 * second, Kind: history.FaultBegan, Fault: "cut", Text: "partition", Process: "w", Queue: end}
		over := of
		over.At, over.Kind = until, history.FaultEnded
		return one(of, over)
	}
	// putBack returns a claim at 15 s that the reconciler releases at 100 s, with events in between.
	putBack := func(until time.Duration, between ...history.Event) []history.Event {
		taken := move(15*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0)
		given := move(100*second, execution.Scheduling, execution.Requested, execution.Reconciler, 0, 1)
		return with(workerPair(), heartbeats(10*second, 10*second), one(taken), between, heartbeats(20*second, 100*second), one(given), heartbeats(110*second, until))
	}
	errs := func(kind history.Kind, at time.Duration) history.Event {
		return history.Event{At: at, Kind: kind, Fault: "errors", Text: "database_errors", Count: 1}
	}
	// filled holds dispatches that immediately follow and fill the other worker.
	var filled []history.Event
	for i := range 3 {
		at := 60*second + time.Duration(i+1)*10*time.Millisecond
		story := append(one(created(at)), dispatchEvents(at)...)
		for j := range story {
			story[j].Execution, story[j].Chain = execution.ID(70+i), execution.ID(70+i)
		}
		story[2].Worker, story[2].Incarnation = 2, 2
		filled = append(filled, story...)
	}
	filled = append(filled, heartbeats(70*second, 80*second)...)
	refusing := one(errs(history.FaultBegan, 59*second))
	// keeping is the same dispatch by an executor that has claimed another row in the same pass.
	other := append(one(created(59*second)), move(60*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0))
	for i := range other {
		other[i].Execution, other[i].Chain = 70, 70
	}
	keeping := with(other, again)
	for i := range keeping {
		keeping[i].Process = "executor-1"
	}
	// freed returns an execution on the other worker that ends at until. That worker has room for one more.
	freed := func(until time.Duration) []history.Event {
		story := with(one(created(20*second)), dispatchEvents(20*second), one(move(until, execution.Scheduled, execution.Failed, execution.DeadLetterHandler, 1, 1)))
		for i := range story {
			story[i].Execution, story[i].Chain = 71, 71
			if i > 1 {
				story[i].Worker, story[i].Incarnation = 2, 2
			}
		}
		return with(workerPair()[:1], one(registered(2, 2, "shell")), workerPair()[2:], heartbeats(10*second, 20*second), story[:3], heartbeats(30*second, 40*second), from(1), story[3:], heartbeats(50*second, 50*second))
	}
	beside := append(one(created(60*second)), dispatchEvents(60*second)...)
	for i := range beside {
		beside[i].Execution, beside[i].Chain = 72, 72
	}
	beside[2].Worker, beside[2].Incarnation = 2, 2
	for _, c := range []struct {
		name   string
		broken bool
		story  []history.Event
	}{
		{"to a fit worker", false, with(workerPair(), dispatchEvents(second))},
		{"to a draining worker", true, with(workerPair(), one(first), dispatchEvents(2*second))},
		{"to a worker that became active again after draining", true, with(workerPair(), one(first, worker(second, execution.Active)), dispatchEvents(2*second))},
		{"at the end of the lease", false, with(workerPair(), dispatchEvents(30*second))},
		{"after the lease", true, with(workerPair(), dispatchEvents(30*second+2*clockTolerance))},
		{"to a deaf worker", true, with(workerPair(), one(deaf), dispatchEvents(2*second))},
		{"to a worker that is no longer deaf", false, with(workerPair(), one(deaf, beat(2*second, 1)), dispatchEvents(2*second))},
		{"to a cordoned worker", true, with(workerPair(), one(cordon), dispatchEvents(2*second))},
		{"to a worker whose cordon was lifted", false, with(workerPair(), one(cordon, uncordon), dispatchEvents(2*second))},
		{"to a worker without the runtime", true, with(elsewhere, dispatchEvents(second))},
		{"to another worker than the pinned one", true, with(pinned, dispatchEvents(second))},
		{"up to what may be dispatched ahead", false, with(workerPair(), full(2), dispatchEvents(second))},
		{"beyond what may be dispatched ahead", true, with(workerPair(), full(3), dispatchEvents(second))},
		{"to a busy worker while another is idle", true, with(one(up), workerPair()[:6], heartbeats(10*second, 290*second), busy(290*second), heartbeats(300*second, 300*second), last)},
		{"to a worker that became busy just now", false, with(one(up), workerPair()[:6], heartbeats(10*second, 300*second), busy(300*second), last)},
		{"to a busy worker while another is idle whose health endpoint is unreachable", false, with(one(up), workerPair()[:6], heartbeats(10*second, 90*second), one(unasked), heartbeats(100*second, 290*second), busy(290*second), heartbeats(300*second, 300*second), last)},
		{"to an unhealthy worker", true, with(workerPair()[:6], heartbeats(10*second, 20*second), failureReport(20*second, 10), heartbeats(30*second, 40*second), failureReport(40*second, 10), heartbeats(50*second, 60*second), failureReport(60*second, 10), one(created(60*second)), dispatchEvents(60*second))},
		{"to an unhealthy worker, right after a step of the clock", false, with(workerPair()[:6], heartbeats(10*second, 20*second), failureReport(20*second, 10), heartbeats(30*second, 40*second), failureReport(40*second, 10), one(moved(45*second, second)), heartbeats(50*second, 50*second), heartbeats(60*second, 60*second), failureReport(60*second, 10), one(created(60*second)), dispatchEvents(60*second))},
		{"to an unhealthy worker, long after a step of the clock", true, with(workerPair()[:6], one(moved(2*second, second)), heartbeats(10*second, 20*second), failureReport(20*second, 10), heartbeats(30*second, 40*second), failureReport(40*second, 10), heartbeats(50*second, 50*second), heartbeats(60*second, 60*second), failureReport(60*second, 10), one(created(60*second)), dispatchEvents(60*second))},
		{"to an unhealthy worker, after a reclaim from the other worker", false, with(workerPair()[:6], heartbeats(10*second, 20*second), failureReport(20*second, 10), heartbeats(30*second, 40*second), failureReport(40*second, 10), one(created(41*second)), from(2), heartbeats(50*second, 60*second), failureReport(60*second, 10), again)},
		{"to an unhealthy worker, after a reclaim from it", true, with(workerPair()[:6], heartbeats(10*second, 20*second), failureReport(20*second, 10), heartbeats(30*second, 40*second), failureReport(40*second, 10), one(created(41*second)), from(1), heartbeats(50*second, 60*second), failureReport(60*second, 10), again)},
		{"to an unhealthy worker, as a half-open probe", false, with(workerPair()[:6], heartbeats(10*second, 20*second), failureReport(20*second, 10), heartbeats(30*second, 60*second), one(created(60*second)), dispatchEvents(60*second))},
		{"to a worker that became unhealthy just now", false, with(workerPair(), heartbeats(10*second, 20*second), failureReport(20*second, 10), dispatchEvents(21*second))},
		{"to a degraded worker", false, with(workerPair()[:6], heartbeats(10*second, 20*second), failureReport(20*second, 9), heartbeats(30*second, 60*second), one(created(60*second)), dispatchEvents(60*second))},
		{"charged with more failures than it had", true, with(workerPair(), heartbeats(10*second, 20*second), charged)},
		{"charged with a failure long after the window", true, late()},
		{"charged with a failure long after the window, without an answer until now", false, late(writtenAgain(execution.Failed, "w", 1))},
		{"charged with a failure long after the window, having rewritten the end of another epoch", true, late(writtenAgain(execution.Failed, "w", 2))},
		{"charged with a failure long after the window, which another process has rewritten", true, late(writtenAgain(execution.Failed, "v", 1))},
		{"charged with a failure long after the window, having repeated its claim", true, late(writtenAgain(execution.Running, "w", 1))},
		{"charged with a failure long after the window, in a report that the network delayed", false, late(cut("database", 404*second)...)},
		{"charged with a failure long after the window, since its link to the broker was cut", true, late(cut("broker", 404*second)...)},
		{"charged with a failure long after the window, and after its link to the database was cut", true, late(cut("database", 380*second)...)},
		{"failed for want of workers", true, with(workerPair(), heartbeats(10*second, 70*second), one(claimed, failed))},
		{"failed for want of workers, read before a clock went back", false, with(workerPair()[:6], heartbeats(10*second, 60*second), one(moved(61*second, 75*second), moved(65*second, -75*second), created(66*second), claimed, failed))},
		{"failed for want of workers, long after a clock went back", true, with(workerPair()[:6], heartbeats(10*second, 20*second), one(moved(21*second, 75*second), moved(22*second, -75*second)), heartbeats(30*second, 60*second), one(created(66*second), claimed, failed))},
		{"failed after the workers' leases, naming stale heartbeats", false, with(workerPair(), one(claimed, after(explained)))},
		{"failed after the workers' leases, before its grace is over", true, with(workerPair(), one(claimed, explained))},
		{"to the worker from which it was reclaimed", true, with(workerPair(), heartbeats(10*second, 40*second), from(1), heartbeats(50*second, 60*second), again)},
		{"to the worker from which it was reclaimed, before the other worker is filled", true, with(workerPair(), heartbeats(10*second, 40*second), from(1), heartbeats(50*second, 50*second), again, filled)},
		{"to the worker from which it was reclaimed, before a refused pass fills the other worker", false, with(workerPair(), heartbeats(10*second, 40*second), from(1), heartbeats(50*second, 50*second), refusing, again, filled)},
		{"to the worker from which it was reclaimed, by a refused pass that leaves the other worker idle", true, with(workerPair(), heartbeats(10*second, 40*second), from(1), heartbeats(50*second, 50*second), refusing, again, heartbeats(70*second, 80*second))},
		{"to the worker from which it was reclaimed, by a refused pass that keeps a row", false, with(workerPair(), heartbeats(10*second, 40*second), from(1), heartbeats(50*second, 50*second), refusing, keeping, heartbeats(70*second, 80*second))},
		{"to the worker from which it was reclaimed, by a pass that keeps a row", true, with(workerPair(), heartbeats(10*second, 40*second), from(1), heartbeats(50*second, 50*second), keeping, heartbeats(70*second, 80*second))},
		{"to the worker from which it was reclaimed, the other worker having got its last place since the look", false, with(freed(51*second), beside, again)},
		{"to the worker from which it was reclaimed, the other worker having had a place more since before the look", true, with(freed(49*second), beside, again)},
		{"to the worker from which it was reclaimed, the other worker having had a place and got one more since the look", true, with(freed(51*second), again)},
		{"to another worker after a reclaim", false, with(workerPair(), heartbeats(10*second, 40*second), from(2), heartbeats(50*second, 60*second), again)},
		{"to the worker from which it was reclaimed, the other worker being cordoned", false, with(workerPair(), heartbeats(10*second, 40*second), one(cordonOther), from(1), heartbeats(50*second, 60*second), again)},
		{"failed after the workers' leases, not naming stale heartbeats", true, with(workerPair(), one(claimed, failed))},
		{"failed after the lease of one worker, with the other worker cordoned", false, with(workerPair(), one(cordon, beat(99*second, 1), claimed, after(failed)))},
		{"failed after the leases of workers that have stopped", false, with(workerPair(), one(stopped, worker(3*second, execution.Stopped), claimed, failed))},
		{"waiting while workers are idle", true, with(workerPair(), heartbeats(10*second, 60*second))},
		{"waiting while all workers are dead", false, with(workerPair(), one(history.Event{At: 60 * second, Kind: history.Logged}))},
		{"waiting since a claim was released that no fault had lost", true, putBack(110 * second)},
		{"waiting since a claim was released that a fault had lost", false, putBack(110*second, errs(history.FaultBegan, 16*second), errs(history.FaultEnded, 17*second))},
		{"waiting long after a claim was released that a fault had lost", true, putBack(200*second, errs(history.FaultBegan, 16*second), errs(history.FaultEnded, 17*second))},
		{"waiting after an executor restarted", false, with(workerPair(), heartbeats(10*second, 20*second), one(history.Event{At: 25 * second, Kind: history.ProcessStarted}), heartbeats(30*second, 60*second))},
	} {
		minute := config.Default(config.Hardened)
		minute.Executor.UnschedulableGrace = time.Minute
		if got := slices.Contains(judgeUnder(minute, c.story), 9); got != c.broken {
			t.Errorf("%s: broken is %v, want %v", c.name, got, c.broken)
		}
	}
}

// A hanging classic queue of the executors keeps executors from connecting. It excuses only executions that
// have waited since the last sign that an executor is connected.
func TestHangingQueueExcusesWaitingExecutions(t *testing.T) {
	with := slices.Concat[[]history.Event]
	hangs := func(queue string) []history.Event {
		return []history.Event{{At: second, Kind: history.FaultBegan, Fault: "hangs", Text: "stuck_queue", Process: queue}}
	}
	over := func(at time.Duration, kind history.Kind, text string) []history.Event {
		return []history.Event{{At: at, Kind: kind, Fault: "hangs", Text: text, Process: "completed"}}
	}
	// busy returns the dispatch of another execution, which shows that an executor is connected.
	busy := func(at time.Duration) []history.Event {
		story := append([]history.Event{created(at)}, dispatchEvents(at)...)
		for i := range story {
			story[i].Execution, story[i].Chain = 60, 60
		}
		return story
	}
	for _, c := range []struct {
		name, queueType string
		broken          bool
		story           []history.Event
	}{
		{"while nothing hangs", "classic", true, heartbeats(10*second, 90*second)},
		{"while a queue of executors hangs", "classic", false, with(hangs("completed"), heartbeats(10*second, 90*second))},
		{"while a quorum queue hangs", "quorum", true, with(hangs("completed"), heartbeats(10*second, 90*second))},
		{"while the queue of a worker hangs", "classic", true, with(hangs("w"), heartbeats(10*second, 90*second))},
		{"while a queue hangs and another execution is dispatched late", "classic", true, with(hangs("completed"), heartbeats(10*second, 40*second), busy(50*second), heartbeats(50*second, 90*second))},
		{"while a queue hangs and another execution is dispatched soon", "classic", false, with(hangs("completed"), heartbeats(10*second, 30*second), busy(30*second), heartbeats(40*second, 90*second))},
		{"soon after the hang", "classic", false, with(hangs("completed"), heartbeats(10*second, 60*second), over(60*second, history.FaultEnded, "stuck_queue"), heartbeats(70*second, 90*second))},
		{"long after the hang", "classic", true, with(hangs("completed"), heartbeats(10*second, 60*second), over(60*second, history.FaultEnded, "stuck_queue"), heartbeats(70*second, 130*second))},
		{"long after a restart of the broker", "classic", true, with(hangs("completed"), heartbeats(10*second, 60*second), over(60*second, history.BrokerDown, ""), over(60*second, history.BrokerUp, ""), heartbeats(70*second, 130*second))},
		{"long after the queue was deleted", "classic", true, with(hangs("completed"), heartbeats(10*second, 60*second), over(60*second, history.FaultBegan, "delete_queue"), over(60*second, history.FaultEnded, "delete_queue"), heartbeats(70*second, 130*second))},
	} {
		x := config.Default(config.Hardened)
		x.MessageQueue.RabbitMQ.QueueType = c.queueType
		if got := slices.Contains(judgeUnder(x, with(workerPair(), c.story)), 9); got != c.broken {
			t.Errorf("%s: broken is %v, want %v", c.name, got, c.broken)
		}
	}
}

// Each of two workers has left one dispatch unclaimed. Work may wait although one has room if an executor may
// consider that worker unhealthy and the other is full, unless both are surely unhealthy.
func TestPossiblyUnhealthyWorkerExcusesWaiting(t *testing.T) {
	story := workerPair()
	story[0].Limit = 3
	for n := range execution.WorkerID(2) {
		left := move(2*second, execution.Scheduled, execution.Failed, execution.DeadLetterHandler, 1, 1)
		left.Count = 1
		running := move(2*second, execution.Scheduled, execution.Running, execution.Worker, 1, 1)
		for id, end := range []history.Event{left, running} {
			of := append(append([]history.Event{created(second)}, dispatchEvents(second)...), end)
			for i := range of {
				of[i].Execution, of[i].Chain = execution.ID(50+10*int(n)+id), execution.ID(50+10*int(n)+id)
				if i > 1 {
					of[i].Worker, of[i].Incarnation = n+1, execution.Incarnation(n+1)
				}
			}
			story = append(story, of...)
		}
	}
	story = append(story, heartbeats(10*second, 90*second)...)
	for _, c := range []struct {
		// samples is the minimum number of runs for a share of failures to count.
		samples int
		broken  bool
	}{{1, true}, {2, false}, {10, true}} {
		x := config.Default(config.Hardened)
		x.Health.FailureRateUnhealthy, x.Health.MinSamples = 0.05, c.samples
		if got := slices.Contains(judgeUnder(x, story), 9); got != c.broken {
			t.Errorf("judged from %d runs on: broken is %v, want %v", c.samples, got, c.broken)
		}
	}
}

// The age of an unclaimed dispatch is measured by the database's clock.
func TestUnclaimedDispatchAgesByDatabaseClock(t *testing.T) {
	const left = 70 * second
	window := config.Default(config.Hardened).Health.Window
	for _, x := range []struct {
		name     string
		step, at time.Duration
		counts   int
	}{
		{"within the window", 0, left + window, 1},
		{"after the window", 0, left + window + second, 0},
		{"within the window, and the clock is set forwards past its end", window, left + 20*second, 0},
		{"after the window, and the clock is set back into it", -window, left + window + second, 1},
	} {
		s := New(config.Default(config.Hardened), []int{9})
		expired := move(left, execution.Scheduled, execution.Requested, execution.DeadLetterHandler, 1, 2)
		expired.Count = 1
		for _, e := range slices.Concat(workerPair()[:6], []history.Event{created(60 * second)}, dispatchEvents(60*second), []history.Event{expired}) {
			s.Observe(&e)
		}
		if x.step != 0 {
			s.Observe(&history.Event{At: left + second, Kind: history.ClockStepped, Process: "database", Due: x.step})
		}
		c := s.checkers[0].(*placementChecker)
		w := c.byIncarnation.Get(1)
		known := w.latestSnapshot()
		if got := c.possibleEvidence(w, &known, x.at)[0].Unclaimed; got != x.counts {
			t.Errorf("%s: %d dispatches count as unclaimed, want %d", x.name, got, x.counts)
		}
	}
}
