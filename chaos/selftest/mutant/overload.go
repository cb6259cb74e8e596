package mutant

import (
	"context"
	"errors"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants executors and workers that mistake a long queue, a long run or a clock step for
// a failure.

func init() {
	registerMutants(
		Mutant{
			Name: "counts-at-a-full-worker", Source: "C1", Expected: 17, Scenario: "long-runs",
			About: "a dispatch that waited behind other runs past its deadline counts as ignored by the worker, and the third one fails the execution",
			Statements: func(p Process, c Database) store.Store {
				s := &statementStore{Store: c, client: c}
				s.reclaim = func(ctx context.Context, r store.Reclaim) (outcome store.Outcome, replaced bool, err error) {
					if !r.Counts {
						return outcome, false, nil
					}
					err = c.Step(ctx, func(tx Tx) {
						if outcome, replaced = countAlways(tx, &r); replaced {
							p.Acted("counted an unclaimed dispatch without checking whether its worker was full", r.Key.ID)
						}
					})
					return outcome, replaced, err
				}
				return s
			},
		},
		Mutant{
			Name: "blames-a-full-worker", Source: "C1", Expected: 9, Scenario: "long-runs-beside-a-queue",
			About: "dispatches that wait at a full worker count against its health, as if it had ignored them",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker {
					return c
				}
				// The last time at which the worker had been full for long, as far as this executor knows.
				grudges := make(map[execution.Incarnation]time.Duration)
				return &searchStore{Store: c, see: reportFalseStates(p, "blamed a full worker for dispatches that wait", func(ws []store.WorkerRow) {
					now := p.Host.Monotonic()
					for i := range ws {
						w := &ws[i]
						if w.FullFor > p.Config.Executor.DispatchTimeout {
							grudges[w.Incarnation] = now
						}
						if at, known := grudges[w.Incarnation]; known {
							for range p.Config.Health.UnhealthyThreshold {
								w.Expired = append(w.Expired, now-at)
							}
						}
					}
				})}
			},
		},
		Mutant{
			Name: "lease-refusal-ends-the-session", Source: "C8", Expected: 17, Scenario: "step-kills-busy",
			About: "if a claim is refused because the database's clock was set past the lease, the worker ends all its runs",
			Store: func(p Process, c store.Store) store.Store { return strictLeaseStore{c, p} },
		},
		Mutant{
			Name: "one-clock-dispatch", Source: "C8", Expected: 2, Scenario: "step-while-a-worker-is-cut",
			About: "a dispatch that only a step of the database's clock made late counts as ignored by the worker",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker {
					return c
				}
				return &clockMisreadStore{
					Store: c, p: p, read: farFuture, misses: func(r store.Reclaim) bool { return r.Counts },
					text: "blamed a worker for a dispatch that is only late by a clock that was set",
				}
			},
		},
		Mutant{
			Name: "one-clock-fleet", Source: "C8", Expected: 17, Scenario: "step-while-a-worker-is-cut",
			About: "when a step of the database's clock ends every lease, the scheduler concludes that there are no workers",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker {
					return c
				}
				return &searchStore{Store: c, see: reportFalseStates(p, "took a worker for absent whose lease is only over by the database's clock", forEachWorker(func(w *store.WorkerRow) {
					w.ConsumerAlive = w.ConsumerAlive && w.LeaseValid()
				}))}
			},
		},
		Mutant{
			Name: "delivery-held-for-hours", Source: "D30", Expected: 6, Scenario: "long-runs",
			About: "a worker acknowledges a dispatch when its run is over and not when it has claimed it, so RabbitMQ's consumer timeout closes its channel",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &lateSettleSession{s, p} }}
			},
		},
	)
}

// countAlways makes every reclaim count, whatever the worker's state was.
func countAlways(tx Tx, r *store.Reclaim) (outcome store.Outcome, replaced bool) {
	row := tx.Row(r.Key.ID)
	if row == nil || row.Status != execution.Scheduled || row.Epoch != r.Key.Epoch || r.Cause == store.Unclaimed && tx.Now().Sub(row.ScheduledAt) < r.Age {
		return outcome, false
	}
	tx.Named(r.Key, 0)
	to := execution.Requested
	if row.Dispatches+1 >= r.MaxDispatches {
		to = execution.Failed
	}
	tx.Move(r.Key.ID, to, r.By, r.Reason, func(e *execution.Execution) {
		e.Dispatches++
		if to == execution.Failed {
			e.FailureReason, e.Result = r.Reason, r.Result
			return
		}
		e.Epoch++
		e.Avoid, e.Worker, e.Incarnation = e.Worker, 0, 0
		e.DispatchDeadline, e.ScheduledAt, e.PublishedAt = time.Time{}, time.Time{}, time.Time{}
		e.SchedulingAt, e.SchedulingBy, e.SchedulingExpiresAt = time.Time{}, "", time.Time{}
		e.NotBefore = tx.Now().Add(r.Delay)
	})
	return store.Outcome{Applied: true, From: execution.Scheduled, Row: *tx.Row(r.Key.ID)}, true
}

// strictLeaseStore is a store that treats a lease that is over by the database's clock as the end of the
// incarnation.
type strictLeaseStore struct {
	store.Store
	p Process
}

// Claim implements store.Store.
func (s strictLeaseStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := s.Store.Claim(ctx, w, cs)
	if errors.Is(err, store.ErrLeaseOver) {
		s.p.Acted("treated a refused claim as the end of its incarnation", claimedIDs(cs)...)
		err = store.ErrLost
	}
	return results, err
}

// lateSettleSession is a session that settles each dispatch three quarters of an hour after the worker
// requests it.
type lateSettleSession struct {
	broker.Session
	p Process
}

// Consume implements broker.Session.
func (l *lateSettleSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := l.Session.Consume(ctx, queue, prefetch)
	if err != nil || !broker.IsWorkerQueue(queue) {
		return c, err
	}
	return &lateSettleConsumer{c, l.p}, nil
}

type lateSettleConsumer struct {
	broker.Consumer
	p Process
}

// Ack implements broker.Consumer.
func (l *lateSettleConsumer) Ack(d broker.Delivery) {
	if ids := dispatchedIDs(d.Envelope); len(ids) > 0 {
		l.p.Acted("did not acknowledge a dispatch that it has claimed", ids...)
	}
	l.p.Host.Go("late acknowledgement", func() {
		_ = l.p.Host.Sleep(context.Background(), 45*time.Minute)
		l.Consumer.Ack(d)
	})
}
