package executor

import (
	"context"
	"log/slog"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// completionListener does what follows the end of an execution: once, in one transaction with the
// mark that says so. Hints of completion start it early; the reconciler starts it in any case.
type completionListener struct {
	*Service
	hints *hints
}

func newCompletionListener(s *Service) *completionListener {
	return &completionListener{Service: s, hints: newHints(s)}
}

func (l *completionListener) run(ctx context.Context) {
	loop := l.loop("completion listener")
	for ctx.Err() == nil {
		if _, err := l.hints.wake.Wait(ctx, l.config.Executor.ReconcileInterval); err != nil {
			return
		}
		held := l.hints.take()
		err := loop.Pass(func() error { return l.handle(terminals(held)) })
		loop.Interval(l.config.Executor.ReconcileInterval)
		l.hints.settle(held, err == nil)
		if err != nil {
			l.log.LogAttrs(ctx, slog.LevelWarn, "terminal handling failed, its messages are kept", slog.Any("error", err))
			if l.host.Sleep(ctx, l.config.Executor.ReconcileInterval) != nil {
				return
			}
			l.hints.wake.Set()
		}
	}
}

// handle orchestrates the executions that hints named, in batches. The rows decide: a hint about
// one that is not terminal, or was handled, has no effect.
func (l *completionListener) handle(ids []execution.ID) error {
	for len(ids) > 0 {
		n := min(len(ids), l.config.Executor.BatchSize)
		var rows []execution.Execution
		if err := l.db(func(ctx context.Context) (err error) {
			rows, err = l.store.Executions(ctx, ids[:n])
			return err
		}); err != nil {
			return err
		}
		if _, err := l.orchestrate(rows); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// orchestrate commits the terminal handling of those rows that are terminal and not handled, and
// returns how many of them were its own.
func (l *completionListener) orchestrate(rows []execution.Execution) (done int, err error) {
	var os []store.Orchestration
	for i := range rows {
		row := &rows[i]
		if row.Status.Terminal() && row.OrchestratedAt.IsZero() {
			os = append(os, store.Orchestration{ID: row.ID, Retry: l.retry(row)})
		}
	}
	if len(os) == 0 {
		return 0, nil
	}
	var outcomes []store.Orchestrated
	if err := l.db(func(ctx context.Context) (err error) {
		outcomes, err = l.store.Orchestrate(ctx, os)
		return err
	}); err != nil {
		return 0, err
	}
	for i, o := range outcomes {
		if !o.Applied {
			continue
		}
		done++
		if o.Retry != 0 {
			l.recorder.Add(telemetry.Retries, 1, telemetry.Labels{os[i].Retry.Reason.String()})
			l.scheduler.wakeIn(os[i].Retry.Delay)
		}
		l.announceChildren(&o)
	}
	// A run slot, and perhaps a concurrency slot, came free: whatever waits for one may fit now.
	l.scheduler.wakeIn(0)
	return done, nil
}

// announceChildren hints at what became of the workflow children of a chain that has ended. The step that
// handled the end has decided it already: who starts or skips children a second time finds none waiting.
func (l *completionListener) announceChildren(o *store.Orchestrated) {
	var changes []broker.Change
	for _, id := range o.Skipped {
		changes = append(changes, broker.Change{Key: execution.Key{ID: id}, From: execution.Requested, To: execution.Cancelled})
	}
	l.notifier.Changed(changes...)
	keys := make([]execution.Key, len(o.Started))
	for i, id := range o.Started {
		keys[i] = execution.Key{ID: id}
	}
	l.notifier.Requested(keys...)
}
