package reports_test

import (
	"fmt"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
)

const reproduceTTL = "chaos run ttl-race --profile documented --seed 41 --mutant unguarded-monitor"

// script builds a synthetic history. Events can be added in any order, and are sorted and numbered at the
// end.
type script struct {
	events  []history.Event
	message uint64
}

func (s *script) addEvent(at time.Duration, e history.Event) {
	e.At = at
	s.events = append(s.events, e)
}

func (s *script) sortedEvents() []history.Event {
	slices.SortStableFunc(s.events, func(a, b history.Event) int { return int(a.At - b.At) })
	for i := range s.events {
		s.events[i].Step = uint64(10*i + 1)
	}
	return s.events
}

// chainOf returns an execution's chain. The only retry is execution 31, a retry of 7.
func chainOf(id execution.ID) execution.ID {
	if id == 31 {
		return 7
	}
	return id
}

func (s *script) addTransition(at time.Duration, id execution.ID, epoch execution.Epoch, from, to execution.Status, by execution.Part, worker execution.WorkerID, process string, why execution.Reason) {
	s.addEvent(at, history.Event{
		Kind: history.Transition, Execution: id, Chain: chainOf(id), Epoch: epoch, OldEpoch: epoch, From: from, To: to,
		By: by, Worker: worker, Incarnation: execution.Incarnation(worker), Process: process, Reason: why,
	})
}

func (s *script) addMessage(at time.Duration, queue string, id execution.ID, kind uint8, from, to string, took time.Duration) uint64 {
	s.message++
	m := history.Event{Message: s.message, Type: kind, Execution: id, Queue: queue}
	if id != 0 {
		m.Epoch = 1
	}
	put := func(at time.Duration, k history.Kind, process, queue string, count int64) {
		e := m
		e.Kind, e.Process, e.Queue, e.Count = k, process, queue, count
		s.addEvent(at, e)
	}
	put(at, history.Published, from, "", 1)
	put(at, history.Enqueued, "", queue, 0)
	if to != "" {
		put(at+took, history.Delivered, to, queue, 0)
		put(at+took+20*time.Millisecond, history.Acked, to, queue, 0)
	}
	return s.message
}

const ms = time.Millisecond

// addDispatch adds the events from an execution's creation to its dispatch to a worker. to is empty if no
// worker receives the dispatch.
func (s *script) addDispatch(at time.Duration, id execution.ID, worker execution.WorkerID, to string) (scheduled time.Duration, message uint64) {
	s.addEvent(at, history.Event{Kind: history.Created, Execution: id, Chain: id, To: execution.Requested, By: execution.API, Process: "load"})
	s.addMessage(at+2*ms, "attune.executor.requested", 0, 1, "load", "executor-1", 5*ms)
	s.addTransition(at+12*ms, id, 0, execution.Requested, execution.Scheduling, execution.Scheduler, 0, "executor-1", 0)
	s.addTransition(at+30*ms, id, 1, execution.Scheduling, execution.Scheduled, execution.Scheduler, worker, "executor-1", 0)
	message = s.addMessage(at+35*ms, fmt.Sprintf("worker.%d.executions", worker), id, 2, "executor-1", to, 8*ms)
	s.addEvent(at+60*ms, history.Event{Kind: history.PublishedMarked, Execution: id, Epoch: 1, Process: "executor-1"})
	return at + 60*ms, message
}

func (s *script) addRun(at time.Duration, id execution.ID, worker execution.WorkerID, process string, takes time.Duration) {
	s.addTransition(at, id, 1, execution.Scheduled, execution.Running, execution.Worker, worker, process, 0)
	a := history.Event{Kind: history.ActionStarted, Execution: id, Chain: chainOf(id), Epoch: 1, Worker: worker, Incarnation: execution.Incarnation(worker), Process: process}
	s.addEvent(at+5*ms, a)
	a.Kind, a.To = history.ActionEnded, execution.Completed
	s.addEvent(at+takes, a)
}

func (s *script) addCompletion(at time.Duration, id execution.ID, worker execution.WorkerID, process string) {
	s.addTransition(at, id, 1, execution.Running, execution.Completed, execution.Worker, worker, process, 0)
	s.addMessage(at+3*ms, "attune.executor.completed", 0, 4, process, "executor-1", 6*ms)
	s.addEvent(at+15*ms, history.Event{Kind: history.Orchestrated, Execution: id, Chain: chainOf(id), From: execution.Completed, Process: "executor-1"})
}

// ttlRace returns the record of a worker that is paused while executions wait for it. Execution 6 expires and
// fails lawfully. Execution 7 is claimed when the worker resumes, and then failed by a timeout monitor that
// doesn't check: the violation.
func ttlRace() *verdict.Record {
	s := &script{}
	for i, p := range []string{"executor-1", "shell-1", "shell-2", "load"} {
		s.addEvent(time.Duration(i)*ms, history.Event{Kind: history.ProcessStarted, Process: p})
	}
	for w := execution.WorkerID(1); w <= 2; w++ {
		in, p := execution.Incarnation(w), fmt.Sprintf("shell-%d", w)
		s.addEvent(20*ms, history.Event{Kind: history.WorkerRegistered, Worker: w, Incarnation: in, Process: p})
		s.addEvent(40*ms, history.Event{Kind: history.WorkerLifecycle, Worker: w, Incarnation: in, Lifecycle: execution.Active, Process: p})
		for n := int64(1); n < 36; n++ {
			at := time.Duration(n) * 10 * time.Second
			if w == 1 && at > 12*time.Second && at < 300*time.Second {
				continue // paused
			}
			s.addEvent(at+time.Duration(w)*70*ms, history.Event{Kind: history.HeartbeatRenewed, Worker: w, Incarnation: in, Count: n, Due: at + 30*time.Second, Process: p})
		}
	}
	for id := execution.ID(1); id <= 30; id++ {
		if id == 6 || id == 7 {
			continue
		}
		at := time.Duration(id) * 2500 * ms
		scheduled, _ := s.addDispatch(at, id, 2, "shell-2")
		takes := time.Duration(200+int(id)*97%1700) * ms
		s.addRun(scheduled+10*ms, id, 2, "shell-2", takes)
		s.addCompletion(scheduled+10*ms+takes+5*ms, id, 2, "shell-2")
	}
	s.addRace()
	s.addEvent(355*time.Second, history.Event{Kind: history.Quiescent})

	r := &verdict.Record{
		Run: verdict.Run{
			Scenario: "ttl-race", Profile: config.Documented, Seed: 41, Mutant: "unguarded-monitor",
			Virtual: 356 * time.Second, Hash: 0x1234abcd5678ef90,
		},
		Events:         s.sortedEvents(),
		Workers:        map[execution.WorkerID]string{1: "shell-1", 2: "shell-2"},
		FaultIntervals: []verdict.FaultInterval{{Fault: pause, Begin: 12 * time.Second, End: 317300 * ms}},
	}
	r.Steps = uint64(10 * len(r.Events))
	r.Violations = []verdict.Violation{ttlViolation(r)}
	return r
}

const pause = "pause shell-1"

// addRace adds the events of executions 6 and 7.
func (s *script) addRace() {
	s.addEvent(12*time.Second, history.Event{Kind: history.FaultBegan, Fault: pause, Process: "shell-1"})
	s.addEvent(12*time.Second+ms, history.Event{Kind: history.ProcessPaused, Process: "shell-1"})
	_, six := s.addDispatch(14*time.Second, 6, 1, "")
	_, seven := s.addDispatch(17500*ms, 7, 1, "")
	s.addEvent(17600*ms, history.Event{Kind: history.FaultTouched, Fault: pause, Execution: 7})

	q := history.Event{Message: six, Type: 2, Execution: 6, Epoch: 1, Queue: "worker.1.executions"}
	q.Kind = history.Expired
	s.addEvent(314035*ms, q)
	q.Kind, q.Count = history.DeadLettered, 1
	s.addEvent(314035*ms, q)
	q.Queue, q.Kind, q.Count = "attune.dlx.queue", history.Enqueued, 0
	s.addEvent(314036*ms, q)
	q.Kind, q.Process = history.Delivered, "executor-1"
	s.addEvent(314040*ms, q)
	s.addEvent(314060*ms, history.Event{Kind: history.DeadLetterStored, Execution: 6, Epoch: 1, Reason: execution.QueueTimeout, Process: "executor-1"})
	s.addTransition(314070*ms, 6, 2, execution.Scheduled, execution.Failed, execution.DeadLetterHandler, 1, "executor-1", execution.QueueTimeout)
	q.Kind = history.Acked
	s.addEvent(314090*ms, q)
	s.addEvent(314110*ms, history.Event{Kind: history.Orchestrated, Execution: 6, Chain: 6, From: execution.Failed, Process: "executor-1"})

	s.addEvent(317300*ms, history.Event{Kind: history.FaultEnded, Fault: pause, Process: "shell-1"})
	s.addEvent(317301*ms, history.Event{Kind: history.ProcessResumed, Process: "shell-1"})
	q = history.Event{Message: seven, Type: 2, Execution: 7, Epoch: 1, Queue: "worker.1.executions", Kind: history.Delivered, Process: "shell-1"}
	s.addEvent(317310*ms, q)
	s.addRun(317402*ms, 7, 1, "shell-1", 2500*ms)
	s.addEvent(317500*ms, history.Event{Kind: history.Logged, Process: "executor-1", Text: "timeout check: 1 execution unclaimed for 300s"})
	s.addTransition(317610*ms, 7, 2, execution.Running, execution.Failed, execution.TimeoutMonitor, 1, "executor-1", execution.DispatchTimeout)
	q.Kind = history.Acked
	s.addEvent(317450*ms, q)
	s.addEvent(319910*ms, history.Event{Kind: history.StaleWrite, Execution: 7, Epoch: 1, To: execution.Completed, By: execution.Worker, Worker: 1, Incarnation: 1, Process: "shell-1"})
	s.addEvent(319915*ms, history.Event{Kind: history.RefusedResult, Execution: 7, Epoch: 1, Incarnation: 1, To: execution.Completed})
	s.addEvent(317700*ms, history.Event{Kind: history.Orchestrated, Execution: 7, Chain: 7, From: execution.Failed, Related: 31, Process: "executor-1"})
	s.addEvent(317700*ms, history.Event{Kind: history.Created, Execution: 31, Chain: 7, Count: 1, Reason: execution.DispatchTimeout, Due: 318700 * ms, To: execution.Requested, By: execution.RetryManager, Process: "executor-1"})
	s.addTransition(318710*ms, 31, 0, execution.Requested, execution.Scheduling, execution.Scheduler, 0, "executor-1", 0)
	s.addTransition(318730*ms, 31, 1, execution.Scheduling, execution.Scheduled, execution.Scheduler, 2, "executor-1", 0)
	s.addMessage(318735*ms, "worker.2.executions", 31, 2, "executor-1", "shell-2", 9*ms)
	s.addRun(318760*ms, 31, 2, "shell-2", 1500*ms)
	s.addCompletion(320300*ms, 31, 2, "shell-2")
}

// ttlViolation returns a judge's finding about the illegal write.
func ttlViolation(r *verdict.Record) verdict.Violation {
	v := verdict.Violation{
		Invariant: 2, Name: "ownership", Seed: 41, Execution: 7,
		Statement: "Every status is written by the owner of that stage, or by a lawful reclaim.",
		Message:   "execution 7 belonged to worker shell-1, which had claimed it 208 ms before, when the timeout monitor of executor-1 failed it: running → failed. The monitor may only do that after the run deadline.",
		Reproduce: reproduceTTL,
	}
	for _, e := range r.Events {
		if e.Execution == 7 && e.At <= 317610*ms {
			v.Causes = append(v.Causes, e)
			v.Step, v.At = e.Step, e.At
		}
		if e.Kind == history.ProcessPaused || e.Kind == history.ProcessResumed {
			v.Causes = append(v.Causes, e)
		}
	}
	return v
}

// syntheticSweep returns a sweep with every verdict, and the record of its first failure.
func syntheticSweep() (*verdict.Sweep, []*verdict.Record) {
	record := ttlRace()
	race := &verdict.Scenario{
		Name: "ttl-race", About: "A claim and the end of a message's time to live meet.", World: "sim", Strategy: "random",
		Profile: config.Documented, Mutant: "unguarded-monitor", Seeds: 50, Verdict: verdict.Fail,
		Why: []string{"invariant 2 (ownership) was violated in 3 of 50 runs"}, Violations: slices.Clone(record.Violations),
		Failing: 3, FirstFailing: 41,
		Faults:    []verdict.FaultCount{{Fault: "pause shell-1", Planned: 50, Fired: 50, Touched: 49}},
		Sometimes: map[string]int{"claim_after_ttl": 12, "unclaimed_failed": 50},
		Steps:     812_345, Virtual: 5 * time.Hour, Hash: 0xdeadbeef, Wall: 1250 * ms,
	}
	race.Chains[execution.Completed], race.Chains[execution.Failed] = 1450, 50
	crash := &verdict.Scenario{
		Name: "crash-after-heartbeat", About: "A worker dies right after a heartbeat, so for a while it looks alive.",
		World: "sim", Strategy: "random", Profile: config.Hardened, Seeds: 50, Verdict: verdict.Pass,
		Faults:    []verdict.FaultCount{{Fault: "crash shell-1", Planned: 50, Fired: 50, Touched: 50}},
		Sometimes: map[string]int{"lost_worker_detected": 50, "retry_scheduled": 31},
		Steps:     400_000, Virtual: 90 * time.Minute, Hash: 7, Wall: 600 * ms,
	}
	for seed := range uint64(50) {
		shown := []uint64{1, 2, 3, 10 + seed%8}
		if seed < 4 {
			shown = append(shown, 100+seed)
		}
		crash.Discovery.Add(shown)
	}
	crash.Chains[execution.Completed], crash.Chains[execution.Abandoned] = 1990, 10
	cut := &verdict.Scenario{
		Name: "network-partition", About: "A worker can't reach the broker for a while.", World: "sim", Strategy: "random",
		Profile: config.Hardened, Seeds: 50, Verdict: verdict.Inconclusive,
		Why: []string{"fault “partition shell-2 from broker” touched nothing in 50 runs", "“unclaimed_rescheduled” was never reached"},
		Faults: []verdict.FaultCount{
			{Fault: "partition shell-2 from broker", Planned: 50, Fired: 50},
			{Fault: "broker restart", Planned: 50, Fired: 48, Touched: 40},
		},
		Sometimes: map[string]int{"unclaimed_rescheduled": 0, "retry_scheduled": 2},
		Steps:     500_000, Virtual: 2 * time.Hour, Hash: 8, Wall: 700 * ms,
	}
	cut.Chains[execution.Completed], cut.Chains[execution.None] = 1999, 1
	return &verdict.Sweep{
		Scenarios: []*verdict.Scenario{race, cut, crash}, Verdict: verdict.Fail, Go: "go1.26.8", Commit: "78845b2",
	}, []*verdict.Record{record}
}
