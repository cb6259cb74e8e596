package mutant

import (
	"context"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants executors that search for work too often, too seldom, or repeatedly in the same rows.

func init() {
	registerMutants(
		Mutant{
			Name: "looks-again-for-nothing", Source: "D22", Expected: 18, Scenario: "backlog-beyond-a-batch",
			About: "a scheduler claims once more after each claim that returned fewer rows than it asked for",
			Store: changeLooks(lookChangeStore{again: true}),
		},
		Mutant{
			Name: "observations-never-purged", Source: "D28", Expected: 18, Scenario: "observed-beyond-a-batch",
			About: "no executor deletes observations whose retention is over",
			Store: changeLooks(lookChangeStore{unpurged: true}),
		},
		Mutant{
			Name: "found-again-and-again", Source: "D22", Expected: 18, Scenario: "observed-beyond-a-batch",
			About: "a pass that has left a batch of rows finds them again and again, and none of the rows behind them",
			Store: changeLooks(lookChangeStore{forgetful: true}),
		},
		Mutant{
			Name: "first-batch-only", Source: "D22", Expected: 18, Scenario: "backlog-beyond-a-batch",
			About: "a scheduler that has claimed a whole batch leaves the next one to its next poll",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker || p.Client {
					return c
				}
				return &firstBatchStore{Store: c, p: p}
			},
		},
		Mutant{
			Name: "outage-told-twice", Source: "D28", Expected: 18, Scenario: "observed-beyond-a-batch",
			About: "a prober that only observes records the same outage again",
			Store: changeLooks(lookChangeStore{repeating: true}),
		},
		Mutant{
			Name: "more-than-a-batch", Source: "D22", Expected: 18, Scenario: "backlog-beyond-a-batch",
			About: "a scheduler claims more than a batch in one statement",
			Store: changeLooks(lookChangeStore{unbounded: true}),
		},
		Mutant{
			Name: "queue-in-use-forgotten", Source: "D28", Expected: 12, Scenario: "queues-in-use-of-the-gone",
			About: "an executor never again checks the queue of a long gone worker that it has found in use",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker || p.Client {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &deleteOnceSession{Session: s, p: p} }}
			},
		},
		Mutant{
			Name: "reason-of-an-action", Source: "D19", Expected: 8, Scenario: "unpublished-dispatches",
			About: "a reconciler takes back a dispatch that was never sent, with the reason connection, which only an action may report",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker || p.Client {
					return c
				}
				return &reclaimChangeStore{Store: c, p: p, reason: true}
			},
		},
		Mutant{
			Name: "writes-what-is-refused", Source: "D20", Expected: 18, Scenario: "message-expires-in-queue",
			About: "an executor repeats its earlier reclaims every minute, and they are refused",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker || p.Client {
					return c
				}
				return &reclaimChangeStore{Store: c, p: p, anyway: true}
			},
		},
		Mutant{
			Name: "canary-too-often", Source: "D28", Expected: 18, Scenario: "long-runs",
			About: "an executor tests a working dead letter path every two minutes",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker || p.Client {
					return b
				}
				return &canaryBroker{Broker: b, p: p}
			},
		},
		Mutant{
			Name: "looks-late", Source: "D22", Expected: 18, Scenario: "seldom-woken",
			About: "a scheduler looks for a row that it gave back three quarters of a second after it knows the row to be due",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker || p.Client {
					return c
				}
				return tardyClaimStore{c, p}
			},
		},
	)
}

// lookChangeStore is a store of an executor that searches for work differently.
type lookChangeStore struct {
	store.Store
	p Process
	// again makes a second claim after each claim that returned rows.
	again bool
	// unbounded claims twice a batch of each pool.
	unbounded bool
	// unpurged never purges observations.
	unpurged bool
	// forgetful searches rows again that a pass has left.
	forgetful bool
	// repeating records each observation of the workers a second time.
	repeating bool
}

func changeLooks(l lookChangeStore) func(Process, store.Store) store.Store {
	return func(p Process, c store.Store) store.Store {
		if p.Worker || p.Client {
			return c
		}
		own := l
		own.Store, own.p = c, p
		return &own
	}
}

// ClaimForScheduling implements store.Store.
func (l *lookChangeStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	if l.unbounded {
		for i := range c.Pools {
			if c.Pools[i] == l.p.Config.Executor.BatchSize {
				l.p.Acted("asked for two batches at once")
				c.Pools[i] *= 2
			}
		}
	}
	rows, err := l.Store.ClaimForScheduling(ctx, c)
	if err == nil && l.again && len(rows) > 0 && len(rows) < l.p.Config.Executor.BatchSize {
		more, err := l.Store.ClaimForScheduling(ctx, store.SchedulingClaim{Executor: c.Executor, Expiry: c.Expiry})
		if err == nil {
			l.p.Acted("looked again for due executions")
			rows = append(rows, more...)
		}
	}
	return rows, err
}

// DispatchDue implements store.Store.
func (l *lookChangeStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// Find implements store.Store.
func (l *lookChangeStore) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	if l.forgetful && len(f.Skip) > 0 {
		l.p.Acted("looked again at rows that it had left", f.Skip...)
		f.Skip = nil
	}
	return l.Store.Find(ctx, f)
}

// PurgeObservations implements store.Store.
func (l *lookChangeStore) PurgeObservations(ctx context.Context, age time.Duration, limit int) (int, error) {
	if l.unpurged {
		l.p.Acted("did not purge observations")
		return 0, nil
	}
	return l.Store.PurgeObservations(ctx, age, limit)
}

// ObserveWorkers implements store.Store.
func (l *lookChangeStore) ObserveWorkers(ctx context.Context, ws []store.ProbedWorker) ([]bool, error) {
	changed, err := l.Store.ObserveWorkers(ctx, ws)
	if l.repeating && err == nil {
		l.p.Acted("repeated a finding to the database")
		_, err = l.Store.ObserveWorkers(ctx, ws)
	}
	return changed, err
}

// firstBatchStore is a store whose scheduler returns one batch of the rows that no worker can take, and
// leaves the others.
type firstBatchStore struct {
	store.Store
	p Process
	// until is the time of the next search.
	until time.Duration
}

// DispatchDue implements store.Store.
func (f *firstBatchStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// ClaimForScheduling implements store.Store.
func (f *firstBatchStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	if now := f.p.Host.Monotonic(); now < f.until {
		f.p.Acted("left executions that no worker can take to a later poll")
		return nil, nil
	}
	rows, err := f.Store.ClaimForScheduling(ctx, c)
	if err == nil && len(rows) >= c.Others {
		f.until = f.p.Host.Monotonic() + f.p.Config.Executor.ReconcileInterval
	}
	return rows, err
}

// deleteOnceSession is a session that does not repeat the deletion of a queue that was in use.
type deleteOnceSession struct {
	broker.Session
	p Process
}

// DeleteIdle implements broker.Session.
func (d *deleteOnceSession) DeleteIdle(ctx context.Context, q broker.Queue) (broker.QueueFate, error) {
	fate, err := d.Session.DeleteIdle(ctx, q)
	if err == nil && fate == broker.QueueInUse {
		d.p.Acted("treated a queue that is in use as deleted")
		fate = broker.QueueDeleted
	}
	return fate, err
}

// reclaimChangeStore is a store that makes reclaims in another way.
type reclaimChangeStore struct {
	store.Store
	p Process
	// reason replaces the reconciler's reason.
	reason bool
	// anyway also repeats the earlier reclaims in each search.
	anyway bool
	taken  []store.Reclaim
}

// Reclaim implements store.Store.
func (r *reclaimChangeStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	if r.reason {
		for i := range rs {
			if rs[i].By == execution.Reconciler && rs[i].Reason == execution.Transient && rs[i].Cause == store.UnpublishedLate {
				r.p.Acted("took a dispatch back for a reason that only actions report", rs[i].Key.ID)
				rs[i].Reason = execution.Connection
			}
		}
	}
	outcomes, err := r.Store.Reclaim(ctx, rs)
	if r.anyway && err == nil {
		r.taken = append(r.taken[:0], rs...)
	}
	return outcomes, err
}

// PurgeDeadLetters implements store.Store.
func (r *reclaimChangeStore) PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error) {
	if r.anyway && len(r.taken) > 0 {
		r.p.Acted("repeated an earlier take-back", r.taken[0].Key.ID)
		_, _ = r.Store.Reclaim(ctx, r.taken)
	}
	return r.Store.PurgeDeadLetters(ctx, age, limit)
}

// canaryBroker is a broker that also tests the dead letter path on its own.
type canaryBroker struct {
	broker.Broker
	p     Process
	begun bool
}

// Connect implements broker.Broker.
func (c *canaryBroker) Connect(ctx context.Context) (broker.Session, error) {
	if !c.begun {
		c.begun = true
		c.p.Host.Go("another canary", func() {
			for c.p.Host.Sleep(context.Background(), 2*time.Minute) == nil {
				if s, err := c.Broker.Connect(context.Background()); err == nil {
					c.p.Acted("tested the dead letter path again")
					_ = broker.Canary(context.Background(), c.p.Host, s, c.p.Config.MessageQueue.RabbitMQ)
					s.Close()
				}
			}
		})
	}
	return c.Broker.Connect(ctx)
}

// tardyClaimStore is a store whose claims come late.
type tardyClaimStore struct {
	store.Store
	p Process
}

// DispatchDue implements store.Store.
func (t tardyClaimStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// ClaimForScheduling implements store.Store.
func (t tardyClaimStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	t.p.Acted("looked late")
	if err := t.p.Host.Sleep(ctx, 750*time.Millisecond); err != nil {
		return nil, err
	}
	return t.Store.ClaimForScheduling(ctx, c)
}
