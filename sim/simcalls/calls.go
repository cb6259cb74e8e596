// Package simcalls reports the calls that a simulated worker makes to its database, machine and broker to the
// rules that judge them. It does not change the run.
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

// Store reports a worker's database calls and their answers to c, on the clock of h. It is below a planted
// mutant, so c also judges the mutant's effect.
func Store(s store.Store, h host.Host, c *invariant.Calls) store.Store {
	return &callReporter{Store: s, h: h, c: c}
}

type callReporter struct {
	store.Store
	h host.Host
	c *invariant.Calls
	// asked is the time at which the process began to register.
	asked time.Duration
}

// Unjudged implements mutant.Unjudged.
func (cr *callReporter) Unjudged() store.Store { return cr.Store }

// reportIfGone reports an answer by which the worker learns that its incarnation has ended.
func (cr *callReporter) reportIfGone(err error) {
	if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrSuperseded) {
		cr.c.Gone()
	}
}

// Newest implements store.Worker.
func (cr *callReporter) Newest(ctx context.Context, name string) (execution.Incarnation, error) {
	cr.asked = cr.h.Monotonic()
	return cr.Store.Newest(ctx, name)
}

// Register implements store.Worker.
func (cr *callReporter) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	r, err := cr.Store.Register(ctx, g)
	if err == nil {
		cr.c.Registered(cr.asked)
	}
	return r, err
}

// SetLifecycle implements store.Worker.
func (cr *callReporter) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	if to == execution.Draining {
		cr.c.Drains()
	}
	err := cr.Store.SetLifecycle(ctx, w, to)
	cr.reportIfGone(err)
	return err
}

// Heartbeat implements store.Worker.
func (cr *callReporter) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	sent := cr.h.Monotonic()
	f := &b.Figures
	cr.c.Reports(sent, invariant.RunFigures{Total: f.Total, Failed: f.Failed, Consecutive: f.Consecutive, LastFailure: f.LastFailure, Average: f.Average})
	cr.c.Beats(sent)
	reply, err := cr.Store.Heartbeat(ctx, b)
	cr.c.Beaten(cr.h.Monotonic())
	cr.reportIfGone(err)
	if err != nil {
		return reply, err
	}
	cr.c.Renewed(cr.h.Monotonic(), sent)
	cr.c.Answered(b.Incarnation, b.Number)
	for _, key := range reply.Lost {
		cr.c.Told(key, true)
	}
	for _, key := range reply.Cancel {
		cr.c.Told(key, false)
	}
	return reply, nil
}

// Executions implements store.Reader.
func (cr *callReporter) Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error) {
	rows, err := cr.Store.Executions(ctx, ids)
	for i := range rows {
		if rows[i].Status == execution.Canceling {
			cr.c.Cancelled(rows[i].Key())
		}
	}
	return rows, err
}

// answerOf returns what the core can know about the outcome of a statement that should have moved one row to
// a status. o is ignored if err is not nil.
func answerOf(w store.WorkerKey, key execution.Key, to execution.Status, o *store.Outcome, err error) invariant.Answer {
	if err != nil {
		return invariant.Answer{Failed: true, Unknown: errors.Is(err, store.ErrUnknownOutcome), Wrong: !store.Retriable(err) && !errors.Is(err, store.ErrLeaseOver)}
	}
	return invariant.Answer{Applied: o.Applied, Ours: o.Row.Key() == key && o.Row.Status == to && o.Row.Incarnation == w.Incarnation}
}

// Claim implements store.Worker. A failed statement may return answers about some of its rows.
func (cr *callReporter) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	for i := range cs {
		cr.c.Claims(cr.h.Monotonic(), cs[i].Key)
	}
	results, err := cr.Store.Claim(ctx, w, cs)
	cr.reportIfGone(err)
	if errors.Is(err, store.ErrLeaseOver) {
		cr.c.LeaseOver(cr.h.Monotonic())
	}
	for i := range cs {
		if err != nil && (len(results) != len(cs) || results[i].Row.ID != cs[i].Key.ID) {
			a := answerOf(w, cs[i].Key, execution.Running, nil, err)
			a.Shared = len(cs) > 1
			cr.c.Claimed(cr.h.Monotonic(), cs[i].Key, a, 0)
			continue
		}
		r := &results[i]
		a := answerOf(w, cs[i].Key, execution.Running, &r.Outcome, nil)
		a.Late = r.DeadlinePassed
		cr.c.Claimed(cr.h.Monotonic(), cs[i].Key, a, oracle.RunTimeout(&r.Row.Action))
	}
	return results, err
}

// resultTexts returns the texts that a worker writes about the end of an execution.
func resultTexts(f *store.Finish) string { return f.Result.Error + "\n" + f.Result.Message }

func endOf(f *store.Finish) invariant.End {
	return invariant.End{Key: f.Key, To: f.To, Reason: f.Reason}
}

// Finish implements store.Worker.
func (cr *callReporter) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	for i := range fs {
		cr.c.Finishes(cr.h.Monotonic(), endOf(&fs[i]), resultTexts(&fs[i]))
	}
	outcomes, err := cr.Store.Finish(ctx, w, fs)
	for i := range fs {
		var a invariant.Answer
		if err == nil || len(outcomes) == len(fs) && outcomes[i].Row.ID == fs[i].Key.ID {
			a = answerOf(w, fs[i].Key, fs[i].To, &outcomes[i], nil)
		} else {
			a = answerOf(w, fs[i].Key, fs[i].To, nil, err)
		}
		cr.c.Finished(cr.h.Monotonic(), endOf(&fs[i]), a)
	}
	return outcomes, err
}

// KeepRefusedResult implements store.Worker.
func (cr *callReporter) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	cr.c.Keeps(cr.h.Monotonic(), endOf(&f), resultTexts(&f))
	err := cr.Store.KeepRefusedResult(ctx, w, f)
	cr.c.Kept(cr.h.Monotonic(), f.Key, err != nil)
	return err
}

// Dispatched implements store.Worker.
func (cr *callReporter) Dispatched(ctx context.Context, w store.WorkerKey, limit int) ([]execution.Execution, error) {
	cr.c.LooksBehind(cr.h.Monotonic())
	rows, err := cr.Store.Dispatched(ctx, w, limit)
	cr.c.LookedBehind(cr.h.Monotonic())
	return rows, err
}

// Runner reports to c how each action that a worker starts on its machine ends.
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

// Broker reports useless messages in a worker's queue to c, on the clock of h. It is above the wrapper that
// makes a worker deaf.
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
