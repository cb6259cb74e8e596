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

// completionListener handles the end of an execution, once, in one transaction with the mark that
// it was handled. Hints of completion start it early; the reconciler starts it in any case.
// Afterwards it settles the children of the ended chain in batches: see children.go.
//
// If nothing follows an end, the step that writes the end also handles it (store.Worker.Finish),
// and the hint says so. Then only the scheduler has to be woken, because the worker has room. That
// takes no statement. A hint that lies only costs time, because the reconciler finds the end.
type completionListener struct {
	*Service
	hints *hints
	// unsettled wakes the loop that settles the remaining children.
	unsettled host.Signal
	// freed are the ends that were handled by their workers and have woken the scheduler.
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

// handleHinted orchestrates the executions that hints named, in batches. The rows decide: a hint has no
// effect if its execution is not terminal or was already handled. handle returns an error only when
// the database is away. An end that can't be handled for another reason is left to the reconciler,
// and its hint is acknowledged. The same applies to an execution that this program can't read: it
// waits for a program that can, and survey reports it.
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
		// At debug, like the scheduler's line: there is one for each execution of the fleet.
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

// commitOrchestrations handles all ends in one call. If that fails while the database answers, it handles each
// end alone, so that one that can't be handled, or takes too long, does not hold up the others. It
// returns an error only when the database is away, together with the outcomes before that.
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
