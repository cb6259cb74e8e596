package mutant

import (
	"context"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// This file plants parts that continue after a failed call as if nothing had happened, one that fails without
// a cause, and ones that do not release what they hold.

func init() {
	registerMutants(
		Mutant{
			Name: "failed-look-is-empty", Source: "D22", Expected: 29, Scenario: "every-call-may-fail",
			About: "a loop whose query of the database fails concludes that there is nothing to do, and does not report the failure",
			Store: careNot(func(s *failureHidingStore) { s.looks = true }),
		},
		Mutant{
			Name: "failed-workers-are-none", Source: "D22", Expected: 29, Scenario: "every-call-may-fail",
			About: "an executor that can't read the workers concludes that there are none, and does not report the failure",
			Store: careNot(func(s *failureHidingStore) { s.workers = true }),
		},
		Mutant{
			Name: "published-or-not", Source: "D7", Expected: 29, Scenario: "every-call-may-fail",
			About: "an executor that could not record the broker's confirms goes on as if it had",
			Store: careNot(func(s *failureHidingStore) { s.publishing = true }),
		},
		Mutant{
			Name: "fails-for-nothing", Source: "D25", Expected: 29, Scenario: "every-call-may-fail",
			About: "a successful query of the workers is reported as a failure, and its pass ends",
			Store: careNot(func(s *failureHidingStore) { s.nothing = store.ErrUnavailable }),
		},
		Mutant{
			Name: "deadlines-run-out", Source: "D22", Expected: 30, Scenario: "every-call-may-fail",
			About: "the deadline of a call does not end with the call, so each call leaves a timer until its time is over",
			Host:  func(p Process, h host.Host) host.Host { return &lavishDeadlineHost{h, p} },
		},
		Mutant{
			Name: "given-up-beforehand", Source: "D22", Expected: 30, Scenario: "every-call-may-fail",
			About: "a call is made with a deadline that has already ended",
			Host: func(p Process, h host.Host) host.Host {
				if p.Worker {
					return h
				}
				return &earlyDeadlineHost{Host: h, p: p}
			},
		},
		Mutant{
			Name: "session-left-open", Source: "D32", Expected: 30, Scenario: "every-call-may-fail",
			About:  "a process leaves an unused session open at every connect",
			Broker: func(p Process, b broker.Broker) broker.Broker { return &doubleConnectBroker{b, p} },
		},
		Mutant{
			Name: "subscribed-twice", Source: "D32", Expected: 30, Scenario: "every-call-may-fail",
			About: "a worker that subscribes again leaves its first consumer open, and the messages sent to that are stuck",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Worker {
					return b
				}
				return &doubleConsumeBroker{b, p}
			},
		},
	)
}

// failureHidingStore is a store in which failures of some calls look like answers.
type failureHidingStore struct {
	store.Store
	p                          Process
	looks, workers, publishing bool
	nothing                    error

	mu    sync.Mutex
	asked int
}

// Find implements store.Executor.
func (fhs *failureHidingStore) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	rows, err := fhs.Store.Find(ctx, f)
	if err != nil && fhs.looks {
		fhs.p.Acted("treated a failed query as one without rows")
		return nil, nil
	}
	return rows, err
}

// Workers implements store.Executor.
func (fhs *failureHidingStore) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	ws, err := fhs.Store.Workers(ctx, into)
	fhs.mu.Lock()
	fhs.asked++
	due := fhs.asked%10 == 0
	fhs.mu.Unlock()
	switch {
	case err != nil && fhs.workers:
		fhs.p.Acted("treated a failed query of the workers as one without workers")
		return nil, nil
	case err == nil && fhs.nothing != nil && due:
		fhs.p.Acted("treated a successful query of the workers as a failure")
		return nil, fhs.nothing
	}
	return ws, err
}

// MarkPublished implements store.Executor.
func (fhs *failureHidingStore) MarkPublished(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
	left, err := fhs.Store.MarkPublished(ctx, keys)
	if err != nil && fhs.publishing {
		fhs.p.Acted("treated a write as done that the database refused")
		return nil, nil
	}
	return left, err
}

func careNot(with func(s *failureHidingStore)) func(Process, store.Store) store.Store {
	return func(p Process, c store.Store) store.Store {
		if p.Worker || p.Client {
			return c
		}
		s := &failureHidingStore{Store: c, p: p}
		with(s)
		return s
	}
}

// lavishDeadlineHost is a machine whose deadlines last until their time is over, even if the caller ends them.
type lavishDeadlineHost struct {
	host.Host
	p Process
}

// WithTimeout implements host.Host.
func (l *lavishDeadlineHost) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, _ := l.Host.WithTimeout(parent, d)
	l.p.Acted("made a deadline that does not end with its call")
	return ctx, func() {}
}

// earlyDeadlineHost is a machine that ends some deadlines as soon as they are made.
type earlyDeadlineHost struct {
	host.Host
	p Process

	mu   sync.Mutex
	made int
}

// WithTimeout implements host.Host.
func (e *earlyDeadlineHost) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := e.Host.WithTimeout(parent, d)
	e.mu.Lock()
	e.made++
	now := e.made%20 == 0
	e.mu.Unlock()
	if now {
		e.p.Acted("ended a deadline before its call")
		cancel()
	}
	return ctx, cancel
}

// doubleConnectBroker is a broker to which each connection is made twice.
type doubleConnectBroker struct {
	broker.Broker
	p Process
}

// Connect implements broker.Broker.
func (d *doubleConnectBroker) Connect(ctx context.Context) (broker.Session, error) {
	if _, err := d.Broker.Connect(ctx); err != nil {
		return nil, err
	}
	d.p.Acted("left a session open that nobody uses")
	return d.Broker.Connect(ctx)
}

// doubleConsumeBroker is a broker of which each queue is consumed twice.
type doubleConsumeBroker struct {
	broker.Broker
	p Process
}

// Connect implements broker.Broker.
func (d *doubleConsumeBroker) Connect(ctx context.Context) (broker.Session, error) {
	s, err := d.Broker.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &doubleConsumeSession{s, d.p}, nil
}

type doubleConsumeSession struct {
	broker.Session
	p Process
}

// Consume implements broker.Session.
func (d *doubleConsumeSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	if _, err := d.Session.Consume(ctx, queue, prefetch); err != nil {
		return nil, err
	}
	d.p.Acted("consumes a queue a second time, and does not receive the messages")
	return d.Session.Consume(ctx, queue, prefetch)
}
