package mutant

import (
	"context"
	"errors"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// This file plants defects that show only when a server or a clock misbehaves.

func init() {
	registerMutants(
		Mutant{
			Name: "one-clock-lease", Source: "D35", Expected: 2, Scenario: "database-clock-steps",
			About: "a lease is over as soon as the database's clock says so, although no executor has watched the lease for that long",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker {
					return c
				}
				return &unwatchedReapStore{c, p}
			},
		},
		Mutant{
			Name: "one-clock-deadline", Source: "D35", Expected: 4, Scenario: "clock-step-past-deadlines",
			About: "a run has exceeded its time as soon as the database's clock says so, although no executor has watched the run for that long",
			Store: func(p Process, c store.Store) store.Store {
				return &clockMisreadStore{Store: c, p: p, read: farFuture, misses: isOverrun, text: "ended a run on the word of a clock that was set"}
			},
		},
		Mutant{
			Name: "deadline-without-grace", Source: "D35", Expected: 4, Scenario: "clock-step-within-grace",
			About: "the second clock checks only the run deadline, without the grace, so that a step of the first clock ends a run that its worker is still ending",
			Store: func(p Process, c store.Store) store.Store {
				return &clockMisreadStore{
					Store: c, p: p, misses: isOverrun, text: "ended a run whose grace is not over on the second clock",
					// For a clock that was always ahead by this much, every run began that much earlier.
					read: func(now time.Time) time.Time { return now.Add(p.Config.Executor.ReapGrace) },
				}
			},
		},
		Mutant{
			Name: "wall-clock-fence", Source: "D35", Expected: 4, Scenario: "clock-skew-and-drift",
			About: "a worker measures its lease by its wall clock, which can be set, and its actions have no shim",
			Host: func(p Process, h host.Host) host.Host {
				if !p.Worker {
					return h
				}
				return &wallClock{Host: h, p: p, wall: h.Now(), monotonic: h.Monotonic()}
			},
			Machine: func(p Process, m Machine) {
				m.RemoveShims()
				p.Acted("removed the shims, so nothing ends an action if its worker does not")
			},
		},
		Mutant{
			Name: "margin-without-drift", Source: "D15", Expected: 4, Scenario: "clock-skew-and-drift",
			About:  "the margin before the end of a lease covers the kill grace, but not a clock that runs too slowly",
			Config: func(c *config.Config) { c.Worker.FenceMargin = c.Worker.KillGrace },
		},
		Mutant{
			Name: "deaf-after-cancel", Source: "D32", Expected: 14, Scenario: "consumers-cancelled",
			About: "an executor whose consumer the broker has cancelled waits for deliveries for ever, because its connection still works",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &deafSession{s, p} }}
			},
		},
		Mutant{
			Name: "topology-declared-once", Source: "D28", Expected: 5, Scenario: "queues-deleted",
			About: "a process declares its queues only at its start, so that a deleted queue is never restored",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				done := false
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &declareOnceSession{s, p, &done} }}
			},
		},
		Mutant{
			Name: "returned-is-confirmed", Source: "D10", Expected: 12, Scenario: "queue-unbound",
			About: "dispatches are published without the mandatory flag, so a message that no queue takes counts as handed over",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &returnIgnoringSession{s, p} }}
			},
		},
		Mutant{
			Name: "claim-rolled-back", Source: "D12", Expected: 4, Scenario: "serialization-storm",
			About: "a worker runs an execution whose claim was rolled back",
			Store: func(p Process, c store.Store) store.Store { return &refusalIgnoringStore{Store: c, p: p, claims: true} },
		},
		Mutant{
			Name: "result-rolled-back", Source: "D23", Expected: 13, Scenario: "serialization-storm",
			About: "a worker does not check whether the transaction with its result was rolled back",
			Store: func(p Process, c store.Store) store.Store {
				return &refusalIgnoringStore{Store: c, p: p, finishes: true}
			},
		},
		Mutant{
			Name: "dead-letter-dropped", Source: "D25", Expected: 12, Scenario: "serialization-storm",
			About: "the dead letter handler acknowledges a message although the database refused the reclaim",
			Store: func(p Process, c store.Store) store.Store {
				return &refusalIgnoringStore{Store: c, p: p, deadLetters: true}
			},
		},
		Mutant{
			Name: "twins-share-an-incarnation", Source: "D14", Expected: 13, Scenario: "two-processes-of-one-name",
			About: "a worker row belongs to a host name, so that two processes with one name are one worker",
			Store: func(p Process, c store.Store) store.Store { return &sharedNameStore{c, p} },
		},
	)
}

// unwatchedReapStore reaps every incarnation whose lease is over by the database's clock, without watching
// it.
type unwatchedReapStore struct {
	store.Store
	p Process
}

// Workers implements store.Store.
func (u *unwatchedReapStore) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	workers, err := u.Store.Workers(ctx, into)
	if err != nil {
		return nil, err
	}
	var over []store.Reap
	for i := range workers {
		if w := &workers[i]; !w.LeaseValid() && !w.Lifecycle.Gone() {
			over = append(over, store.Reap{WorkerKey: w.WorkerKey, Beat: w.Beat})
		}
	}
	if len(over) > 0 {
		u.p.Acted("marked workers lost without having watched their leases")
		_, err = u.Reap(ctx, over)
	}
	return workers, err
}

// clockMisreadStore is a database whose clock is misread, so that an executor does not detect that it was
// set.
type clockMisreadStore struct {
	store.Store
	p Process
	// read turns the true time into the time that is read.
	read func(time.Time) time.Time
	// misses selects the reclaims in which a step of the clock is missed. text describes what is wrong with
	// them.
	misses func(store.Reclaim) bool
	text   string

	mu    sync.Mutex
	known bool
	// first was read at the process's moment at. set reports whether the clock was set since then.
	first time.Time
	at    time.Duration
	set   bool
}

// Clock implements store.Store.
func (c *clockMisreadStore) Clock(ctx context.Context) (time.Time, error) {
	now, err := c.Store.Clock(ctx)
	if err != nil {
		return now, err
	}
	at := c.p.Host.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		c.known, c.first, c.at = true, now, at
	}
	step := now.Sub(c.first) - (at - c.at)
	c.set = c.set || step.Abs() > time.Second
	return c.read(now), nil
}

// Reclaim implements store.Store.
func (c *clockMisreadStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	c.mu.Lock()
	set := c.set
	c.mu.Unlock()
	for i := range rs {
		if set && c.misses(rs[i]) {
			c.p.Acted(c.text, rs[i].Key.ID)
		}
	}
	return c.Store.Reclaim(ctx, rs)
}

// farFuture is later than every event, so that nothing has been watched since it began.
func farFuture(time.Time) time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// isOverrun reports whether a reclaim is of a run that exceeded its time.
func isOverrun(r store.Reclaim) bool { return r.Cause == store.Overrun }

// wallClock is a host whose monotonic clock is the wall clock.
type wallClock struct {
	host.Host
	p         Process
	wall      time.Time
	monotonic time.Duration
	// said is the lead of the wall clock at its last report.
	said time.Duration
}

// Monotonic implements host.Host.
func (w *wallClock) Monotonic() time.Duration {
	now := w.monotonic + w.Now().Sub(w.wall)
	if ahead := now - w.Host.Monotonic(); (ahead - w.said).Abs() >= 100*time.Millisecond {
		w.said = ahead
		w.p.Acted("counted on a wall clock that is off by " + ahead.String())
	}
	return now
}

// deafConsumer is a consumer that treats the end of its subscription as an empty queue.
type deafConsumer struct {
	broker.Consumer
	p     Process
	never host.Signal
}

// Receive implements broker.Consumer.
func (dc *deafConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := dc.Consumer.Receive(ctx)
	if errors.Is(err, broker.ErrCancelled) {
		dc.p.Acted("treated the end of its subscription as silence")
		_, err = dc.never.Wait(ctx, host.Forever)
	}
	return d, err
}

type deafSession struct {
	broker.Session
	p Process
}

// Consume implements broker.Session.
func (d *deafSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := d.Session.Consume(ctx, queue, prefetch)
	if err != nil {
		return nil, err
	}
	return &deafConsumer{c, d.p, d.p.Host.NewSignal()}, nil
}

// declareOnceSession is a session that declares nothing that its process has declared before.
type declareOnceSession struct {
	broker.Session
	p    Process
	done *bool
}

// Declare implements broker.Session.
func (d *declareOnceSession) Declare(ctx context.Context, t broker.Topology) error {
	if *d.done {
		d.p.Acted("declared nothing, because it has declared its queues before")
		return nil
	}
	err := d.Session.Declare(ctx, t)
	*d.done = err == nil
	return err
}

type returnIgnoringSession struct {
	broker.Session
	p Process
}

// Publish implements broker.Session.
func (r *returnIgnoringSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	outcomes := r.Session.Publish(ctx, ms)
	for i := range outcomes {
		if outcomes[i] == broker.Returned {
			outcomes[i] = broker.Confirmed
			r.p.Acted("treated a message that no queue took as handed over", dispatchedIDs(ms[i].Envelope)...)
		}
	}
	return outcomes
}

// refusalIgnoringStore treats a write that the database has refused as done.
type refusalIgnoringStore struct {
	store.Store
	p                             Process
	claims, finishes, deadLetters bool
}

func isRefused(err error) bool {
	return errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome)
}

// Claim implements store.Store.
func (r *refusalIgnoringStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := r.Store.Claim(ctx, w, cs)
	if !r.claims || !isRefused(err) {
		return results, err
	}
	granted := make([]store.ClaimResult, len(cs))
	for i := range cs {
		rows, readErr := r.Executions(ctx, []execution.ID{cs[i].Key.ID})
		if readErr != nil || len(rows) == 0 {
			return nil, err
		}
		granted[i] = store.ClaimResult{Outcome: store.Outcome{Applied: true, Row: rows[0]}}
	}
	r.p.Acted("treated a claim that was rolled back as granted", claimedIDs(cs)...)
	return granted, nil
}

// Finish implements store.Store.
func (r *refusalIgnoringStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, err := r.Store.Finish(ctx, w, fs)
	if r.finishes && isRefused(err) {
		for i := range fs {
			r.p.Acted("treated a result that was rolled back as stored", fs[i].Key.ID)
		}
		return make([]store.Outcome, len(fs)), nil
	}
	return outcomes, err
}

// Reclaim implements store.Store.
func (r *refusalIgnoringStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	outcomes, err := r.Store.Reclaim(ctx, rs)
	if r.deadLetters && isRefused(err) && len(rs) > 0 && rs[0].Cause == store.DeadLettered {
		r.p.Acted("treated a take-back that was rolled back as made", rs[0].Key.ID)
		return make([]store.Outcome, len(rs)), nil
	}
	return outcomes, err
}

// sharedNameStore is a store in which a worker is only its name: a registration under the name gets the
// active incarnation.
type sharedNameStore struct {
	store.Store
	p Process
}

// Register implements store.Store.
func (s *sharedNameStore) Register(ctx context.Context, r store.Registration) (store.Registered, error) {
	workers, err := s.Workers(ctx, nil)
	if err != nil {
		return store.Registered{}, err
	}
	for i := range workers {
		if w := &workers[i]; w.Name == r.Name && w.Lifecycle == execution.Active && w.LeaseValid() {
			s.p.Acted("registered as the incarnation of another process")
			return store.Registered{WorkerKey: w.WorkerKey}, nil
		}
	}
	return s.Store.Register(ctx, r)
}
