package mutant

import (
	"context"
	"slices"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants executors that forget a failure at once or too late, and processes that do not wait for an
// unavailable server.

func init() {
	registerMutants(
		Mutant{
			Name: "once-degraded", Source: "D43", Expected: 9, Scenario: "well-again-gets-work",
			About: "a worker that did not consume once is the last choice for ever",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Executor() {
					return c
				}
				was := make(map[execution.Incarnation]bool)
				return &falseWorkerStore{Store: c, see: func(ws []store.WorkerRow) {
					for i := range ws {
						w := &ws[i]
						was[w.Incarnation] = was[w.Incarnation] || w.Lifecycle == execution.Active && !w.ConsumerAlive
						if was[w.Incarnation] && w.ConsumerAlive {
							p.Acted("took a worker for degraded that is well again: " + w.Name)
							w.Figures.Consecutive = max(w.Figures.Consecutive, p.Config.Health.DegradedThreshold)
						}
					}
				}}
			},
		},
		Mutant{
			Name: "outage-never-over", Source: "D46", Expected: 12, Scenario: "monitor-and-probes-observe",
			About: "a failed probe is remembered, even after a successful one",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Executor() {
					return c
				}
				return &openOutageStore{c, p}
			},
		},
		Mutant{
			Name: "first-backoff-only", Source: "D51", Expected: 8, Scenario: "queue-unbound",
			About: "an execution that is taken back waits for the first backoff, however often it was taken back before",
			Store: func(p Process, c store.Store) store.Store {
				r := p.Config.Retry
				_, longest := r.BackoffBounds(0)
				return &alteredReclaimStore{c, func(rc *store.Reclaim) {
					if rc.Delay > longest {
						p.Acted("used the first backoff instead of a later one", rc.Key.ID)
						rc.Delay = longest
					}
				}}
			},
		},
		Mutant{
			Name: "lying-is-free", Source: "D21", Expected: 24, Scenario: "deaf-worker",
			About: "a dispatch that a worker leaves unclaimed does not count against it, so the execution is dispatched again and again",
			Store: func(p Process, c store.Store) store.Store {
				return &alteredReclaimStore{c, func(rc *store.Reclaim) {
					if rc.Counts {
						p.Acted("did not count a dispatch that was left unclaimed", rc.Key.ID)
					}
					rc.Counts = false
				}}
			},
		},
		Mutant{
			Name: "reconnects-in-a-hurry", Source: "D57", Expected: 23, Scenario: "broker-outage",
			About: "a process that has lost the broker tries to reconnect every tenth of a second, for as long as the broker is away",
			Config: func(c *config.Config) {
				c.MessageQueue.RabbitMQ.ReconnectMin, c.MessageQueue.RabbitMQ.ReconnectMax = 100*time.Millisecond, 100*time.Millisecond
			},
		},
		Mutant{
			Name: "asks-again-at-once", Source: "D57", Expected: 23, Scenario: "database-outage",
			About: "an executor that can't reach the database asks again at once, hundreds of times in each pass",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Executor() {
					return c
				}
				return &insistentStore{c, p}
			},
		},
		Mutant{
			Name: "grace-cut-short", Source: "D45", Expected: 9, Scenario: "all-workers-down",
			About:  "an execution that no worker fits fails when half of its grace is over",
			Config: func(c *config.Config) { c.Executor.UnschedulableGrace /= 2 },
		},
		Mutant{
			Name: "dead-among-the-healthy", Source: "D44", Expected: 9, Scenario: "last-healthy-worker-dies",
			About: "a dead worker still counts as a better worker, so the remaining unhealthy ones get nothing",
			Store: showFalseWorkers("took a dead worker for a healthy one that is full", forEachWorker(func(w *store.WorkerRow) {
				if w.Lifecycle == execution.Lost {
					w.Lifecycle, w.LeaseOverFor, w.ConsumerAlive, w.Cordoned = execution.Active, -time.Second, true, false
					w.Load, w.Figures, w.Expired = 1000, execution.Figures{}, nil
				}
			})),
		},
		Mutant{
			Name: "first-back-concludes", Source: "D9", Expected: 9, Scenario: "broker-outage",
			About: "the first executor that reconnects after an outage of the broker concludes that there are no workers, because none has reconnected yet",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Executor() {
					return c
				}
				return &noGraceStore{Store: c, p: p}
			},
		},
	)
	registerMade(avoidsNobody)
}

// openOutageStore never records the end of an outage.
type openOutageStore struct {
	store.Store
	p Process
}

// ObserveWorkers implements store.Store.
func (o *openOutageStore) ObserveWorkers(ctx context.Context, ws []store.ProbedWorker) ([]bool, error) {
	var left []store.ProbedWorker
	for _, w := range ws {
		if !w.Ready {
			left = append(left, w)
		}
	}
	if len(left) < len(ws) {
		o.p.Acted("did not record that a health endpoint answers again")
	}
	var changed []bool
	if len(left) > 0 {
		var err error
		if changed, err = o.Store.ObserveWorkers(ctx, left); err != nil {
			return nil, err
		}
	}
	all := make([]bool, 0, len(ws))
	for _, w := range ws {
		all = append(all, !w.Ready && changed[0])
		if !w.Ready {
			changed = changed[1:]
		}
	}
	return all, nil
}

// alteredReclaimStore is a store whose reclaims are changed.
type alteredReclaimStore struct {
	store.Store
	change func(*store.Reclaim)
}

// Reclaim implements store.Store.
func (a *alteredReclaimStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	for i := range rs {
		a.change(&rs[i])
	}
	return a.Store.Reclaim(ctx, rs)
}

// insistentStore is a store that retries at once when the database can't be reached.
type insistentStore struct {
	store.Store
	p Process
}

// insists is the number of these retries.
const insists = 300

// Workers implements store.Store.
func (i *insistentStore) Workers(ctx context.Context, into []store.WorkerRow) (ws []store.WorkerRow, err error) {
	for range insists {
		if ws, err = i.Store.Workers(ctx, into); err == nil || ctx.Err() != nil {
			return ws, err
		}
		i.p.Acted("asked again at once")
	}
	return ws, err
}

// noGraceStore is a store of an executor that does not wait for workers that may only be late.
type noGraceStore struct {
	store.Store
	p Process

	workers  []store.WorkerRow
	runtimes map[execution.ID]string
}

// Workers implements store.Store.
func (n *noGraceStore) Workers(ctx context.Context, into []store.WorkerRow) (ws []store.WorkerRow, err error) {
	ws, err = n.Store.Workers(ctx, into)
	n.workers = ws
	return ws, err
}

// DispatchDue implements store.Store.
func (n *noGraceStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// ClaimForScheduling implements store.Store.
func (n *noGraceStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	rows, err := n.Store.ClaimForScheduling(ctx, c)
	n.runtimes = make(map[execution.ID]string, len(rows))
	for i := range rows {
		n.runtimes[rows[i].ID] = rows[i].Action.Runtime
	}
	return rows, err
}

// Park implements store.Store.
func (n *noGraceStore) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	for i := range ps {
		k := &ps[i]
		fits := func(w store.WorkerRow) bool { return w.Fits(n.runtimes[k.Key.ID]) }
		if k.Unschedulable || slices.ContainsFunc(n.workers, fits) {
			continue
		}
		n.p.Acted("did not wait for workers that may only be late", k.Key.ID)
		k.Unschedulable, k.Grace, k.Watched = true, n.p.Config.Executor.UnschedulableGrace, time.Hour
		k.Result = execution.Result{Error: "No workers available", Message: "No workers with fresh heartbeats available", FailedBy: execution.Scheduler}
	}
	return n.Store.Park(ctx, executor, ps)
}
