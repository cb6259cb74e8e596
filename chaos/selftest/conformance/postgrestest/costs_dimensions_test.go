package postgrestest_test

import (
	"fmt"
	"time"
)

// dimension is a property that grows while the system is in use. fill adds rows from one size to a
// larger one.
type dimension struct {
	name string
	// what describes the counted figures, for readers.
	what string
	// small is the size n of the daily test, full that of HANDOFF_COST=full. 2n follows either.
	small, full int
	fill        func(c *costs, from, to int)
}

func allDimensions() []dimension {
	executions := func(f fillOf) func(*costs, int, int) {
		return func(c *costs, from, to int) {
			f.from, f.count = from, to-from
			c.fillExecutions(f)
		}
	}
	return []dimension{
		{"finished", "executions that are finished and handled", 25_000, 1_000_000, executions(fillOf{status: "completed", handled: true, ago: time.Hour})},
		{"names", "worker names that were seen long ago, whose queues are deleted", 2_000, 10_000, func(c *costs, from, to int) {
			c.execSQL(`with new as (insert into worker (name, incarnation, queues_deleted_after) select 'old' || n, -n, -n from generate_series($1::int + 1, $2::int) n returning id, incarnation)
				insert into worker_incarnation (incarnation, worker, process, attempt, lifecycle, runtimes, capacity, lease_expires_at, registered_at)
				select incarnation, id, 1, 1, 'lost', '{cost}', 10, now() - interval '1 day', now() - interval '2 days' from new`, from, to)
		}},
		{"incarnations", "incarnations of one worker name", 2_000, 10_000, func(c *costs, from, to int) {
			c.execSQL(`insert into worker_incarnation (incarnation, worker, process, attempt, lifecycle, runtimes, capacity, lease_expires_at, registered_at)
				select -n, $3::bigint, 1, 1, 'lost', '{cost}', 10, now() - interval '1 day', now() - interval '2 days'
				  from generate_series($1::int + 1, $2::int) n`, from, to, named)
		}},
		{"free slots", "free concurrency slots of an action without executions", 2_000, 10_000, func(c *costs, from, to int) {
			c.fillSlots("idle", from, to, "null")
		}},
		{"held slots", "concurrency slots that running executions hold", 5_000, 10_000, func(c *costs, from, to int) {
			c.fillExecutions(fillOf{status: "running", action: "idle", from: from, count: to - from, more: map[string]string{"id": "-n"}})
			c.fillSlots("idle", from, to, "-n")
		}},
		{"children", "children that wait for the end of one chain", 10_000, 100_000, func(c *costs, from, to int) {
			if from == 0 {
				c.fillExecutions(fillOf{status: "running", count: 1, more: map[string]string{"id": fmt.Sprint(permanentParent), "has_children": "true"}})
			}
			c.fillExecutions(fillOf{status: "requested", count: to - from, more: map[string]string{"parent": fmt.Sprint(permanentParent), "due_at": "'infinity'"}})
		}},
		{"backlog", "requested executions that any worker may run", 5_000, 20_000, executions(fillOf{status: "requested", ago: time.Minute})},
		{"pinned", "requested executions that are pinned to one worker", 5_000, 20_000, executions(fillOf{
			status: "requested", ago: time.Minute, more: map[string]string{"pinned_worker": fmt.Sprint(claimant)},
		})},
		{"limited", "requested executions of an action whose slots are all taken", 5_000, 20_000, executions(fillOf{
			status: "requested", action: "busy", ago: time.Minute,
		})},
		{"limited, free", "requested executions of an action with as many free slots", 2_000, 20_000, func(c *costs, from, to int) {
			c.fillExecutions(fillOf{status: "requested", action: "wide", count: to - from, ago: time.Minute})
			c.fillSlots("wide", from, to, "null")
		}},
		{"limited actions", "actions with slots and an execution that waits", 200, 1_000, func(c *costs, from, to int) {
			c.execSQL(`insert into action (ref, runtime, entrypoint, max_retries, concurrency)
				select 'few' || n, 'other', '/bin/a', 1, 1 from generate_series($1::int + 1, $2::int) n`, from, to)
			c.execSQL(`insert into concurrency_slot (action, number, execution, taken_at)
				select id, 1, -id, now() from action where ref like 'few%' on conflict do nothing`)
			c.execSQL(`insert into execution (action, action_ref, runtime, entrypoint, max_retries, concurrency, status, due_at, created, written_by)
				select a.id, a.ref, a.runtime, '/bin/a', 1, 1, 'requested', now(), now(), 'api' from action a
				 where a.ref like 'few%' and not exists (select from execution e where e.action = a.id)`)
		}},
		{"actions", "actions", 500, 2_000, func(c *costs, from, to int) {
			c.execSQL(`insert into action (ref, runtime, entrypoint, max_retries)
				select 'action' || n, 'other', '/bin/a', 1 from generate_series($1::int + 1, $2::int) n`, from, to)
		}},
		{"runtimes", "runtimes with a requested execution", 200, 1_000, func(c *costs, from, to int) {
			c.fillExecutions(fillOf{status: "requested", count: to - from, from: from, more: map[string]string{"runtime": "'runtime' || n"}})
		}},
		{"scheduled", "executions that are scheduled", 5_000, 20_000, executions(fillOf{status: "scheduled"})},
		{"running", "executions that run", 5_000, 20_000, executions(fillOf{status: "running"})},
		{"unhandled", "finished executions whose end is not handled", 5_000, 20_000, executions(fillOf{status: "completed"})},
		{"chain", "retries in one chain", 500, 2_000, func(c *costs, from, to int) {
			if from == 0 {
				c.fillExecutions(fillOf{status: "failed", handled: true, count: 1, more: map[string]string{"id": fmt.Sprint(permanentChain), "failure_reason": "'transient'"}})
			}
			c.fillExecutions(fillOf{status: "failed", handled: true, from: from, count: to - from, more: map[string]string{
				"original_execution": fmt.Sprint(permanentChain), "retry_count": "n", "retry_reason": "'transient'",
			}})
		}},
		{"open dead letters", "dead letters that nobody has dealt with", 5_000, 20_000, func(c *costs, from, to int) { c.fillDeadLetters(to-from, "null") }},
		{"handled dead letters", "dead letters that were dealt with", 5_000, 20_000, func(c *costs, from, to int) { c.fillDeadLetters(to-from, "now()") }},
		{"transitions", "rows in transition_group, half of them about one execution and half about 64", 10_000, 1_000_000, func(c *costs, from, to int) {
			c.execSQL(`insert into transition_group (base, members, "from", "to", epoch, old_epoch, named_epoch, writer)
				select -64 * (1 + n % 1000), 1 - n % 2 * 2, 'requested', 'scheduling', 0, 0, 0, 'scheduler' from generate_series(1, $1::int) n`, to-from)
		}},
		{"expiries", "expired dispatches of one worker within a day", 5_000, 20_000, func(c *costs, from, to int) { c.fillExpiries(from, to, "1 minute") }},
		{"observations", "observations of dispatches and of outages that are over", 5_000, 20_000, func(c *costs, from, to int) {
			c.execSQL(`insert into observation (part, execution, epoch, worker, incarnation, would, reason, at)
				select 'execution_timeout_monitor', -n, 1, 1, 1, 'requested', 'dispatch_timeout', clock_timestamp() from generate_series($1::int + 1, $2::int) n`, from, to)
			c.execSQL(`insert into observation (part, worker, incarnation, would, reason, at, ended_at)
				select 'health_prober', 1, 1, 'unreachable', 'cost', clock_timestamp(), now() from generate_series($1::int + 1, $2::int) n`, from, to)
		}},
		{"old expiries", "expired dispatches of one worker, older than a day", 5_000, 20_000, func(c *costs, from, to int) { c.fillExpiries(from, to, "2 days") }},
		{"keys", "idempotency keys of the last day", 5_000, 20_000, executions(fillOf{
			status: "completed", handled: true, ago: time.Hour, more: map[string]string{"idempotency_key": "'key' || n"},
		})},
		{"old keys", "idempotency keys that are older than a day", 5_000, 20_000, executions(fillOf{
			status: "completed", handled: true, ago: 48 * time.Hour, more: map[string]string{"idempotency_key": "'key' || n"},
		})},
		{"refused results", "refused results", 5_000, 20_000, func(c *costs, from, to int) {
			c.execSQL(`insert into refused_result (execution, epoch, worker, incarnation, status, received_at)
				select n, 1, 1, 1, 'completed', now() from generate_series(1, $1::int) n`, to-from)
		}},
	}
}

// Rows to which all rows of a dimension refer. Ids and incarnations that a dimension must know are below
// zero.
const permanentParent, permanentChain = -1, -2

func (c *costs) fillSlots(ref string, from, to int, holder string) {
	c.Helper()
	c.execSQL(fmt.Sprintf(`insert into concurrency_slot (action, number, execution, taken_at)
		select a.id, n + 1, %s, case when %s is not null then now() end from action a, generate_series(%d + 1, %d) n where a.ref = '%s'`,
		holder, holder, from, to, ref))
	c.execSQL("update action set concurrency = $1 where ref = $2", to+1, ref)
}

func (c *costs) fillDeadLetters(count int, handled string) {
	c.Helper()
	c.execSQL(fmt.Sprintf(`insert into dead_letter (queue, reason, outcome, received_at, handled_at)
		select 'q', 'expired', 'kept', clock_timestamp(), %s from generate_series(1, %d) n`, handled, count))
}

func (c *costs) fillExpiries(from, to int, ago string) {
	c.Helper()
	c.execSQL(fmt.Sprintf(`insert into worker_expiry (incarnation, at)
		select %d, now() - interval '%s' - n * interval '1 millisecond' from generate_series(%d + 1, %d) n`, spread, ago, from, to))
}

// undoChanges undoes the changes that dimensions made to rows that existed before them.
func (c *costs) undoChanges() {
	c.Helper()
	c.deleteAfter(c.before)
	c.execSQL("delete from execution where id < 0")
	c.execSQL("delete from worker_incarnation where incarnation < 0")
	c.execSQL("delete from worker_expiry")
	c.execSQL("update action set concurrency = 1 where ref in ('idle', 'wide')")
	c.execSQL("delete from concurrency_slot where number > 1 and action in (select id from action where ref in ('idle', 'wide'))")
	c.execSQL("update concurrency_slot set execution = null, taken_at = null where action in (select id from action where ref in ('idle', 'wide'))")
}
