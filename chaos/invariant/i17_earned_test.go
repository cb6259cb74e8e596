package invariant

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// causeFinding returns invariant 17's finding about a history, empty if there is none.
func causeFinding(kinds []history.Kind, events []history.Event) string {
	s := New(config.Default(config.Hardened), []int{17})
	s.SetEvidence(kinds)
	for i := range events {
		s.Observe(&events[i])
	}
	for _, f := range s.End(true) {
		return f.Message
	}
	return ""
}

// Each cause in each row counts if it ended exactly at the start of the window, but not if it ended earlier.
func TestCauseCountsFromStartOfWindow(t *testing.T) {
	for _, row := range causeTable() {
		for i := range causes {
			one := cause(1) << i
			if row.causes&one == 0 || one == dispatchesFail && row.from == nil {
				continue
			}
			for _, early := range []bool{false, true} {
				s := New(config.Default(config.Hardened), []int{17})
				checker := s.checkers[0].(*earnedChecker)
				c := &badEnd{
					earnedChecker: checker, row: &row, e: &history.Event{At: 1000 * second, By: row.by},
					l: &life{worker: 1, entered: 900 * second, due: 990 * second, started: 1, published: true},
					t: &session{process: "w", worker: 1, renewed: 980 * second},
				}
				w := checker.ledger.entryOf("w")
				w.worker = 1
				at := row.from(c) - s.tolerance
				if early {
					at--
				}
				if one&serverCauses != 0 {
					checker.ledger.common[i].recordMoment(at)
				} else {
					w.of[i].recordMoment(at)
				}
				if c.isExplainedByFault(row.causes) == early {
					t.Errorf("%v: %s, early %v: wrongly counted or not counted", row.reason, one.describeFor("w"), early)
				}
			}
		}
	}
}

// A fault explains a worker's loss only if it affects this worker, and the link that renewals use.
func TestWorkerLossNeedsFaultOfSameWorker(t *testing.T) {
	fault := func(kind, process, at string) history.Event {
		return history.Event{At: 5 * second, Kind: history.FaultBegan, Fault: "f", Text: kind, Process: process, Queue: at}
	}
	cases := []struct {
		name   string
		event  history.Event
		earned bool
	}{
		{"nothing", history.Event{At: 5 * second, Kind: history.Logged}, false},
		{"its link to the database", fault("partition", "w", "database"), true},
		{"its link to the database among others", fault("latency", "v,w", "broker,database"), true},
		{"its link to the broker", fault("partition", "w", "broker"), false},
		{"another's link", fault("partition", "v", "database"), false},
		{"muteness", fault("mute", "w", ""), true},
		{"deafness", fault("deaf", "w", ""), false},
		{"a crash", history.Event{At: 5 * second, Kind: history.ProcessCrashed, Process: "w"}, true},
		{"a crash of another", history.Event{At: 5 * second, Kind: history.ProcessCrashed, Process: "v"}, false},
		{"a standstill", history.Event{At: 5 * second, Kind: history.ProcessFrozen, Process: "w"}, true},
		{"an outage of the database", history.Event{At: 5 * second, Kind: history.DatabaseDown, Process: "database"}, true},
		{"an outage of the broker", history.Event{At: 5 * second, Kind: history.BrokerDown, Process: "broker"}, false},
		{"a step of the database's clock", history.Event{At: 5 * second, Kind: history.ClockStepped, Process: "database", Due: 40 * second}, false},
	}
	for _, c := range cases {
		lost := worker(60*second, execution.Lost)
		lost.Process = "executor-1"
		why := causeFinding(nil, append(beginning(), c.event, lost))
		if (why == "") != c.earned {
			t.Errorf("%s: %q", c.name, why)
		}
		if !c.earned && !strings.Contains(why, "marked lost by executor-1") {
			t.Errorf("%s: the message lacks what happened: %q", c.name, why)
		}
	}
}

// If a machine can't start an action, the action fails immediately. But its worker can only report that when
// it reaches the database.
func TestFailedStartNeedsCauseAtStart(t *testing.T) {
	sick := history.Event{At: second, Kind: history.FaultBegan, Fault: "f", Text: "sick", Process: "w"}
	well := sick
	well.At, well.Kind = 4*second, history.FaultEnded
	away, back := history.Event{At: 2500 * time.Millisecond, Kind: history.DatabaseDown, Process: "database"}, history.Event{At: 60 * second, Kind: history.DatabaseUp, Process: "database"}
	claimed := beginning()[:len(beginning())-1]
	for _, c := range []struct {
		name   string
		story  []history.Event
		earned bool
	}{
		{"the database was away since the start", []history.Event{sick, away, well, back}, true},
		{"the database was there", []history.Event{sick, well}, false},
		{"the machine was well", []history.Event{away, back}, false},
	} {
		failed := move(61*second, execution.Running, execution.Failed, execution.Worker, 1, 1)
		failed.Reason = execution.WorkerUnavailable
		story := slices.Concat(claimed, c.story, []history.Event{beat(60*second, 1), failed})
		slices.SortStableFunc(story, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
		if why := causeFinding(nil, story); (why == "") != c.earned {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// fullWorkerStory returns a story of a worker with one slot. Execution 1 holds the slot until freed.
// Execution 2 is dispatched at 30 s, waits, and counts against the worker, which renews its lease at told.
func fullWorkerStory(freed, told time.Duration, to execution.Status) []history.Event {
	story := beginning()
	sec, second := time.Second, func(e history.Event) history.Event {
		e.Execution, e.Chain = 2, 2
		return e
	}
	story = append(story,
		second(created(30*time.Second)),
		second(move(30*time.Second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0)),
		second(move(30*time.Second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1)))
	if freed > 0 {
		story = append(story, move(freed, execution.Running, execution.Completed, execution.Worker, 1, 1))
	}
	story = append(story, beat(told, 1), beat(told+sec, 1), beat(told+2*sec, 1), history.Event{At: 150 * time.Second, Kind: history.FaultBegan, Fault: "f", Text: "deaf", Process: "w"})
	back := second(move(200*time.Second, execution.Scheduled, to, execution.DeadLetterHandler, 1, 2))
	back.Reason, back.Count = execution.QueueTimeout, 1
	return append(story, back)
}

// The network can delay a claim for as long as the run may take. The run timeout counts from that claim, so
// it is over when the action starts.
func TestDelayedClaimExplainsEarlyRunTimeout(t *testing.T) {
	const arrived, claimed = 10 * second, 320 * second
	partition := func(kind history.Kind, at time.Duration, to string) history.Event {
		return history.Event{At: at, Kind: kind, Fault: "f", Text: "partition", Process: "w", Queue: to}
	}
	cut := func(from, until time.Duration, to string) []history.Event {
		return []history.Event{partition(history.FaultBegan, from, to), partition(history.FaultEnded, until, to)}
	}
	recovery := BoundsOf(config.Default(config.Hardened)).Recovery
	for _, c := range []struct {
		name    string
		arrived time.Duration
		by      execution.Part
		faults  []history.Event
		earned  bool
	}{
		{"delayed", arrived, execution.Worker, cut(11*second, 315*second, "database"), true},
		{"delayed until the link had just recovered", arrived, execution.Worker, cut(11*second, claimed-recovery, "database"), true},
		{"sent when the link had long recovered", arrived, execution.Worker, cut(11*second, claimed-recovery-1, "database"), false},
		{"not delayed", arrived, execution.Worker, nil, false},
		{"cut off from the broker only", arrived, execution.Worker, cut(11*second, 315*second, "broker"), false},
		{"cut off before the dispatch came", 316 * second, execution.Worker, cut(11*second, 315*second, "database"), false},
		{"delayed for less than its run time", 100 * second, execution.Worker, cut(11*second, 315*second, "database"), false},
		{"ended by the executor, which goes by the run deadline", arrived, execution.TimeoutMonitor, cut(11*second, 315*second, "database"), false},
	} {
		story := slices.Concat([]history.Event{
			registered(1, 1, "shell"), beat(0, 1), worker(0, execution.Active), created(second),
			move(second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0),
			move(second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1),
		}, c.faults, []history.Event{
			message(c.arrived, history.Delivered, "worker.1.executions", 0),
			move(claimed, execution.Scheduled, execution.Running, execution.Worker, 1, 1),
		})
		slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
		over := move(claimed+second, execution.Running, execution.Timeout, c.by, 1, 1)
		over.Reason = execution.RunTimeout
		if why := causeFinding(nil, append(story, over)); (why == "") != c.earned {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// A claim over a silent connection to the database is repeated after the statement timeout. That explains an
// unclaimed dispatch only if the dispatch could wait for hardly longer than that timeout.
func TestSilentConnectionExplainsExpiredShortDispatch(t *testing.T) {
	const dispatched = 10 * second
	silent := func(process, server string) []history.Event {
		return []history.Event{{At: 5 * second, Kind: history.FaultBegan, Fault: "f", Text: "silent_connections", Process: process, Queue: server}}
	}
	for _, c := range []struct {
		name    string
		arrived time.Duration
		timeout time.Duration
		faults  []history.Event
		earned  bool
	}{
		{"little more than a statement", dispatched, 3 * second, silent("w", "database"), true},
		{"time enough for a second claim", dispatched, 3*second + 1, silent("w", "database"), false},
		{"it came late", dispatched + second, 4 * second, silent("w", "database"), true},
		{"it never came", 0, 3 * second, silent("w", "database"), false},
		{"nothing is silent", dispatched, 3 * second, nil, false},
		{"another's connections", dispatched, 3 * second, silent("v", "database"), false},
	} {
		to := move(dispatched, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1)
		to.Due = dispatched + c.timeout
		story := slices.Concat([]history.Event{registered(1, 1, "shell"), beat(0, 1), worker(0, execution.Active)}, c.faults, []history.Event{
			created(dispatched), move(dispatched, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0), to,
		})
		if c.arrived > 0 {
			story = append(story, message(c.arrived, history.Delivered, "worker.1.executions", 0))
		}
		back := move(20*second, execution.Scheduled, execution.Requested, execution.DeadLetterHandler, 1, 2)
		back.Reason, back.Count = execution.DispatchTimeout, 1
		if why := causeFinding(nil, append(story, back)); (why == "") != c.earned {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// Waiting behind other executions doesn't explain a failure, even during a fault, if the executor could know
// that the worker was full.
func TestWaitingAtFullWorkerExplainsNoFailure(t *testing.T) {
	cases := []struct {
		name        string
		freed, told time.Duration
		earned      bool
	}{
		{"full the whole time", 0, 140 * second, false},
		{"full at first, and reported", 40 * second, 140 * second, false},
		{"full at first, reported at the last moment", 40 * second, 30 * second, false},
		{"full at first, and not reported", 40 * second, 30*second - 1, true},
		{"free at the moment of the dispatch", 30*second - 1, 140 * second, true},
	}
	for _, c := range cases {
		for _, to := range []execution.Status{execution.Requested, execution.Failed} {
			story := fullWorkerStory(c.freed, c.told, to)
			slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
			why := causeFinding(nil, story)
			if (why == "") != c.earned {
				t.Errorf("%s, then %v: %q", c.name, to, why)
			}
			if !c.earned && !strings.Contains(why, "waiting behind others is no cause") {
				t.Errorf("%s: the message lacks that it only waited: %q", c.name, why)
			}
		}
	}
}

// Because of a step of the database's clock, the worker may seem to have been full only before the dispatch.
func TestClockStepHidesFullWorker(t *testing.T) {
	step := history.Event{At: 100 * second, Kind: history.ClockStepped, Process: "database", Due: -90 * second}
	for _, c := range []struct {
		freed  time.Duration
		earned bool
	}{{40 * second, true}, {0, false}} {
		story := append(fullWorkerStory(c.freed, 140*second, execution.Requested), step)
		slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
		if why := causeFinding(nil, story); (why == "") != c.earned {
			t.Errorf("freed at %v: %q", c.freed, why)
		}
	}
}

// After a message with a hostile header has died, the broker creates no queues until it restarts without the
// message. That explains a missing worker only if the worker had no queue.
func TestBlockedQueueCreationExplainsMissingWorker(t *testing.T) {
	died := history.Event{At: 5 * second, Kind: history.Expired, Message: 3, Queue: "worker.1.executions", Count: 1}
	harmless := died
	harmless.Count = 0
	active := history.Event{At: 11 * second, Kind: history.WorkerLifecycle, Worker: 2, Incarnation: 2, Lifecycle: execution.Active}
	deleted := func(kind history.Kind) history.Event {
		return history.Event{At: 12 * second, Kind: kind, Fault: "f", Text: "delete_queue", Process: "late"}
	}
	restarted := func(still int64) []history.Event {
		return []history.Event{{At: 200 * second, Kind: history.BrokerDown}, {At: 201 * second, Kind: history.BrokerUp, Count: still}}
	}
	for _, c := range []struct {
		name   string
		story  []history.Event
		earned bool
	}{
		{"nothing", nil, false},
		{"a harmless message", []history.Event{harmless}, false},
		{"no queue for a new worker", []history.Event{died}, true},
		{"no new queue, and the worker has one", []history.Event{died, active}, false},
		{"no queue for a worker that has lost its own", []history.Event{died, active, deleted(history.FaultBegan), deleted(history.FaultEnded)}, true},
		{"a restart with the message", append([]history.Event{died}, restarted(1)...), true},
		{"a restart without the message", append([]history.Event{died}, restarted(0)...), false},
	} {
		story := append([]history.Event{
			{At: second, Kind: history.ProcessStarted, Process: "late"},
			{At: 2 * second, Kind: history.WorkerRegistered, Worker: 2, Incarnation: 2, Process: "late", Due: 999 * second, Limit: 1, Text: "python"},
		}, c.story...)
		created := created(300 * second)
		created.Text = "python"
		failed := move(400*second, execution.Scheduling, execution.Failed, execution.Scheduler, 0, 0)
		failed.Reason, failed.Worker, failed.Incarnation = execution.NoWorkers, 0, 0
		story = append(story, created, move(400*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0), failed)
		if why := causeFinding(nil, story); (why == "") != c.earned {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// If the broker ends a worker's session or consumer because of an unacknowledged delivery, the worker does
// not consume until it has recovered.
func TestConsumerTimeoutExplainsUnfitWorker(t *testing.T) {
	timedOut := func(at time.Duration, process string, cancels int64) []history.Event {
		return []history.Event{{At: at, Kind: history.ConsumerTimedOut, Process: process, Queue: "worker.1.executions", Due: 7 * second, Count: cancels}}
	}
	for _, c := range []struct {
		name   string
		story  []history.Event
		earned bool
	}{
		{"nothing", nil, false},
		{"its session ended", timedOut(399*second, "w", 0), true},
		{"its consumer was cancelled", timedOut(399*second, "w", 1), true},
		{"another's session ended", timedOut(399*second, "v", 0), false},
		{"its session ended long ago", timedOut(300*second, "w", 0), false},
	} {
		again := func(e history.Event) history.Event {
			e.Execution, e.Chain = 2, 2
			return e
		}
		failed := again(move(400*second, execution.Scheduling, execution.Failed, execution.Scheduler, 0, 0))
		failed.Reason, failed.Worker, failed.Incarnation = execution.NoWorkers, 0, 0
		story := slices.Concat(beginning(), []history.Event{again(created(100 * second))}, c.story,
			[]history.Event{again(move(400*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0)), failed})
		if why := causeFinding(nil, story); (why == "") != c.earned {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// An audit contains no faults, so ends that a fault could explain pass. Ends that contradict the rows don't.
func TestAuditIsJudgedInPart(t *testing.T) {
	held := []history.Kind{history.Created, history.Transition, history.Orchestrated}
	if !ByNumber(17).InPart(held) || ByNumber(17).InPart(nil) {
		t.Error("want an audit judged in part, and a complete history not")
	}
	if why := causeFinding(held, fullWorkerStory(0, 140*second, execution.Failed)); !strings.Contains(why, "has held 1 executions with a capacity of 1 since") {
		t.Errorf("failed for waiting at a worker that was full the whole time: %q", why)
	}
	if why := causeFinding(held, fullWorkerStory(40*second, 140*second, execution.Failed)); why != "" {
		t.Errorf("that worker had room for a while: %q", why)
	}
	lost := move(60*second, execution.Running, execution.Abandoned, execution.Reconciler, 1, 2)
	lost.Reason = execution.WorkerLost
	if why := causeFinding(held, append(beginning(), lost)); why != "" {
		t.Errorf("an unknown fault may have struck its worker: %q", why)
	}
	cancelled := move(60*second, execution.Running, execution.Cancelled, execution.Worker, 1, 1)
	cancelled.Reason = execution.CancelRequested
	if why := causeFinding(held, append(beginning(), cancelled)); !strings.Contains(why, "nobody has asked") {
		t.Errorf("cancelled without a request: %q", why)
	}
	request := history.Event{At: 50 * second, Kind: history.CancelRequested, Execution: 1, Chain: 1}
	if why := causeFinding(held, append(beginning(), request, cancelled)); why != "" {
		t.Errorf("cancelled as requested: %q", why)
	}
}
