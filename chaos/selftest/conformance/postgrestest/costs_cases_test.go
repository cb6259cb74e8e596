package postgrestest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// costCase is a call of one method in one shape.
type costCase struct {
	method, shape string
	// lists reports whether the call takes a list or a limit, whose length is a separate dimension.
	lists bool
	// prepare makes the rows for a call about b rows, and returns the call.
	prepare func(c *costs, b int) func() error
}

func (c *costCase) caseName() string {
	if c.shape == "" {
		return c.method
	}
	return c.method + ", " + c.shape
}

// errorOf returns the error of a call, without its answer.
func errorOf[T any](_ T, err error) error { return err }

func keysOf(ids []execution.ID, epoch execution.Epoch) []execution.Key {
	all := make([]execution.Key, len(ids))
	for i, id := range ids {
		all[i] = execution.Key{ID: id, Epoch: epoch}
	}
	return all
}

// mapIDs makes an item of each id.
func mapIDs[T any](ids []execution.ID, item func(id execution.ID, n int) T) []T {
	all := make([]T, len(ids))
	for i, id := range ids {
		all[i] = item(id, i)
	}
	return all
}

// spreadWorker returns the worker of the nth row of a batch, as fillExecutions spreads them.
func spreadWorker(n int) store.WorkerKey {
	w := spread + (n+1)%(spreadTo-spread+1)
	return store.WorkerKey{ID: execution.WorkerID(w), Incarnation: execution.Incarnation(w)}
}

func workerNumber(n int) store.WorkerKey {
	return store.WorkerKey{ID: execution.WorkerID(n), Incarnation: execution.Incarnation(n)}
}

func costCases() []costCase {
	all := append(clientCosts(), executorCosts()...)
	for _, cause := range []store.ReclaimCause{
		store.Unclaimed, store.Unpublished, store.UnpublishedLate, store.OwnerGone, store.Overrun,
		store.ClaimExpired, store.Unorchestrated, store.Unanswered, store.Unsettled,
	} {
		all = append(all, findCost(cause))
	}
	all = append(append(all, reclaimCosts()...), append(observationCosts(), retentionCosts()...)...)
	return append(all, workerCosts()...)
}

func clientCosts() []costCase {
	return slices.Concat([]costCase{
		{"Executions", "", true, func(c *costs, b int) func() error {
			ids := c.fillExecutions(fillOf{status: "completed", handled: true, count: b})
			return func() error { return errorOf(c.Executions(c.ctx, ids)) }
		}},
		{"Actions", "a page", true, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.Actions(c.ctx, store.ActionQuery{Limit: b})) }
		}},
		{"Actions", "one", false, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.Actions(c.ctx, store.ActionQuery{Ref: "a", Limit: 1})) }
		}},
		{"PutActions", "", true, func(c *costs, b int) func() error {
			var put []execution.Action
			for range b {
				put = append(put, execution.Action{Ref: fmt.Sprintf("put%d", c.nextSerial()), Runtime: "cost", Concurrency: 1})
			}
			return func() error { return c.PutActions(c.ctx, put) }
		}},
		{"PutActions", "one with slots", false, func(c *costs, b int) func() error {
			put := []execution.Action{{Ref: "idle", Runtime: "other", Concurrency: c.sizeOf("free slots", 1)}}
			return func() error { return c.PutActions(c.ctx, put) }
		}},
		{"Create", "", true, func(c *costs, b int) func() error {
			items := make([]store.NewExecution, b)
			for i := range items {
				items[i] = store.NewExecution{ActionRef: "a", Parameters: json.RawMessage(`{"n":1}`), Pinned: claimant}
			}
			return func() error { return errorOf(c.Create(c.ctx, items)) }
		}},
		{"Create", "new keys", true, func(c *costs, b int) func() error {
			items := make([]store.NewExecution, b)
			for i := range items {
				items[i] = store.NewExecution{ActionRef: "a", IdempotencyKey: fmt.Sprintf("fresh%d", c.nextSerial())}
			}
			return func() error { return errorOf(c.Create(c.ctx, items)) }
		}},
		{"Create", "keys again", true, func(c *costs, b int) func() error {
			prefix := fmt.Sprintf("again%d-", c.nextSerial())
			c.fillExecutions(fillOf{status: "completed", handled: true, count: b, more: map[string]string{"idempotency_key": "'" + prefix + "' || n"}})
			items := make([]store.NewExecution, b)
			for i := range items {
				items[i] = store.NewExecution{ActionRef: "a", IdempotencyKey: fmt.Sprint(prefix, i+1)}
			}
			return func() error { return errorOf(c.Create(c.ctx, items)) }
		}},
		{"Create", "keys that are free again", true, func(c *costs, b int) func() error {
			prefix := fmt.Sprintf("over%d-", c.nextSerial())
			c.fillExecutions(fillOf{status: "completed", handled: true, count: b, ago: 2 * execution.KeyLifetime, more: map[string]string{"idempotency_key": "'" + prefix + "' || n"}})
			items := make([]store.NewExecution, b)
			for i := range items {
				items[i] = store.NewExecution{ActionRef: "a", IdempotencyKey: fmt.Sprint(prefix, i+1)}
			}
			return func() error { return errorOf(c.Create(c.ctx, items)) }
		}},
		{"Create", "children", true, func(c *costs, b int) func() error {
			parent := c.fillExecutions(fillOf{status: "running", count: 1})[0]
			switch {
			case c.isGrowing("children"):
				parent = permanentParent
			case c.isGrowing("chain"):
				parent = permanentChain
			}
			items := make([]store.NewExecution, b)
			for i := range items {
				items[i] = store.NewExecution{ActionRef: "a", Parent: parent}
			}
			return func() error { return errorOf(c.Create(c.ctx, items)) }
		}},
		{"List", "the newest", true, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.List(c.ctx, store.ExecutionQuery{Limit: b})) }
		}},
		{"List", "a filter that nothing passes", false, func(c *costs, b int) func() error {
			return func() error {
				return errorOf(c.List(c.ctx, store.ExecutionQuery{Status: execution.Abandoned, Limit: b}))
			}
		}},
		{"List", "the ids of a filter that nothing passes, within a window", false, func(c *costs, b int) func() error {
			ids := c.fillExecutions(fillOf{status: "completed", handled: true, count: b})
			return func() error {
				return errorOf(c.List(c.ctx, store.ExecutionQuery{
					Reason: execution.NoWorkers, Created: store.Period{From: time.Unix(1e9, 0)}, Ended: store.Period{To: time.Unix(2e9, 0)},
					Before: ids[b-1] + 1, After: ids[0] - 1, Limit: b, OnlyIDs: true,
				}))
			}
		}},
		{"List", "rows that are named", true, func(c *costs, b int) func() error {
			ids := c.fillExecutions(fillOf{status: "completed", handled: true, count: b})
			return func() error { return errorOf(c.List(c.ctx, store.ExecutionQuery{IDs: ids, Digests: true})) }
		}},
		{"Chain", "", false, func(c *costs, b int) func() error {
			id := c.fillExecutions(fillOf{status: "failed", handled: true, count: 1})[0]
			c.fillExecutions(fillOf{status: "failed", handled: true, count: 2, more: map[string]string{
				"original_execution": fmt.Sprint(id), "retry_count": "n", "retry_reason": "'transient'",
			}})
			if c.isGrowing("chain") {
				id = permanentChain
			}
			return func() error { return errorOf(c.Chain(c.ctx, id)) }
		}},
	}, deadLetterCosts(), []costCase{
		{"Cancel", "", true, func(c *costs, b int) func() error {
			ids := append(c.fillExecutions(fillOf{status: "requested", count: b / 2}), c.fillExecutions(fillOf{status: "running", count: b - b/2})...)
			if c.isGrowing("chain") {
				c.execSQL("update execution set status = 'running', orchestrated_at = null, ended = null, started_at = now(), claim_beat = 1, run_deadline = now() where id = (select id from execution where original_execution = $1 order by retry_count desc limit 1)", permanentChain)
				ids[0] = permanentChain
			}
			return func() error { return errorOf(c.Cancel(c.ctx, ids, "ci")) }
		}},
		{"Workers", "", false, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.Workers(c.ctx, nil)) }
		}},
		{"MarkQueuesDeleted", "", true, func(c *costs, b int) func() error {
			ws := make([]store.WorkerKey, b)
			c.execSQL("update worker_incarnation set lifecycle = 'lost' where incarnation between $1 and $2", late, late+b-1)
			for n := range ws {
				ws[n] = workerNumber(late + n)
			}
			return func() error {
				defer c.execSQL("update worker_incarnation set lifecycle = 'active' where incarnation between $1 and $2", late, late+b-1)
				defer c.execSQL("update worker set queues_deleted_after = null where id between $1 and $2", late, late+b-1)
				return errorOf(c.MarkQueuesDeleted(c.ctx, ws))
			}
		}},
		{"FindWorkers", "the first page", true, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.FindWorkers(c.ctx, store.WorkerQuery{Limit: b})) }
		}},
		{"FindWorkers", "by name", false, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.FindWorkers(c.ctx, store.WorkerQuery{Name: "w", Limit: 1})) }
		}},
		{"SetCordon", "", false, func(c *costs, b int) func() error {
			return func() error {
				return errorOf(c.SetCordon(c.ctx, store.Cordon{Worker: cordoned, On: true, Reason: "test", Drain: true}))
			}
		}},
		{"Transitions", "", false, func(c *costs, b int) func() error {
			id := c.fillExecutions(fillOf{status: "completed", handled: true, count: 1})[0]
			c.execSQL(`insert into transition_group (base, "to", epoch, old_epoch, named_epoch, writer)
				select $1::bigint, 'requested', 0, 0, 0, 'api' from generate_series(1, 5)`, int64(id))
			return func() error { return errorOf(c.Transitions(c.ctx, store.TransitionQuery{Execution: id, Limit: 500})) }
		}},
		{"Changes", "from the beginning", true, func(c *costs, b int) func() error {
			c.auditChanges(b)
			c.awaitTransactions()
			return func() error { return errorOf(c.Changes(c.ctx, store.ChangeQuery{Limit: b})) }
		}},
		{"Changes", "from the end", false, func(c *costs, b int) func() error {
			c.awaitTransactions()
			page, err := c.Changes(c.ctx, store.ChangeQuery{})
			c.must(err)
			return func() error { return errorOf(c.Changes(c.ctx, store.ChangeQuery{After: page.End, Limit: b})) }
		}},
		{"Changes", "a filter that nothing passes", true, func(c *costs, b int) func() error {
			c.auditChanges(b)
			c.awaitTransactions()
			return func() error {
				return errorOf(c.Changes(c.ctx, store.ChangeQuery{ActionRef: "none", To: execution.Abandoned, Limit: b}))
			}
		}},
	})
}

// auditChanges reads b changes of the audit.
func (c *costs) auditChanges(b int) {
	c.Helper()
	c.execSQL(`insert into transition_group (base, "to", epoch, old_epoch, named_epoch, writer)
		select n, 'requested', 0, 0, 0, 'api' from generate_series(1, $1::int) n`, b)
}

// awaitTransactions waits until every transaction as old as the latest change has ended, including the
// server's own in another database. Until then, Changes does not return the changes since.
func (c *costs) awaitTransactions() {
	c.Helper()
	for over := false; !over; {
		c.must(c.hand.QueryRow(c.ctx, `select coalesce((select t.transaction < pg_snapshot_xmin(pg_current_snapshot())
			from transition_group t order by t.transaction desc, t.id desc limit 1), true)`).Scan(&over))
	}
}

func executorCosts() []costCase {
	claimed := func(c *costs, demands []store.Demand, others int) func() error {
		return func() error {
			return errorOf(c.ClaimForScheduling(c.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: demands, Others: others}))
		}
	}
	directly := func(c *costs, runtime string, n int) func() error {
		o := store.Offer{Runtimes: []string{runtime}}
		for i := range n {
			o.Spread = append(o.Spread, store.Place{Worker: spreadWorker(i), Limit: 1 << 30})
		}
		o.Packed = o.Spread
		return func() error {
			return errorOf(c.DispatchDue(c.ctx, store.DueDispatch{Executor: "e", Expiry: time.Minute, Timeout: time.Minute, Offers: []store.Offer{o}}))
		}
	}
	return []costCase{
		{"ClaimForScheduling", "", true, func(c *costs, b int) func() error {
			c.fillExecutions(fillOf{status: "requested", count: b})
			return claimed(c, []store.Demand{{Runtime: "cost", Limit: b}}, 0)
		}},
		{"ClaimForScheduling", "limited actions", true, func(c *costs, b int) func() error {
			c.fillExecutions(fillOf{status: "requested", action: "limited", count: b})
			return claimed(c, []store.Demand{{Runtime: "cost", Limit: b}}, 0)
		}},
		{"ClaimForScheduling", "runtimes nobody offers", true, func(c *costs, b int) func() error {
			c.fillExecutions(fillOf{status: "requested", count: b})
			return claimed(c, nil, b)
		}},
		{"ClaimForScheduling", "nothing is due", false, func(c *costs, b int) func() error {
			return claimed(c, []store.Demand{{Runtime: "absent", Limit: b}}, 0)
		}},
		{"DispatchDue", "what is due", true, func(c *costs, b int) func() error {
			c.fillExecutions(fillOf{status: "requested", count: b})
			return directly(c, "cost", b)
		}},
		{"DispatchDue", "nothing is due", false, func(c *costs, b int) func() error {
			return directly(c, "absent", b)
		}},
		{"Dispatch", "", true, func(c *costs, b int) func() error {
			ids := c.fillExecutions(fillOf{status: "scheduling", count: b})
			ds := mapIDs(ids, func(id execution.ID, n int) store.Dispatch {
				return store.Dispatch{Key: execution.Key{ID: id}, Worker: spreadWorker(n), Timeout: time.Minute, Limit: 1 << 30}
			})
			return func() error { return errorOf(c.Dispatch(c.ctx, "e", ds)) }
		}},
		{"MarkPublished", "", true, func(c *costs, b int) func() error {
			published := keysOf(c.fillExecutions(fillOf{status: "scheduled", count: b}), 1)
			return func() error { return errorOf(c.MarkPublished(c.ctx, published)) }
		}},
		{"Park", "", true, func(c *costs, b int) func() error {
			ids := append(c.fillExecutions(fillOf{status: "scheduling", count: b / 2}), c.fillExecutions(fillOf{status: "scheduling", action: "limited", count: b - b/2})...)
			c.takeSlots("limited", ids)
			ps := mapIDs(ids, func(id execution.ID, n int) store.Park {
				return store.Park{Key: execution.Key{ID: id}, Delay: time.Second, Unschedulable: true, Grace: time.Hour}
			})
			return func() error { return errorOf(c.Park(c.ctx, "e", ps)) }
		}},
		{"Reap", "", true, func(c *costs, b int) func() error {
			c.execSQL(`update worker_incarnation set lifecycle = 'active', beat = 0, lease_expires_at = now() - interval '1 hour'
				where incarnation >= $1::bigint and incarnation < $1::bigint + $2::int`, late, b)
			var rs []store.Reap
			for n := range b {
				rs = append(rs, store.Reap{WorkerKey: workerNumber(late + n)})
			}
			return func() error { return errorOf(c.Reap(c.ctx, rs)) }
		}},
		{"Orchestrate", "ended", true, func(c *costs, b int) func() error {
			ids := append(c.fillExecutions(fillOf{status: "completed", count: b / 2}), c.fillExecutions(fillOf{status: "completed", action: "limited", count: b - b/2})...)
			c.takeSlots("limited", ids)
			os := mapIDs(ids, func(id execution.ID, _ int) store.Orchestration { return store.Orchestration{ID: id} })
			return func() error { return errorOf(c.Orchestrate(c.ctx, os)) }
		}},
		{"Orchestrate", "retries", true, func(c *costs, b int) func() error {
			ids := c.fillExecutions(fillOf{status: "failed", count: b, more: map[string]string{"failure_reason": "'transient'"}})
			os := mapIDs(ids, func(id execution.ID, _ int) store.Orchestration {
				return store.Orchestration{ID: id, Retry: &store.Retry{Count: 1, Reason: execution.Transient}}
			})
			return func() error { return errorOf(c.Orchestrate(c.ctx, os)) }
		}},
		{"Orchestrate", "children wait", false, func(c *costs, b int) func() error {
			parent := c.fillExecutions(fillOf{status: "completed", count: 1, more: map[string]string{"has_children": "true"}})[0]
			c.fillExecutions(fillOf{status: "requested", count: c.sizeOf("children", b), more: map[string]string{"parent": fmt.Sprint(parent), "due_at": "'infinity'"}})
			return func() error { return errorOf(c.Orchestrate(c.ctx, []store.Orchestration{{ID: parent}})) }
		}},
		settlingCost("one chain, children start", "completed"),
		settlingCost("one chain, children are skipped", "failed"),
		{"SettleChildren", "many chains", true, func(c *costs, b int) func() error {
			chains := c.fillExecutions(fillOf{status: "completed", handled: true, count: b, more: map[string]string{"has_children": "true", "settling_at": "now()"}})
			c.execSQL(`insert into execution (action, action_ref, runtime, entrypoint, max_retries, due_at, created, parent, written_by)
				select action, action_ref, runtime, entrypoint, max_retries, 'infinity', now(), id, 'api' from execution where id = any($1::bigint[])`, toIntegers(chains))
			return func() error { return errorOf(c.SettleChildren(c.ctx, chains, 1)) }
		}},
		{"SettleChildren", "no child waits", true, func(c *costs, b int) func() error {
			chains := c.fillExecutions(fillOf{status: "completed", handled: true, count: b})
			return func() error { return errorOf(c.SettleChildren(c.ctx, chains, few)) }
		}},
		{"StoreDeadLetters", "", true, func(c *costs, b int) func() error {
			ds := make([]store.DeadLetter, b)
			for i := range ds {
				ds[i] = store.DeadLetter{Queue: "q", Reason: "expired", Outcome: "kept", Open: true}
			}
			return func() error { return c.StoreDeadLetters(c.ctx, ds...) }
		}},
		{"PurgeDeadLetters", "", true, func(c *costs, b int) func() error {
			c.execSQL(`insert into dead_letter (queue, reason, outcome, received_at)
				select 'q', 'expired', 'kept', now() - interval '2 days' from generate_series(1, $1::int)`, b)
			return func() error { return errorOf(c.PurgeDeadLetters(c.ctx, 24*time.Hour, b)) }
		}},
		{"PurgeDeadLetters", "nothing is old enough", false, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.PurgeDeadLetters(c.ctx, 24*time.Hour, b)) }
		}},
		{"Clock", "", false, func(c *costs, b int) func() error { return func() error { return errorOf(c.Clock(c.ctx)) } }},
		{"Survey", "", false, func(c *costs, b int) func() error { return func() error { return errorOf(c.Survey(c.ctx)) } }},
		{"FreeSlots", "", true, func(c *costs, b int) func() error {
			c.execSQL(`update concurrency_slot set execution = 1000000000 + number, taken_at = now() - interval '1 hour'
				where number <= $1::int and action = (select id from action where ref = 'stale')`, b)
			return func() error { return errorOf(c.FreeSlots(c.ctx, b)) }
		}},
		{"FreeSlots", "nothing to free", false, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.FreeSlots(c.ctx, b)) }
		}},
		{"ForgetKeys", "", true, func(c *costs, b int) func() error {
			c.fillExecutions(fillOf{
				status: "completed", handled: true, count: b, ago: 72 * time.Hour,
				more: map[string]string{"idempotency_key": fmt.Sprintf("'forgotten%d-' || n", c.nextSerial())},
			})
			return func() error { return errorOf(c.ForgetKeys(c.ctx, 24*time.Hour, b)) }
		}},
	}
}

// settlingCost settles one batch of the children of one chain, which has as many children as its dimension.
// The chain itself is as long as its dimension.
func settlingCost(shape, status string) costCase {
	return costCase{"SettleChildren", shape, true, func(c *costs, b int) func() error {
		var first int64 = permanentChain
		if c.isGrowing("chain") {
			c.execSQL("update execution set settling_at = now(), has_children = true where id = $1", first)
		} else {
			first = int64(c.fillExecutions(fillOf{status: status, handled: true, count: 1, more: map[string]string{"has_children": "true", "settling_at": "now()"}})[0])
		}
		c.fillExecutions(fillOf{status: "requested", count: c.sizeOf("children", b), more: map[string]string{"parent": fmt.Sprint(first), "due_at": "'infinity'"}})
		return func() error { return errorOf(c.SettleChildren(c.ctx, []execution.ID{execution.ID(first)}, b)) }
	}}
}

// takeSlots gives slots of an action to its executions among the ids.
func (c *costs) takeSlots(ref string, ids []execution.ID) {
	c.Helper()
	c.execSQL(`update concurrency_slot s set execution = t.id, taken_at = now()
		from (select e.id, row_number() over (order by e.id) as n from execution e where e.id = any($2::bigint[]) and e.action_ref = $1) t
		where s.action = (select id from action where ref = $1) and s.number = t.n`, ref, toIntegers(ids))
}

func toIntegers(ids []execution.ID) []int64 {
	all := make([]int64, len(ids))
	for i, id := range ids {
		all[i] = int64(id)
	}
	return all
}

// findCost finds b rows for a cause.
func findCost(cause store.ReclaimCause) costCase {
	of := map[store.ReclaimCause]fillOf{
		store.Unclaimed:       {status: "scheduled"},
		store.Unpublished:     {status: "scheduled"},
		store.UnpublishedLate: {status: "scheduled", more: map[string]string{"dispatch_deadline": "now() - interval '1 hour'"}},
		store.OwnerGone:       {status: "running", owner: gone},
		store.Overrun:         {status: "running", more: map[string]string{"run_deadline": "now() - interval '1 hour'"}},
		store.ClaimExpired:    {status: "scheduling"},
		store.Unorchestrated:  {status: "completed"},
		store.Unanswered:      {status: "canceling"},
		store.Unsettled:       {status: "completed", handled: true, more: map[string]string{"settling_at": "now() - interval '1 hour'"}},
	}
	names := map[store.ReclaimCause]string{
		store.Unclaimed: "unclaimed", store.Unpublished: "unpublished", store.UnpublishedLate: "unpublished late", store.OwnerGone: "owner gone",
		store.Overrun: "overrun", store.ClaimExpired: "claim expired", store.Unorchestrated: "unorchestrated", store.Unanswered: "unanswered",
		store.Unsettled: "unsettled",
	}
	return costCase{"Find", names[cause], true, func(c *costs, b int) func() error {
		f := of[cause]
		f.count, f.ago = b, 2*time.Hour
		c.fillExecutions(f)
		return func() error { return errorOf(c.Find(c.ctx, store.Finding{Cause: cause, Age: time.Minute, Limit: b})) }
	}}
}

func reclaimCosts() []costCase {
	reclaimed := func(ids []execution.ID, r store.Reclaim) []store.Reclaim {
		return mapIDs(ids, func(id execution.ID, _ int) store.Reclaim {
			item := r
			item.Key = execution.Key{ID: id, Epoch: 1}
			return item
		})
	}
	return []costCase{
		{"Reclaim", "unclaimed", true, func(c *costs, b int) func() error {
			rs := reclaimed(c.fillExecutions(fillOf{status: "scheduled", count: b, ago: time.Hour}), store.Reclaim{
				Cause: store.Unclaimed, By: execution.TimeoutMonitor, Reason: execution.DispatchTimeout,
				Policy: config.Reschedule, MaxDispatches: 5, Counts: true, Delay: time.Second,
			})
			return func() error { return errorOf(c.Reclaim(c.ctx, rs)) }
		}},
		{"Reclaim", "owner gone", true, func(c *costs, b int) func() error {
			ids := append(c.fillExecutions(fillOf{status: "running", count: b / 2, owner: gone}), c.fillExecutions(fillOf{status: "scheduled", count: b - b/2, owner: gone})...)
			rs := reclaimed(ids, store.Reclaim{
				Cause: store.OwnerGone, By: execution.Reconciler, Reason: execution.WorkerLost,
				Policy: config.Reschedule, MaxDispatches: 5, To: execution.Abandoned,
			})
			return func() error { return errorOf(c.Reclaim(c.ctx, rs)) }
		}},
	}
}

func workerCosts() []costCase {
	return []costCase{
		{"Register", "a new name", false, func(c *costs, b int) func() error {
			g := c.newRegistration(fmt.Sprintf("new%d", c.nextSerial()))
			return func() error { return errorOf(c.Register(c.ctx, g)) }
		}},
		{"Register", "a known name", false, func(c *costs, b int) func() error {
			g := c.newRegistration(fmt.Sprintf("w%d", named))
			var err error
			g.After, err = c.Newest(c.ctx, g.Name)
			c.must(err)
			return func() error { return errorOf(c.Register(c.ctx, g)) }
		}},
		{"Newest", "", false, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.Newest(c.ctx, fmt.Sprintf("w%d", named))) }
		}},
		{"SetLifecycle", "", false, func(c *costs, b int) func() error {
			c.execSQL("update worker_incarnation set lifecycle = 'active' where incarnation = $1", setting)
			return func() error { return c.SetLifecycle(c.ctx, workerNumber(setting), execution.Draining) }
		}},
		{"Heartbeat", "all is well", true, func(c *costs, b int) func() error {
			beat := store.Beat{
				WorkerKey: workerNumber(beating), Number: c.nextSerial() + 10, Lease: 24 * time.Hour, ConsumerAlive: true,
				Held: keysOf(c.fillExecutions(fillOf{status: "running", owner: beating, count: b}), 1),
			}
			return func() error { return errorOf(c.Heartbeat(c.ctx, beat)) }
		}},
		{"Heartbeat", "nothing of it is known", true, func(c *costs, b int) func() error {
			c.fillExecutions(fillOf{status: "running", owner: beating, count: b})
			beat := store.Beat{
				WorkerKey: workerNumber(beating), Number: c.nextSerial() + 10, Lease: 24 * time.Hour, ConsumerAlive: true,
				Held: keysOf(c.fillExecutions(fillOf{status: "completed", handled: true, owner: beating, count: b}), 1),
			}
			return func() error { return errorOf(c.Heartbeat(c.ctx, beat)) }
		}},
		{"Claim", "", true, func(c *costs, b int) func() error {
			ids := c.fillExecutions(fillOf{status: "scheduled", owner: claimant, count: b})
			cs := mapIDs(ids, func(id execution.ID, _ int) store.Claim {
				return store.Claim{Key: execution.Key{ID: id, Epoch: 1}, Beat: 1}
			})
			return func() error { return errorOf(c.Claim(c.ctx, c.worker, cs)) }
		}},
		{"Finish", "", true, func(c *costs, b int) func() error {
			ids := c.fillExecutions(fillOf{status: "running", owner: claimant, count: b})
			fs := mapIDs(ids, func(id execution.ID, _ int) store.Finish {
				return store.Finish{Key: execution.Key{ID: id, Epoch: 1}, To: execution.Completed}
			})
			return func() error { return errorOf(c.Finish(c.ctx, c.worker, fs)) }
		}},
		{"Release", "", true, func(c *costs, b int) func() error {
			c.execSQL("update worker_incarnation set lifecycle = 'draining' where incarnation = $1", releasing)
			c.fillExecutions(fillOf{status: "scheduled", owner: releasing, count: b})
			return func() error { return errorOf(c.Release(c.ctx, workerNumber(releasing))) }
		}},
		{"Dispatched", "", true, func(c *costs, b int) func() error {
			c.fillExecutions(fillOf{status: "scheduled", owner: claimant, count: b})
			return func() error { return errorOf(c.Dispatched(c.ctx, c.worker, b)) }
		}},
		{"KeepRefusedResult", "", false, func(c *costs, b int) func() error {
			id := c.fillExecutions(fillOf{status: "completed", handled: true, count: 1})[0]
			return func() error {
				return c.KeepRefusedResult(c.ctx, c.worker, store.Finish{Key: execution.Key{ID: id, Epoch: 1}, To: execution.Completed})
			}
		}},
	}
}

func (c *costs) newRegistration(name string) store.Registration {
	return store.Registration{Process: c.nextSerial() + 1000, Attempt: 1, Name: name, Runtimes: []string{"cost"}, Capacity: 10, Lease: 24 * time.Hour}
}
