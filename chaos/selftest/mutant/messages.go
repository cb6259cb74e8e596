package mutant

import (
	"context"
	"sync"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "malformed-rejected", Source: "D25", Expected: 14, Scenario: "hostile-headers",
			About: "a worker rejects unreadable messages, so that a hostile header ends the broker's dead lettering (S5)",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session {
					return &deliveryChangeSession{Session: s, settle: func(c broker.Consumer, d broker.Delivery) bool {
						if d.Malformed == nil {
							return false
						}
						p.Acted("rejected a message that it can't read")
						c.Reject(d, false)
						return true
					}}
				}}
			},
		},
		Mutant{
			Name: "hint-obeyed-unasked", Source: "D60", Expected: 17, Scenario: "forged-cancels",
			About: "a worker ends an action because a message asks for that, whatever the database says (S11)",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return cancelBelievingStore{c, p}
			},
		},
		Mutant{
			Name: "bodies-stored-whole", Source: "D26", Expected: 6, Scenario: "garbage-before-work",
			About: "a worker tries to store the whole body of an unreadable message, which the database refuses, so the message is never stored and its queue never empty (S2)",
			Store: func(p Process, c store.Store) store.Store { return wholeBodyStore{c, p} },
		},
		Mutant{
			Name: "looks-at-its-queue-only", Source: "D25", Expected: 17, Scenario: "garbage-before-work",
			About: "a worker begins only executions from its queue, so that an execution behind unreadable messages waits for all of them (S12)",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return noDispatchStore{c, p}
			},
		},
		Mutant{
			Name: "canary-on-the-own-connection", Source: "D17", Expected: 15, Scenario: "poisoned-broker",
			About: "an executor tests the dead letter path over the connection on which it works: if the broker ends that because of the test, the broker seems to be away",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				return &oneSessionBroker{Broker: b, p: p}
			},
		},
	)
}

// cancelBelievingStore makes a worker treat any hint as a request to cancel the execution.
type cancelBelievingStore struct {
	store.Store
	p Process
}

// Executions implements store.Store.
func (c cancelBelievingStore) Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error) {
	rows, err := c.Store.Executions(ctx, ids)
	for i := range rows {
		if rows[i].Status == execution.Running {
			c.p.Acted("believed a message that the execution is to be cancelled", rows[i].ID)
			rows[i].Status = execution.Canceling
		}
	}
	return rows, err
}

// wholeBodyStore stores whole bodies, however long.
type wholeBodyStore struct {
	store.Store
	p Process
}

// StoreDeadLetters implements store.Store.
func (w wholeBodyStore) StoreDeadLetters(ctx context.Context, ds ...store.DeadLetter) error {
	whole := append([]store.DeadLetter(nil), ds...)
	for i := range whole {
		if d := &whole[i]; d.BodyBytes > len(d.Body) {
			w.p.Acted("asked the database to store a body beyond the limit")
			d.Body = append(append([]byte(nil), d.Body...), make([]byte, d.BodyBytes-len(d.Body))...)
		}
	}
	return w.Store.StoreDeadLetters(ctx, whole...)
}

// noDispatchStore finds nothing dispatched to a worker.
type noDispatchStore struct {
	store.Store
	p Process
}

// Dispatched implements store.Store.
func (n noDispatchStore) Dispatched(context.Context, store.WorkerKey, int) ([]execution.Execution, error) {
	n.p.Acted("did not ask for the rows dispatched to it")
	return nil, nil
}

// oneSessionBroker returns the open session instead of a new one.
type oneSessionBroker struct {
	broker.Broker
	p    Process
	mu   sync.Mutex
	open broker.Session
}

// Connect implements broker.Broker.
func (o *oneSessionBroker) Connect(ctx context.Context) (broker.Session, error) {
	o.mu.Lock()
	open := o.open
	o.mu.Unlock()
	if open != nil && !open.Closed() {
		o.p.Acted("used its own connection for a test")
		return lentSession{open}, nil
	}
	s, err := o.Broker.Connect(ctx)
	if err == nil {
		o.mu.Lock()
		o.open = s
		o.mu.Unlock()
	}
	return s, err
}

// lentSession is a session that belongs to another user.
type lentSession struct{ broker.Session }

// Close implements broker.Session.
func (lentSession) Close() {}
