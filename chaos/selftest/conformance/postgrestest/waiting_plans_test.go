package postgrestest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/testenv"
)

// fillWaiting makes a fleet of two workers, and rows that wait in vain: 20,000 that are pinned to
// the first worker, 20,000 of an action with 10,000 free slots that are pinned to it too, 20,000
// whose one slot is taken, 20,000 that wait for their parent, and 100,000 that have ended.
const fillWaiting = `
set session_replication_role = replica;
insert into action (ref, runtime, entrypoint, max_retries, concurrency)
values ('plain', 'shell', '/bin/a', 1, null), ('idle', 'shell', '/bin/a', 1, 10000), ('wide', 'shell', '/bin/a', 1, 10000), ('narrow', 'shell', '/bin/a', 1, 1);
insert into concurrency_slot (action, number) select a.id, n from action a cross join generate_series(1, a.concurrency) n;
update concurrency_slot s set execution = 1, taken_at = now() from action a where a.id = s.action and a.ref = 'narrow';
insert into execution (action, action_ref, runtime, entrypoint, max_retries, concurrency, status, pinned_worker, worker, incarnation, epoch, parent,
    due_at, created, scheduled_at, dispatch_deadline, started_at, run_deadline, claim_beat, ended, orchestrated_at, written_by)
select a.id, a.ref, 'shell', '/bin/a', 1, a.concurrency, k.status::execution_status, k.pinned, k.owner, k.owner, coalesce(k.owner, 0),
       case when k.kind = 'child' then 1 end, case when k.kind = 'child' then 'infinity' else m.at end, m.at,
       k.ran, k.ran, k.ran, k.ran, k.owner, k.ran, k.ran, 'api'
  from generate_series(1, $rows) n
 cross join lateral (select clock_timestamp() - n * interval '1 millisecond' as at) m
 cross join lateral (select kind, status, pinned, owner, case when owner is not null then m.at end as ran, ref from (values
       ('pinned', 'requested', 1, null, 'plain'), ('wide', 'requested', 1, null, 'wide'), ('narrow', 'requested', null, null, 'narrow'),
       ('child', 'requested', null, null, 'plain'), ('done', 'completed', null, 2, 'plain')) v (kind, status, pinned, owner, ref)
        where kind = case n % 9 when 0 then 'pinned' when 1 then 'wide' when 2 then 'narrow' when 3 then 'child' else 'done' end) k
  join action a on a.ref = k.ref;
set session_replication_role = origin`

// effort is the work of a statement: the rows that it read of the tables that grow, the rows that
// it locked, and the pages that it read in total.
type effort struct {
	executions, slots, locks, blocks float64
	text                             string
}

func effortOf(plan *node) (e effort) {
	e.blocks = plan.Hit + plan.Read
	plan.walkNodes(func(n *node) {
		rows := (n.Rows + n.Removed) * n.Loops
		switch {
		case n.Type == "LockRows":
			e.locks += rows
			return
		case n.Type == "ModifyTable" || rows == 0:
			return
		case executionTable(n.Relation):
			e.executions += rows
		case n.Relation == "concurrency_slot":
			e.slots += rows
		default:
			return
		}
		e.text += fmt.Sprintf("\n\t%s of %s using %s: %.0f rows in %.0f loops", n.Type, n.Relation, n.Index, rows, n.Loops)
	})
	return e
}

// Waiting costs nothing: neither rows for which no worker has room, nor free slots that no row needs, nor
// rows that have ended.
func TestPlansOfWaitingRows(t *testing.T) {
	s, r := recordContract(t)
	rows := 45_000
	if testenv.All() {
		rows = 180_000
	}
	survey, _ := r.sentStatement(t, "min(due_at) filter")
	freeSlots, _ := r.sentStatement(t, "with stale as")
	conn, fill := openPlanned(t)
	claim := func(name string, others int, demands ...store.Demand) hot {
		return claimFor(t, s, r, "claim "+name, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: demands, Others: others}, 0)
	}
	shell := func(pinned execution.WorkerID, limit int) store.Demand {
		return store.Demand{Runtime: "shell", Pinned: pinned, Limit: limit}
	}
	// Each lane may be read, however many rows wait in it. Only rows that can be placed cost something.
	const lanes = 10
	for _, x := range []struct {
		hot
		most effort
	}{
		{claim("with all workers full", 100, shell(0, 0), shell(1, 0), shell(2, 0)), effort{executions: lanes, blocks: 100}},
		{claim("with room at another worker", 100, shell(0, 6), shell(1, 0), shell(2, 6)), effort{executions: lanes, blocks: 100}},
		{claim("with no worker at all", 3), effort{executions: lanes + 6*3, slots: 6 * 3, locks: 4 * 3, blocks: 1000}},
		{claim("with room at the worker that they wait for", 100, shell(0, 0), shell(1, 3)), effort{executions: lanes + 6*3, slots: 6 * 3, locks: 4 * 3, blocks: 1000}},
		{hot{name: "Survey", sql: survey, args: []any{nil}}, effort{executions: float64(rows) * 4 / 9, slots: 1, blocks: float64(rows) * 5 / 9}},
		{hot{name: "FreeSlots", sql: freeSlots, args: []any{nil, 100}}, effort{executions: 1, slots: 1, locks: 1, blocks: 100}},
	} {
		if x.name == "claim with all workers full" {
			// If the session keeps a plan, it keeps one made for an empty table.
			explainPlan(t, conn, nil, x.hot)
			fill(strings.ReplaceAll(fillWaiting, "$rows", strconv.Itoa(rows)))
		}
		e := effortOf(explainPlan(t, conn, nil, x.hot))
		if e.executions > x.most.executions || e.slots > x.most.slots || e.locks > x.most.locks || e.blocks > x.most.blocks {
			t.Errorf("%s reads %.0f executions (at most %.0f expected), %.0f slots (%.0f), %.0f pages (%.0f), and locks %.0f rows (%.0f):%s",
				x.name, e.executions, x.most.executions, e.slots, x.most.slots, e.blocks, x.most.blocks, e.locks, x.most.locks, e.text)
		}
		t.Logf("%s: %.0f executions, %.0f slots, %.0f locks, %.0f pages", x.name, e.executions, e.slots, e.locks, e.blocks)
	}
}
