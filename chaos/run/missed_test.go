package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
)

// missedRun returns the only violation of a run in which these rows ended in this order, one second apart.
func missedRun(t *testing.T, bound scenario.Bound, rows ...execution.Execution) (message string, about execution.ID, at time.Duration) {
	t.Helper()
	j := NewJudges(&scenario.Scenario{Actions: actions("a")}, config.Hardened, config.Default(config.Hardened), []int{})
	j.Observe(&history.Event{Kind: history.WorkerRegistered, Process: "shell-1", Worker: 7, Incarnation: 1})
	j.Observe(&history.Event{Kind: history.WorkerLifecycle, Worker: 7, Incarnation: 1, Lifecycle: execution.Active})
	for i := range rows {
		j.Observe(&history.Event{Kind: history.Created, Step: uint64(i + 1), Execution: rows[i].ID, Chain: rows[i].Chain(), To: execution.Requested, Action: "a"})
	}
	for i := range rows {
		if !rows[i].CancelRequestedAt.IsZero() {
			j.Observe(&history.Event{Kind: history.CancelRequested, Step: uint64(50 + i), Execution: rows[i].ID, Chain: rows[i].Chain()})
		}
	}
	for i := range rows {
		j.Observe(&history.Event{
			Kind: history.Transition, Step: uint64(100 + i), At: time.Duration(i) * time.Second, Execution: rows[i].ID, Chain: rows[i].Chain(), To: rows[i].Status,
		})
	}
	r := verdict.Run{Virtual: time.Hour, Steps: 999}
	var all []*execution.Execution
	for i := range rows {
		all = append(all, &rows[i])
	}
	j.flushWaiting()
	last := lastRows(all)
	j.tally.judgeBounds(&r, "executions", []scenario.Bound{bound}, statusCounts(last), last)
	if len(r.Violations) != 1 || r.Violations[0].Name != "expectation" {
		t.Fatalf("want one unmet expectation, got %+v", r.Violations)
	}
	v := &r.Violations[0]
	if end := v.At == time.Hour; end != (v.Step == 999) {
		t.Errorf("the moment is step %d at %v", v.Step, v.At)
	}
	return v.Message, v.Execution, v.At
}

func failed(id execution.ID, why execution.Reason, text string, by execution.Part) execution.Execution {
	return execution.Execution{ID: id, Status: execution.Failed, FailureReason: why, Result: execution.Result{Error: text, FailedBy: by}}
}

// An unmet bound names the executions that missed it, grouped by how and why they ended, and refers to the
// first end in the largest group.
func TestUnmetBoundListsMissedExecutions(t *testing.T) {
	done := func(id execution.ID) execution.Execution {
		return execution.Execution{ID: id, Status: execution.Completed}
	}
	cancelled := func(id execution.ID, by execution.Part, asked bool) execution.Execution {
		e := execution.Execution{ID: id, Status: execution.Cancelled, FailureReason: execution.CancelRequested, Result: execution.Result{Error: "Execution cancelled", FailedBy: by}}
		if asked {
			e.CancelRequestedAt = time.Unix(1, 0)
		}
		return e
	}
	skipped := func(id, parent execution.ID) execution.Execution {
		return execution.Execution{
			ID: id, Parent: parent, Status: execution.Cancelled, FailureReason: execution.ParentFailed,
			Result: execution.Result{Error: "Execution skipped", FailedBy: execution.API},
		}
	}
	echo := execution.Action{Ref: "core.echo", Runtime: "shell"}
	for _, c := range []struct {
		name  string
		bound scenario.Bound
		rows  []execution.Execution
		lines []string
		about execution.ID
		at    time.Duration
	}{
		{
			"cancelled as a client asked, whoever carried it out, or unasked",
			scenario.Bound{Of: "completed", Op: "=", Value: 100, Percent: true, Source: "= 100%"},
			[]execution.Execution{done(1), cancelled(2, execution.Worker, true), cancelled(3, execution.API, true), cancelled(4, execution.API, false)},
			[]string{
				"1 of 4 executions ended as completed; the scenario expects completed: = 100%",
				"2 ended as cancelled, as a client had asked: executions 2, 3",
				`1 ended as cancelled, cancelled ("Execution cancelled"), decided by the api: execution 4`,
			},
			2, time.Second,
		},
		{
			"too few",
			scenario.Bound{Of: "completed", Op: ">=", Value: 95, Percent: true, Source: ">= 95%"},
			[]execution.Execution{
				done(1), failed(2, execution.Unknown, "exit 1", execution.Worker),
				failed(4, execution.NoWorkers, "No workers available", execution.Scheduler), failed(3, execution.NoWorkers, "No workers available", execution.Scheduler),
			},
			[]string{
				"1 of 4 executions ended as completed; the scenario expects completed: >= 95%",
				`2 ended as failed, no_workers ("No workers available"), decided by the scheduler: executions 4, 3`,
				`1 ended as failed, unknown ("exit 1"), the run's own error: execution 2`,
			},
			4, 2 * time.Second,
		},
		{
			"too many",
			scenario.Bound{Of: "failed", Op: "=", Source: "0"},
			[]execution.Execution{done(1), failed(2, execution.Unknown, "", execution.Worker)},
			[]string{"1 of 2 executions ended as failed; the scenario expects failed: 0", "1 ended as failed, unknown, the run's own error: execution 2"},
			2, time.Second,
		},
		{
			"a share that is exact",
			scenario.Bound{Of: "completed", Op: "=", Value: 99, Percent: true, Source: "99%"},
			[]execution.Execution{done(1), done(2)},
			[]string{
				"2 of 2 executions ended as completed; the scenario expects completed: 99%", "2 ended as completed: executions 1, 2",
				"a bound without an operator is exact; at least as many is `completed: \">= 99%\"`",
			},
			1, 0,
		},
		{
			"stuck",
			scenario.Bound{Of: scenario.Stuck, Op: "=", Source: "0"},
			[]execution.Execution{
				{ID: 1, Status: execution.Requested, Action: echo},
				{ID: 2, Status: execution.Requested, Action: echo, AwaitsParent: true, Parent: 9},
				{ID: 3, Status: execution.Scheduled, Worker: 7, PublishedAt: time.Unix(1, 0)},
				{ID: 4, Status: execution.Scheduled, Worker: 8},
				{ID: 5, Status: execution.Running, Worker: 7},
				{ID: 6, Status: execution.Running, Worker: 7},
				{ID: 8, Status: execution.Scheduling, SchedulingBy: "executor-1"},
				{ID: 10, Status: execution.Canceling, Worker: 7},
			},
			[]string{
				"8 of 8 executions are stuck; the scenario expects stuck: 0",
				"2 stuck in running: shell-1 has claimed it and stored no result: executions 5, 6",
				"1 of core.echo stuck in requested: waits for a worker with the runtime shell: execution 1",
				"1 of core.echo stuck in requested: waits for its parent, execution 9: execution 2",
				"1 stuck in canceling: shell-1 was asked to end it: execution 10",
				"1 stuck in scheduled: sent to worker 8, whether it reached the broker is unknown: execution 4",
				"1 stuck in scheduled: waits in the queue of shell-1 to be claimed: execution 3",
				"1 stuck in scheduling: executor-1 has claimed it and chosen no worker: execution 8",
			},
			5, time.Hour,
		},
		{
			"only the last of a chain counts",
			scenario.Bound{Of: "completed", Op: ">=", Value: 1, Source: ">= 1"},
			[]execution.Execution{
				failed(1, execution.Unknown, "", execution.Worker),
				{ID: 2, Original: 1, RetryCount: 1, Status: execution.Timeout, FailureReason: execution.RunTimeout, Result: execution.Result{FailedBy: execution.Worker}},
			},
			[]string{
				"0 of 1 executions ended as completed; the scenario expects completed: >= 1",
				"1 ended as timeout, run_timeout, decided by the worker, after 1 retry: execution 2",
				"(an execution and its retries count as one)",
			},
			2, time.Second,
		},
		{
			"what others caused comes last, with its parents",
			scenario.Bound{Of: "completed", Op: "=", Value: 100, Percent: true, Source: "= 100%"},
			[]execution.Execution{
				skipped(1, 4), skipped(2, 5), skipped(3, 6), cancelled(4, execution.API, true), cancelled(5, execution.API, true),
				failed(6, execution.Unknown, "", execution.Worker),
				{ID: 7, Original: 6, RetryCount: 1, Status: execution.Failed, FailureReason: execution.Unknown, Result: execution.Result{FailedBy: execution.Worker}},
			},
			[]string{
				"0 of 6 executions ended as completed; the scenario expects completed: = 100%",
				"2 ended as cancelled, as a client had asked: executions 4, 5",
				"1 ended as failed, unknown, the run's own error, after 1 retry: execution 7",
				"3 ended as cancelled, skipped because their parents had not completed (2 cancelled, 1 failed; 1 is a child of 4): executions 1, 2, 3",
				"(an execution and its retries count as one)",
			},
			4, 3 * time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			message, about, at := missedRun(t, c.bound, c.rows...)
			if want := strings.Join(c.lines, "\n"); message != want {
				t.Errorf("it says\n%s\nwant\n%s", message, want)
			}
			if about != c.about || at != c.at {
				t.Errorf("it is about execution %d at %v, want %d at %v", about, at, c.about, c.at)
			}
		})
	}
}

// The text about a run that exceeded its timeout contains the run's duration and the timeout. The text for
// executions without a worker lists the workers that never became active, and the broker's part in that.
func TestUnmetBoundExplainsTimeoutsAndIdleWorkers(t *testing.T) {
	slow := scenario.Action{Action: execution.Action{Ref: "slow", Runtime: "shell", Timeout: 5 * time.Second}, TakesMin: 8 * time.Second, TakesMax: 12 * time.Second}
	j := NewJudges(&scenario.Scenario{Actions: []scenario.Action{slow}}, config.Hardened, config.Default(config.Hardened), []int{})
	for _, e := range []history.Event{
		{Kind: history.WorkerRegistered, Process: "shell-1", Worker: 1, Incarnation: 1},
		{Kind: history.WorkerLifecycle, Worker: 1, Incarnation: 1, Lifecycle: execution.Active},
		{Kind: history.Rejected, At: 30 * time.Second, Message: 3, Queue: "worker.1", Count: 1},
		{Kind: history.WorkerRegistered, Process: "late", Worker: 2, Incarnation: 2},
	} {
		j.Observe(&e)
	}
	j.flushWaiting()
	rows := []*execution.Execution{
		{ID: 1, Action: slow.Action, Status: execution.Timeout, FailureReason: execution.RunTimeout, Result: execution.Result{FailedBy: execution.Worker}},
		{ID: 2, Action: slow.Action, Status: execution.Failed, FailureReason: execution.NoWorkers, Result: execution.Result{FailedBy: execution.Scheduler}},
	}
	got := j.tally.explainShortfall(scenario.Bound{Of: "completed", Op: ">=", Value: 2}, execution.Completed, 0, 2, rows).lines
	want := []string{
		"1 of slow ended as failed, no_workers, decided by the scheduler: execution 2",
		"1 of slow ended as timeout, run_timeout (a run takes 8s to 12s and may take 5s), decided by the worker: execution 1",
		"late registered and never became active, so it got no work",
		"from 30s on the broker created no queue, and a worker without its queue does not become active: a message with a header that breaks dead lettering had died in worker.1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The text names only a few of many executions.
func TestUnmetBoundNamesFewOfMany(t *testing.T) {
	var rows []execution.Execution
	for id := range execution.ID(7) {
		rows = append(rows, failed(id+1, execution.Unknown, "", execution.Worker))
	}
	message, _, _ := missedRun(t, scenario.Bound{Of: "completed", Op: ">=", Value: 1, Source: ">= 1"}, rows...)
	if !strings.HasSuffix(message, "executions 1, 2, 3, 4, 5 and 2 more") {
		t.Errorf("it says\n%s", message)
	}
}
