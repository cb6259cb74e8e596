package mutant

import (
	"context"
	"errors"
	"slices"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants schedulers that disagree with each other, with the broker or with the row.

func init() {
	registerMutants(
		Mutant{
			Name: "claimed-by-all", Source: "D11", Expected: 3, Scenario: "two-executors",
			About: "two executors claim the same execution for scheduling, and both dispatch it by its id alone",
			Statements: func(p Process, c Database) store.Store {
				if p.Worker || p.Client {
					return c
				}
				return &claimChangeStore{
					Store: c,
					change: func(ctx context.Context, _ store.SchedulingClaim, own []execution.Execution) (all []execution.Execution, err error) {
						err = c.Step(ctx, func(tx Tx) { all = schedulingRows(tx) })
						for _, id := range rowIDs(all) {
							if !slices.Contains(rowIDs(own), id) {
								p.Acted("claimed an execution that another executor had claimed", id)
							}
						}
						return all, err
					},
					dispatch: func(ctx context.Context, ds []store.Dispatch) (results []store.DispatchResult, err error) {
						err = c.Step(ctx, func(tx Tx) {
							for _, d := range ds {
								results = append(results, dispatchByID(p, tx, d))
							}
						})
						return results, err
					},
				}
			},
		},
		Mutant{
			Name: "pin-ignored", Source: "D10", Expected: 9, Scenario: "pinned-to-a-stopped-worker",
			About: "an execution that is pinned to one worker may go to any",
			Store: func(p Process, c store.Store) store.Store {
				return &claimChangeStore{Store: c, change: func(_ context.Context, _ store.SchedulingClaim, rows []execution.Execution) ([]execution.Execution, error) {
					for i := range rows {
						if rows[i].Pinned != 0 {
							p.Acted("forgot to which worker the execution is pinned", rows[i].ID)
						}
						rows[i].Pinned = 0
					}
					return rows, nil
				}}
			},
		},
		Mutant{
			Name: "parks-the-pinned", Source: "D45", Expected: 18, Scenario: "pinned-backlog",
			About: "executions pinned to a full worker are claimed and given back again and again until it has room, so waiting costs as much as work",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker || p.Client {
					return c
				}
				return &eagerPinStore{c, p}
			},
		},
		Mutant{
			Name: "unpublished-is-blamed", Source: "D7", Expected: 2, Scenario: "broker-alarm",
			About: "executions are dispatched while the broker holds publishers back, and fail because no worker picks up messages that were never sent",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return blockIgnoringSession{s, p} }}
			},
			Store: func(p Process, c store.Store) store.Store { return &failUnpublishedStore{c, p} },
		},
		Mutant{
			Name: "unknown-claim-runs", Source: "D9", Expected: 4, Scenario: "database-outage",
			About: "a worker runs the action although it does not know whether its claim was granted",
			Store: func(p Process, c store.Store) store.Store { return &grantedClaimStore{c, p} },
		},
		Mutant{
			Name: "second-freshness", Source: "D33", Expected: 9, Scenario: "slow-links",
			About: "the executor treats a worker as stale if its last heartbeat is older than one interval, whatever its lease says",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker || p.Client {
					return c
				}
				earlier := p.Config.Worker.Lease() - p.Config.Worker.HeartbeatInterval - 100*time.Millisecond
				return showFalseWorkers("took a worker for stale before its lease is over", forEachWorker(func(w *store.WorkerRow) { w.ConsumerAlive = w.ConsumerAlive && w.LeaseOverFor <= -earlier }))(p, c)
			},
		},
		Mutant{
			Name: "no-run-deadline", Source: "D13", Expected: 12, Scenario: "run-timeouts",
			About: "only the worker enforces the time limit of a run, and the worker may hang",
			Store: hideFindings(store.Overrun),
		},
		Mutant{
			Name: "no-backstop", Source: "D20", Expected: 12, Scenario: "deaf-worker",
			About: "no loop checks for how long an execution has been scheduled: the executor relies on the time to live of its message, which does not run while a worker holds the message",
			Store: hideFindings(store.Unclaimed),
		},
		Mutant{
			Name: "one-at-a-time", Source: "D42", Expected: 9, Scenario: "overload",
			About: "a worker gets its next execution when the last one has ended, whatever its capacity, so executions wait although there is room",
			Store: func(p Process, c store.Store) store.Store {
				return showFalseWorkers("gave a worker one execution at a time", forEachWorker(func(w *store.WorkerRow) { w.Capacity = 1 - p.Config.Executor.DispatchAhead }))(p, c)
			},
		},
	)
}

// claimChangeStore is a store whose claims for scheduling are changed.
type claimChangeStore struct {
	store.Store
	change func(ctx context.Context, c store.SchedulingClaim, rows []execution.Execution) ([]execution.Execution, error)
	// dispatch replaces the guarded step; nil keeps it.
	dispatch func(ctx context.Context, ds []store.Dispatch) ([]store.DispatchResult, error)
}

// DispatchDue implements store.Store.
func (ccs *claimChangeStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// ClaimForScheduling implements store.Store.
func (ccs *claimChangeStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	rows, err := ccs.Store.ClaimForScheduling(ctx, c)
	if err != nil {
		return nil, err
	}
	return ccs.change(ctx, c, rows)
}

// Dispatch implements store.Store.
func (ccs *claimChangeStore) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	if ccs.dispatch == nil {
		return ccs.Store.Dispatch(ctx, executor, ds)
	}
	return ccs.dispatch(ctx, ds)
}

// schedulingRows returns the rows for which an executor is choosing a worker.
func schedulingRows(tx Tx) (rows []execution.Execution) {
	for id := execution.ID(1); int(id) <= tx.Rows(); id++ {
		if row := tx.Row(id); row.Status == execution.Scheduling {
			rows = append(rows, *row)
		}
	}
	return rows
}

func dispatchByID(p Process, tx Tx, d store.Dispatch) store.DispatchResult {
	row := tx.Row(d.Key.ID)
	if row.Status != execution.Scheduling && row.Status != execution.Scheduled {
		return store.DispatchResult{}
	}
	if row.Status != execution.Scheduling || row.SchedulingBy != p.Name {
		p.Acted("dispatched an execution that it had not claimed", row.ID)
	}
	tx.Named(d.Key, 0)
	tx.Move(d.Key.ID, execution.Scheduled, execution.Scheduler, execution.NoReason, func(e *execution.Execution) {
		e.Epoch++
		e.Worker, e.Incarnation = d.Worker.ID, d.Worker.Incarnation
		e.ScheduledAt, e.DispatchDeadline = tx.Now(), tx.Now().Add(d.Timeout)
	})
	return store.DispatchResult{Outcome: store.Outcome{Applied: true, Row: *tx.Row(d.Key.ID)}}
}

// eagerPinStore is a store that claims pinned executions whether or not their worker has room.
type eagerPinStore struct {
	store.Store
	p Process
}

// DispatchDue implements store.Store.
func (e *eagerPinStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// ClaimForScheduling implements store.Store.
func (e *eagerPinStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	room := make(map[execution.WorkerID]int)
	c.Demands, c.Pools = slices.Clone(c.Demands), nil
	for i := range c.Demands {
		if d := &c.Demands[i]; d.Pinned != 0 {
			room[d.Pinned] = max(room[d.Pinned], d.Limit)
			d.Limit = c.Others
		}
	}
	rows, err := e.Store.ClaimForScheduling(ctx, c)
	for i := range rows {
		pinned := rows[i].Pinned
		if room[pinned]--; pinned != 0 && room[pinned] < 0 {
			e.p.Acted("claimed a pinned execution although its worker has no room", rows[i].ID)
		}
	}
	return rows, err
}

// blockIgnoringSession is a session that does not detect that the broker blocks publishers.
type blockIgnoringSession struct {
	broker.Session
	p Process
}

// Blocked implements broker.Session.
func (b blockIgnoringSession) Blocked() bool {
	if b.Session.Blocked() {
		b.p.Acted("did not notice that the broker holds publishers back")
	}
	return false
}

// failUnpublishedStore fails dispatches that were not published in time.
type failUnpublishedStore struct {
	store.Store
	p Process
}

// Reclaim implements store.Store.
func (f *failUnpublishedStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	for i := range rs {
		if rs[i].Cause == store.UnpublishedLate && rs[i].Policy != config.Fail {
			f.p.Acted("failed a dispatch that was not published in time", rs[i].Key.ID)
			rs[i].Policy = config.Fail
		}
	}
	return f.Store.Reclaim(ctx, rs)
}

// claimedIDs returns the executions of the claims.
func claimedIDs(cs []store.Claim) []execution.ID {
	list := make([]execution.ID, len(cs))
	for i := range cs {
		list[i] = cs[i].Key.ID
	}
	return list
}

// grantedClaimStore is a store that treats a claim without an answer as granted.
type grantedClaimStore struct {
	store.Store
	p Process
}

// Claim implements store.Store.
func (g *grantedClaimStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := g.Store.Claim(ctx, w, cs)
	if !errors.Is(err, store.ErrUnknownOutcome) {
		return results, err
	}
	rows, readErr := g.Executions(ctx, claimedIDs(cs))
	if readErr != nil || len(rows) != len(cs) {
		return nil, err
	}
	g.p.Acted("treated a claim without an answer as granted", claimedIDs(cs)...)
	results = make([]store.ClaimResult, len(cs))
	for i := range rows {
		results[i].Outcome = store.Outcome{Applied: true, Row: rows[i]}
	}
	return results, nil
}
