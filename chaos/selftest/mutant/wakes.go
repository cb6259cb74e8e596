package mutant

import (
	"context"
	"slices"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants processes that lose messages to them, or their own decisions. A loop later repairs every
// loss, so it shows only in the delay.

func init() {
	registerMutants(
		Mutant{
			Name: "completion-hint-ignored", Source: "D22", Expected: 26, Scenario: "prompt-reactions",
			About:  "an executor handles an end when its reconciler finds it, and not when a hint tells of it",
			Broker: deafTo(false, broker.ExecutionCompleted, broker.ExecutionStatusChanged),
		},
		Mutant{
			Name: "submission-hint-ignored", Source: "D22", Expected: 26, Scenario: "prompt-reactions",
			About:  "an executor looks for submitted executions when it polls, and not when a hint tells of them",
			Broker: deafTo(false, broker.ExecutionRequested),
		},
		Mutant{
			Name: "cancellation-at-the-beat", Source: "D60", Expected: 27, Scenario: "prompt-reactions",
			About:  "a worker ends a canceling execution when the reply to its next heartbeat says so, and not when a hint does",
			Broker: deafTo(true, broker.ExecutionCancel),
		},
		Mutant{
			Name: "retry-moment-forgotten", Source: "D22", Expected: 26, Scenario: "prompt-reactions",
			About: "an executor that has created a retry does not wake when the retry is due, so the retry waits for a poll",
			Store: func(p Process, c store.Store) store.Store {
				return endHidingStore{c, p, func(o *store.Orchestrated) bool {
					was := o.Retry != 0
					o.Retry = 0
					return was
				}}
			},
		},
		Mutant{
			Name: "children-left-to-the-loop", Source: "D23", Expected: 26, Scenario: "prompt-reactions",
			About: "an executor that has handled the end of a chain leaves its children to the loop that looks for those of dead executors",
			Store: func(p Process, c store.Store) store.Store {
				return endHidingStore{c, p, func(o *store.Orchestrated) bool {
					was := o.Children
					o.Children = false
					return was
				}}
			},
		},
		Mutant{
			Name: "skipped-child-untold", Source: "D23", Expected: 26, Scenario: "prompt-reactions",
			About: "if a child is skipped when it is submitted, because its parent's chain had failed before, no hint tells of its end",
			Store: func(p Process, c store.Store) store.Store { return skipHidingStore{c, p} },
		},
		Mutant{
			Name: "dispatch-not-sent", Source: "D7", Expected: 25, Scenario: "prompt-reactions",
			About: "an executor does not send some of its committed dispatches, and leaves them to the loop that publishes unconfirmed ones again",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Executor() {
					return b
				}
				mu, sent := new(sync.Mutex), new(int)
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &dispatchLosingSession{s, p, mu, sent} }}
			},
		},
		Mutant{
			Name: "own-claim-taken-for-stale", Source: "D8", Expected: 25, Scenario: "prompt-reactions",
			About: "an executor mistakes some of its own claims for another executor's, so the rows wait until the claims expire",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Executor() {
					return c
				}
				var mu sync.Mutex
				made := 0
				return &claimChangeStore{
					Store: c,
					change: func(_ context.Context, _ store.SchedulingClaim, rows []execution.Execution) ([]execution.Execution, error) {
						return slices.DeleteFunc(rows, func(row execution.Execution) bool {
							mu.Lock()
							defer mu.Unlock()
							if made++; made%oneIn != 0 {
								return false
							}
							p.Acted("mistook its own claim for another executor's", row.ID)
							return true
						}), nil
					},
				}
			},
		},
		Mutant{
			Name: "own-reaping-uncounted", Source: "D13", Expected: 28, Scenario: "prompt-reactions",
			About: "an executor that has declared a worker lost takes back the worker's executions only when it sees that the worker is gone",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Executor() {
					return c
				}
				return &lostHidingStore{Store: c, p: p, reaped: make(map[execution.Incarnation]time.Duration)}
			},
		},
		Mutant{
			Name: "patient-terminal-sweep", Source: "D22", Expected: 12, Scenario: "ends-told-to-nobody",
			About: "the loop that finds ends without a hint leaves them alone for twice as long as it should",
			Store: func(p Process, c store.Store) store.Store { return patientSearchStore{c, p, store.Unorchestrated} },
		},
		Mutant{
			Name: "park-forgotten", Source: "D46", Expected: 18, Scenario: "seldom-woken",
			About: "a scheduler that has given back rows that no worker fitted waits for a whole interval after its next wake",
			Store: func(p Process, c store.Store) store.Store { return dueForgettingStore{c, p} },
		},
	)
}

// swallowSession settles deliveries of some types as if the process had acted on them.
type swallowSession struct {
	broker.Session
	p     Process
	types []broker.Type
}

// Consume implements broker.Session.
func (s *swallowSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := s.Session.Consume(ctx, queue, prefetch)
	if err != nil {
		return nil, err
	}
	return &swallowConsumer{c, s}, nil
}

type swallowConsumer struct {
	broker.Consumer
	s *swallowSession
}

// Receive implements broker.Consumer.
func (sc *swallowConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	for {
		d, err := sc.Consumer.Receive(ctx)
		if err != nil || d.Malformed != nil || !slices.Contains(sc.s.types, d.Envelope.Type) {
			return d, err
		}
		sc.s.p.Acted("acknowledged a hint that it did not act on")
		sc.Ack(d)
	}
}

// deafTo makes executors, or workers, ignore hints.
func deafTo(workers bool, types ...broker.Type) func(Process, broker.Broker) broker.Broker {
	return func(p Process, b broker.Broker) broker.Broker {
		if p.Client || p.Worker != workers {
			return b
		}
		return &sessionWrapper{b, func(s broker.Session) broker.Session { return &swallowSession{s, p, types} }}
	}
}

// endHidingStore hides from an executor the consequences of its handling of an end.
type endHidingStore struct {
	store.Store
	p      Process
	forget func(*store.Orchestrated) bool
}

// Orchestrate implements store.Executor.
func (e endHidingStore) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	done, err := e.Store.Orchestrate(ctx, os)
	for i := range done {
		if e.forget(&done[i]) {
			e.p.Acted("forgot the consequences of an end", os[i].ID)
		}
	}
	return done, err
}

// skipHidingStore hides from the submitter that a child was skipped.
type skipHidingStore struct {
	store.Store
	p Process
}

// Create implements store.Client.
func (s skipHidingStore) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	created, err := s.Store.Create(ctx, items)
	for i := range created {
		if created[i].Skipped {
			s.p.Acted("sent a hint of work instead of the end of a skipped child", created[i].ID)
			created[i].Skipped = false
		}
	}
	return created, err
}

// oneIn is the number of dispatches of which a mutant loses one.
const oneIn = 8

// dispatchLosingSession does not send some of its dispatches.
type dispatchLosingSession struct {
	broker.Session
	p    Process
	mu   *sync.Mutex
	sent *int
}

// Publish implements broker.Session.
func (d *dispatchLosingSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	outcomes := make([]broker.Outcome, len(ms))
	var kept []broker.Message
	var at []int
	for i, m := range ms {
		d.mu.Lock()
		lost := len(dispatchedIDs(m.Envelope)) > 0 && *d.sent%oneIn == oneIn-1
		if len(dispatchedIDs(m.Envelope)) > 0 {
			*d.sent++
		}
		d.mu.Unlock()
		if lost {
			d.p.Acted("did not send a dispatch that it had committed", dispatchedIDs(m.Envelope)...)
			outcomes[i] = broker.Unknown
			continue
		}
		kept, at = append(kept, m), append(at, i)
	}
	if len(kept) > 0 {
		for i, o := range d.Session.Publish(ctx, kept) {
			outcomes[at[i]] = o
		}
	}
	return outcomes
}

// lostHidingStore hides executions of workers that it has just declared lost.
type lostHidingStore struct {
	store.Store
	p      Process
	mu     sync.Mutex
	reaped map[execution.Incarnation]time.Duration
}

// unsure is the time for which it does not find them.
const unsure = 4 * time.Second

// Reap implements store.Executor.
func (l *lostHidingStore) Reap(ctx context.Context, rs []store.Reap) ([]bool, error) {
	marked, err := l.Store.Reap(ctx, rs)
	now := l.p.Host.Monotonic()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, ok := range marked {
		if ok {
			l.reaped[rs[i].Incarnation] = now
		}
	}
	return marked, err
}

// Find implements store.Executor.
func (l *lostHidingStore) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	rows, err := l.Store.Find(ctx, f)
	if f.Cause != store.OwnerGone {
		return rows, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(rows, func(row execution.Execution) bool {
		at, own := l.reaped[row.Incarnation]
		if !own || l.p.Host.Monotonic()-at > unsure {
			return false
		}
		l.p.Acted("waited for another sign that a worker is gone that it had declared lost itself", row.ID)
		return true
	}), err
}

// patientSearchStore searches for rows that have waited twice as long as they should.
type patientSearchStore struct {
	store.Store
	p     Process
	cause store.ReclaimCause
}

// Find implements store.Executor.
func (pss patientSearchStore) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	if f.Cause != pss.cause {
		return pss.Store.Find(ctx, f)
	}
	due, err := pss.Store.Find(ctx, f)
	if err != nil {
		return due, err
	}
	f.Age *= 2
	found, err := pss.Store.Find(ctx, f)
	if left := len(due) - len(found); left > 0 {
		pss.p.Acted("left a row to a later pass that it should have found", rowIDs(due)...)
	}
	return found, err
}

// dueForgettingStore forgets that a row that it requeued is due later.
type dueForgettingStore struct {
	store.Store
	p Process
}

// Park implements store.Executor.
func (d dueForgettingStore) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	outcomes, err := d.Store.Park(ctx, executor, ps)
	for i := range outcomes {
		if o := &outcomes[i]; o.Applied && o.Row.Status == execution.Requested {
			d.p.Acted("forgot when an execution that it gave back is due again", o.Row.ID)
			o.Applied = false
		}
	}
	return outcomes, err
}
