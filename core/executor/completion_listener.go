package executor

import (
	"context"
	"errors"
	"log/slog"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// completionListener handles the end of an execution exactly once, in the transaction that marks it as
// handled. Hints about completion trigger it early; the reconciler triggers it in any case. Afterwards it
// settles the children of the ended chain in batches: see children.go.
//
// If nothing follows an end, the step that writes the end also handles it (store.Worker.Finish), and the hint
// reports this. Then the listener only wakes the scheduler, without a statement, because the worker has room.
// A wrong hint only costs time, because the reconciler finds the end.
type completionListener struct {
	*Service
	hints *hints
	// unsettled wakes the loop that settles the remaining children.
	unsettled host.Signal
	// freed recognises repeated hints about ends that workers have handled: the first one wakes the
	// scheduler.
	freed hintPairs
}

func newCompletionListener(s *Service) *completionListener {
	return &completionListener{Service: s, hints: newHints(s), unsettled: s.host.NewSignal()}
}

func (cl *completionListener) run(ctx context.Context) {
	loop := cl.newLoop("completion listener")
	for ctx.Err() == nil {
		if _, err := cl.hints.wake.Wait(ctx, cl.config.Executor.ReconcileInterval); err != nil {
			return
		}
		held := cl.hints.takeHeld()
		ids, handled := terminalExecutions(held)
		if cl.freed.recordEnds(handled) {
			cl.scheduler.wakeIn(0)
		}
		err := loop.Pass(func() error { return cl.handleHinted(ids) })
		loop.Interval(cl.config.Executor.ReconcileInterval)
		cl.hints.settleHeld(held, err == nil)
		if err != nil {
			cl.log.LogAttrs(ctx, slog.LevelWarn, "terminal handling failed, its messages are kept", slog.Any("error", err))
			if cl.host.Sleep(ctx, cl.config.Executor.ReconcileInterval) != nil {
				return
			}
			cl.hints.wake.Set()
		}
	}
}

// handleHinted handles the ended executions that hints named, in batches. The rows decide: a hint has no
// effect if its execution is not terminal or was already handled. It returns an error only when the database
// is away. The reconciler retries other failures, and their hints are acknowledged. An execution that this
// program can't read waits for a program that can, and sampleDatabase reports it.
func (cl *completionListener) handleHinted(ids []execution.ID) error {
	for len(ids) > 0 {
		n := min(len(ids), cl.config.Executor.BatchSize)
		rows, err := askStore(cl.db, cl.store.Executions, ids[:n])
		if err != nil && !errors.Is(err, store.ErrUnreadable) {
			return err
		}
		if _, err := cl.orchestrateEnded(rows); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// orchestrateEnded commits the terminal handling of the rows that are terminal and not handled yet, and
// returns those that it could not handle. It returns an error only when the database is away.
func (cl *completionListener) orchestrateEnded(rows []execution.Execution) (left []execution.ID, err error) {
	var os []store.Orchestration
	var chains []execution.ID
	var statuses []execution.Status
	for i := range rows {
		row := &rows[i]
		if row.Status.Terminal() && row.OrchestratedAt.IsZero() {
			os, chains = append(os, store.Orchestration{ID: row.ID, Retry: cl.retryFor(row)}), append(chains, row.Chain())
			statuses = append(statuses, row.Status)
		}
	}
	if len(os) == 0 {
		return nil, nil
	}
	outcomes, err := cl.commitOrchestrations(os)
	var parents []execution.ID
	for i, o := range outcomes {
		if !o.Applied {
			left = append(left, os[i].ID)
			continue
		}
		// Only at level debug, like the scheduler's line, because there is one line for each execution.
		cl.log.LogAttrs(context.Background(), slog.LevelDebug, "terminal state, handling orchestration",
			slog.Int64("execution", int64(os[i].ID)), slog.String("status", statuses[i].String()))
		if o.Retry != 0 {
			cl.recorder.Add(telemetry.Retries, 1, telemetry.Labels{os[i].Retry.Reason.String()})
			cl.scheduler.wakeIn(os[i].Retry.Delay)
		}
		if o.Children {
			parents = append(parents, chains[i])
		}
	}
	if len(left) < len(outcomes) {
		// A run slot became free, and perhaps a concurrency slot: waiting executions may fit now.
		cl.scheduler.wakeIn(0)
	}
	cl.beginChildren(parents)
	return left, err
}

// commitOrchestrations handles all ends in one call. If that fails while the database answers, it handles
// each end alone, so that a failing or slow one does not delay the others. An error means that the database
// is away; the outcomes up to then are returned with it.
func (cl *completionListener) commitOrchestrations(os []store.Orchestration) ([]store.Orchestrated, error) {
	outcomes, err := askStore(cl.db, cl.store.Orchestrate, os)
	switch {
	case err == nil:
		return outcomes, nil
	case store.Retriable(err) && !cl.databaseAnswers():
		return nil, err
	case len(outcomes) < len(os):
		outcomes = make([]store.Orchestrated, len(os))
	}
	if len(os) == 1 {
		cl.log.LogAttrs(context.Background(), slog.LevelError, "the end of an execution can't be handled, the next pass tries again",
			slog.Int64("execution", int64(os[0].ID)), slog.Any("error", err))
		return outcomes, nil
	}
	for i := range os {
		if outcomes[i].Applied {
			continue
		}
		one, err := cl.commitOrchestrations(os[i : i+1])
		if err != nil {
			return outcomes, err
		}
		outcomes[i] = one[0]
	}
	return outcomes, nil
}
