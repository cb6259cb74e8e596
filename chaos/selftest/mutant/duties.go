package mutant

import (
	"context"
	"errors"
	"slices"
	"sync"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants workers that neglect duties which only they have: to begin claimed executions, become
// active, keep within their capacity, drain on request, and report unclaimed dispatches.

func init() {
	registerMutants(
		Mutant{
			Name: "claim-doubt-forgotten", Source: "D9", Expected: 20, Scenario: "claims-in-doubt",
			About: "if a claim has an unknown outcome and the next attempt does not reach the database, the worker mistakes its own claim for another worker's and never begins",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &claimForgettingStore{Store: c, p: p, doubt: make(map[execution.Key]bool), forgotten: make(map[execution.Key]bool)}
			},
		},
		Mutant{
			Name: "activation-said-once", Source: "D32", Expected: 21, Scenario: "activation-on-a-bad-road",
			About: "a worker reports only once that it is active, whatever the answer was, so it may stay in lifecycle starting for ever",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &eagerActiveStore{Store: c, p: p}
			},
		},
		Mutant{
			Name: "one-slot-too-many", Source: "D42", Expected: 22, Scenario: "overload",
			About: "a worker runs one more action at a time than its registered capacity",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return fewerSlotsStore{c, p}
			},
		},
		Mutant{
			Name: "drain-unheard", Source: "D46", Expected: 10, Scenario: "cordon-under-load",
			About: "a worker does not learn that an operator drains it: it gets no new work, and runs for ever",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return drainHidingStore{c, p}
			},
		},
		Mutant{
			Name: "drain-forgotten", Source: "D46", Expected: 10, Scenario: "drained-while-cut-off",
			About: "a process that registers anew forgets that an operator drains it: it stays cordoned, and runs for ever",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &drainForgettingStore{Store: c, p: p}
			},
		},
		Mutant{
			Name: "result-left-at-the-fence", Source: "D23", Expected: 13, Scenario: "partition-worker-database",
			About: "a worker that has fenced itself does not write the results of its actions, and registers anew as if the database had refused them",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &fencedResultStore{c, p}
			},
		},
		Mutant{
			Name: "late-refusal-acknowledged", Source: "D20", Expected: 24, Scenario: "late-to-its-claim",
			About: "a worker acknowledges a dispatch that is too late to claim, so the dead letter handler never learns of it",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &ackForRejectSession{s, p} }}
			},
		},
		Mutant{
			Name: "sent-back-early", Source: "D30", Expected: 24, Scenario: "long-runs",
			About: "a worker waits for a free slot for half of the time that a dispatch has",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session {
					return &deliveryChangeSession{Session: s, change: func(d *broker.Delivery) {
						d.Envelope.Dispatches = slices.Clone(d.Envelope.Dispatches)
						for i := range d.Envelope.Dispatches {
							own := &d.Envelope.Dispatches[i]
							p.Acted("gave a delivery half of its time", own.Key.ID)
							if own.Action.DispatchTimeout == 0 {
								own.Action.DispatchTimeout = p.Config.Executor.DispatchTimeout
							}
							own.Action.DispatchTimeout /= 2
						}
					}}
				}}
			},
		},
		Mutant{
			Name: "ended-without-grace", Source: "D40", Expected: 13, Scenario: "shutdown-timeout",
			About:  "a worker ends its actions with SIGKILL, so that none has the time to clean up",
			Config: func(c *config.Config) { c.Worker.KillGrace = 0 },
		},
	)
}

// claimForgettingStore is a store of a worker that forgets, when the database can't be reached, that an earlier
// claim may have taken effect.
type claimForgettingStore struct {
	store.Store
	p Process

	mu    sync.Mutex
	doubt map[execution.Key]bool
	// forgotten are the keys whose claims are forgotten.
	forgotten map[execution.Key]bool
}

// Claim implements store.Store.
func (cfs *claimForgettingStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := cfs.Store.Claim(ctx, w, cs)
	cfs.mu.Lock()
	defer cfs.mu.Unlock()
	for i, c := range cs {
		switch {
		case errors.Is(err, store.ErrUnknownOutcome):
			cfs.doubt[c.Key] = true
			delete(cfs.forgotten, c.Key)
		case err != nil && cfs.doubt[c.Key]:
			cfs.forgotten[c.Key] = true
		case err == nil && cfs.forgotten[c.Key] && !results[i].Applied && results[i].Row.Incarnation == w.Incarnation:
			cfs.p.Acted("did not recognise its own claim", c.Key.ID)
			results[i].Row.Incarnation = 0
		}
		if err == nil {
			delete(cfs.doubt, c.Key)
			delete(cfs.forgotten, c.Key)
		}
	}
	return results, err
}

// eagerActiveStore is a store of a worker that treats itself as active once it has requested the lifecycle.
type eagerActiveStore struct {
	store.Store
	p Process
	// said is the latest incarnation that has requested it.
	said execution.Incarnation
}

// SetLifecycle implements store.Store.
func (e *eagerActiveStore) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	if to == execution.Active {
		if e.said == w.Incarnation {
			e.p.Acted("treated itself as active without an answer")
			return nil
		}
		e.said = w.Incarnation
	}
	return e.Store.SetLifecycle(ctx, w, to)
}

// fewerSlotsStore is a store of a worker that registers one slot less than it has.
type fewerSlotsStore struct {
	store.Store
	p Process
}

// Register implements store.Store.
func (f fewerSlotsStore) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	if g.Capacity > 1 {
		f.p.Acted("registered one slot less than it has")
		g.Capacity--
	}
	return f.Store.Register(ctx, g)
}

// drainHidingStore is a store that hides an operator's drain request from the worker.
type drainHidingStore struct {
	store.Store
	p Process
}

// Heartbeat implements store.Store.
func (d drainHidingStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	reply, err := d.Store.Heartbeat(ctx, b)
	if reply.Drain {
		d.p.Acted("did not learn that an operator drains it")
	}
	reply.Drain = false
	return reply, err
}

// drainForgettingStore is a store that forgets an operator's drain request when the worker's process
// registers anew.
type drainForgettingStore struct {
	store.Store
	p             Process
	registrations int
}

// Register implements store.Store.
func (d *drainForgettingStore) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	r, err := d.Store.Register(ctx, g)
	if err == nil {
		d.registrations++
	}
	return r, err
}

// Heartbeat implements store.Store.
func (d *drainForgettingStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	reply, err := d.Store.Heartbeat(ctx, b)
	if d.registrations > 1 && reply.Drain {
		d.p.Acted("forgot a drain when it registered anew")
		reply.Drain = false
	}
	return reply, err
}

// fencedResultStore is a store that treats the results of a fenced worker as refused, so that no hint reports
// them.
type fencedResultStore struct {
	store.Store
	p Process
}

// Finish implements store.Store.
func (f *fencedResultStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	if len(fs) == 1 && fs[0].Reason == execution.HeartbeatStale {
		f.p.Acted("did not write the result of an action that ended at the fence", fs[0].Key.ID)
		return []store.Outcome{{}}, nil
	}
	return f.Store.Finish(ctx, w, fs)
}

// ackForRejectSession is a session whose consumers acknowledge messages that they should reject.
type ackForRejectSession struct {
	broker.Session
	p Process
}

// Consume implements broker.Session.
func (a *ackForRejectSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := a.Session.Consume(ctx, queue, prefetch)
	if err != nil {
		return nil, err
	}
	return &ackForRejectConsumer{c, a.p}, nil
}

type ackForRejectConsumer struct {
	broker.Consumer
	p Process
}

// Reject implements broker.Consumer.
func (a *ackForRejectConsumer) Reject(d broker.Delivery, requeue bool) {
	if requeue || d.Envelope.Dispatches == nil {
		a.Consumer.Reject(d, requeue)
		return
	}
	a.p.Acted("acknowledged a dispatch that came too late", dispatchedIDs(d.Envelope)...)
	a.Consumer.Ack(d)
}

// avoidsNobody is a store whose rows name no worker to avoid.
func avoidsNobody() *Mutant {
	return &Mutant{
		Name: "avoids-nobody", Source: "D32", Expected: 9, Scenario: "deaf-worker",
		About: "the scheduler does not check from which worker an execution was taken back, so the execution goes there again",
		Store: func(p Process, c store.Store) store.Store {
			if !p.Executor() {
				return c
			}
			return &claimChangeStore{Store: c, change: func(_ context.Context, _ store.SchedulingClaim, rows []execution.Execution) ([]execution.Execution, error) {
				rows = slices.Clone(rows)
				for i := range rows {
					if rows[i].Avoid != 0 {
						p.Acted("forgot which worker the execution should avoid", rows[i].ID)
					}
					rows[i].Avoid = 0
				}
				return rows, nil
			}}
		},
	}
}
