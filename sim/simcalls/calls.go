// Package simcalls shows a simulated worker's calls of its database, its machine and its broker to
// the rules that judge them. It changes nothing: a run is the same without it.
package simcalls

import (
	"context"
	"errors"
	"time"

	"handoff/chaos/invariant"
	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/worker"
)

// Store reports a worker's calls of the database and their answers to c, on the clock of h. It is
// below a planted mutant, so c also judges the mutant's effect.
func Store(s store.Store, h host.Host, c *invariant.Calls) store.Store {
	return &calling{Store: s, h: h, c: c}
}

type calling struct {
	store.Store
	h host.Host
	c *invariant.Calls
	// asked is when the process began to ask for a registration.
	asked time.Duration
}

// Unjudged implements mutant.Unjudged.
func (ca *calling) Unjudged() store.Store { return ca.Store }

// gone notes an answer that the incarnation is over.
func (ca *calling) gone(err error) {
	if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrSuperseded) {
		ca.c.Gone()
	}
}

// Newest implements store.Worker.
func (ca *calling) Newest(ctx context.Context, name string) (execution.Incarnation, error) {
	ca.asked = ca.h.Monotonic()
	return ca.Store.Newest(ctx, name)
}

// Register implements store.Worker.
func (ca *calling) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	r, err := ca.Store.Register(ctx, g)
	if err == nil {
		ca.c.Registered(ca.asked)
	}
	return r, err
}

// SetLifecycle implements store.Worker.
func (ca *calling) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	if to == execution.Draining {
		ca.c.Drains()
	}
	err := ca.Store.SetLifecycle(ctx, w, to)
	ca.gone(err)
	return err
}

// Heartbeat implements store.Worker.
func (ca *calling) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	sent := ca.h.Monotonic()
	f := &b.Figures
	ca.c.Reports(sent, invariant.RunFigures{Total: f.Total, Failed: f.Failed, Consecutive: f.Consecutive, LastFailure: f.LastFailure, Average: f.Average})
	ca.c.Beats(sent)
	reply, err := ca.Store.Heartbeat(ctx, b)
	ca.c.Beaten(ca.h.Monotonic())
	ca.gone(err)
	if err != nil {
		return reply, err
	}
	ca.c.Renewed(ca.h.Monotonic(), sent)
	ca.c.Answered(b.Incarnation, b.Number)
	for _, key := range reply.Lost {
		ca.c.Told(key, true)
	}
	for _, key := range reply.Cancel {
		ca.c.Told(key, false)
	}
	return reply, nil
}

// Executions implements store.Reader.
func (ca *calling) Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error) {
	rows, err := ca.Store.Executions(ctx, ids)
	for i := range rows {
		if rows[i].Status == execution.Canceling {
			ca.c.Cancelled(rows[i].Key())
		}
	}
	return rows, err
}

// answer is everything that the core can know of a statement about one row that should have reached
// a status. o is ignored if err is not nil.
func answer(w store.WorkerKey, key execution.Key, to execution.Status, o *store.Outcome, err error) invariant.Answer {
	if err != nil {
		return invariant.Answer{Failed: true, Unknown: errors.Is(err, store.ErrUnknownOutcome), Wrong: !store.Retriable(err) && !errors.Is(err, store.ErrLeaseOver)}
	}
	return invariant.Answer{Applied: o.Applied, Ours: o.Row.Key() == key && o.Row.Status == to && o.Row.Incarnation == w.Incarnation}
}

// Claim implements store.Worker. A refused statement may come with answers about some of its rows.
func (ca *calling) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	for i := range cs {
		ca.c.Claims(ca.h.Monotonic(), cs[i].Key)
	}
	results, err := ca.Store.Claim(ctx, w, cs)
	ca.gone(err)
	if errors.Is(err, store.ErrLeaseOver) {
		ca.c.LeaseOver(ca.h.Monotonic())
	}
	for i := range cs {
		if err != nil && (len(results) != len(cs) || results[i].Row.ID != cs[i].Key.ID) {
			a := answer(w, cs[i].Key, execution.Running, nil, err)
			a.Shared = len(cs) > 1
			ca.c.Claimed(ca.h.Monotonic(), cs[i].Key, a, 0)
			continue
		}
		r := &results[i]
		a := answer(w, cs[i].Key, execution.Running, &r.Outcome, nil)
		a.Late = r.DeadlinePassed
		ca.c.Claimed(ca.h.Monotonic(), cs[i].Key, a, oracle.RunTimeout(&r.Row.Action))
	}
	return results, err
}

// words are the texts that a worker writes about an end.
func words(f *store.Finish) string { return f.Result.Error + "\n" + f.Result.Message }

func endOf(f *store.Finish) invariant.End {
	return invariant.End{Key: f.Key, To: f.To, Reason: f.Reason}
}

// Finish implements store.Worker.
func (ca *calling) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	for i := range fs {
		ca.c.Finishes(ca.h.Monotonic(), endOf(&fs[i]), words(&fs[i]))
	}
	outcomes, err := ca.Store.Finish(ctx, w, fs)
	for i := range fs {
		var a invariant.Answer
		if err == nil || len(outcomes) == len(fs) && outcomes[i].Row.ID == fs[i].Key.ID {
			a = answer(w, fs[i].Key, fs[i].To, &outcomes[i], nil)
		} else {
			a = answer(w, fs[i].Key, fs[i].To, nil, err)
		}
		ca.c.Finished(ca.h.Monotonic(), endOf(&fs[i]), a)
	}
	return outcomes, err
}

// KeepRefusedResult implements store.Worker.
func (ca *calling) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	ca.c.Keeps(ca.h.Monotonic(), endOf(&f), words(&f))
	err := ca.Store.KeepRefusedResult(ctx, w, f)
	ca.c.Kept(ca.h.Monotonic(), f.Key, err != nil)
	return err
}

// Dispatched implements store.Worker.
func (ca *calling) Dispatched(ctx context.Context, w store.WorkerKey, limit int) ([]execution.Execution, error) {
	ca.c.LooksBehind(ca.h.Monotonic())
	rows, err := ca.Store.Dispatched(ctx, w, limit)
	ca.c.LookedBehind(ca.h.Monotonic())
	return rows, err
}

// Runner reports to c how the actions that a worker starts on its machine end.
func Runner(r worker.Runner, h host.Host, c *invariant.Calls) worker.Runner {
	return &seenRunner{r, h, c}
}

type seenRunner struct {
	worker.Runner
	h host.Host
	c *invariant.Calls
}

// Start implements worker.Runner.
func (sr *seenRunner) Start(ctx context.Context, s worker.Spec) (worker.Run, error) {
	sr.c.Fences(s.Key, s.Fence)
	sr.c.Starts(s.Key)
	run, err := sr.Runner.Start(ctx, s)
	if err != nil {
		sr.c.NotStarted(s.Key)
		return nil, err
	}
	return &seenRun{run, s.Key, sr.h, sr.c}, nil
}

type seenRun struct {
	worker.Run
	key execution.Key
	h   host.Host
	c   *invariant.Calls
}

// Extend implements worker.Run.
func (s *seenRun) Extend(fence time.Duration) {
	s.c.Fences(s.key, fence)
	s.Run.Extend(fence)
}

// Wait implements worker.Run.
func (s *seenRun) Wait(ctx context.Context) (worker.Exit, error) {
	exit, err := s.Run.Wait(ctx)
	switch {
	case err != nil:
	case exit.Killed:
		s.c.Killed(s.h.Monotonic(), s.key)
	default:
		to := execution.Failed
		if exit.Reason == execution.NoReason {
			to = execution.Completed
		}
		s.c.Exited(s.h.Monotonic(), s.key, to, exit.Reason)
	}
	return exit, err
}

// Broker reports futile messages of a worker's queue to c, on the clock of h. It is above the
// wrapper that makes a worker deaf.
func Broker(b broker.Broker, h host.Host, c *invariant.Calls) broker.Broker {
	return &wastedBroker{b, h, c}
}

type wastedBroker struct {
	broker.Broker
	h host.Host
	c *invariant.Calls
}

// Connect implements broker.Broker.
func (w *wastedBroker) Connect(ctx context.Context) (broker.Session, error) {
	s, err := w.Broker.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &wastedSession{s, w}, nil
}

type wastedSession struct {
	broker.Session
	b *wastedBroker
}

// Consume implements broker.Session.
func (w *wastedSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := w.Session.Consume(ctx, queue, prefetch)
	if err != nil || !broker.IsWorkerQueue(queue) {
		return c, err
	}
	return &wastedConsumer{c, w.b}, nil
}

type wastedConsumer struct {
	broker.Consumer
	b *wastedBroker
}

// Receive implements broker.Consumer.
func (w *wastedConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := w.Consumer.Receive(ctx)
	if err == nil && (d.Malformed != nil || d.Envelope.Type != broker.ExecutionScheduled || len(d.Envelope.Dispatches) == 0) {
		w.b.c.Wastes(w.b.h.Monotonic())
	}
	return d, err
}
