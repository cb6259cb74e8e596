package executor

import (
	"context"
	"log/slog"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// The workflow children of an ended chain are started or skipped in bounded batches, after the transaction
// that handles the end. A chain may have any number of children. One statement for all of them would exceed
// the statement timeout, hold the lock of the parent's row all that time, and fail again at every attempt.
// The database records which chains have unsettled children (store.Executor.SettleChildren), so an executor
// may stop after any batch.

// beginChildren settles a first batch of children of chains whose ends were just handled, so that the few
// children of a typical chain start at once. settleWhatIsLeft settles the rest, also after an error.
func (cl *completionListener) beginChildren(chains []execution.ID) {
	if len(chains) == 0 {
		return
	}
	stuck, more, err := cl.settleBatch(chains)
	if err != nil {
		cl.log.LogAttrs(context.Background(), slog.LevelWarn, "children of ended executions could not be settled yet", slog.Any("error", err))
	}
	if err != nil || more || len(stuck) > 0 {
		cl.unsettled.Set()
	}
}

// settleWhatIsLeft settles children until ctx ends: those that beginChildren left, at once; those that a dead
// executor left, every reconcile interval.
func (cl *completionListener) settleWhatIsLeft(ctx context.Context) {
	interval := cl.config.Executor.ReconcileInterval
	loop := cl.newLoop("reconciler of children")
	for {
		woken, err := cl.unsettled.Wait(ctx, interval)
		if err != nil {
			return
		}
		f := store.Finding{Cause: store.Unsettled, Age: interval}
		if woken {
			f.Age = 0
		}
		if err := loop.Pass(func() error { return cl.settleChildren(ctx, f) }); err != nil {
			cl.log.LogAttrs(ctx, slog.LevelWarn, "settling children failed, the next pass tries again", slog.Any("error", err))
		}
		loop.Interval(interval)
	}
}

// settleChildren visits the chains that Find returns, in batches, until none has waiting children.
// SettleChildren gives a chain with more children a later timestamp, so Find returns it last, and a large
// chain does not delay the others. A pass skips chains none of whose children could be settled.
func (cl *completionListener) settleChildren(ctx context.Context, f store.Finding) error {
	f.Limit = cl.config.Executor.BatchSize
	for range passBatches {
		rows, err := askStore(cl.db, cl.store.Find, f)
		if err != nil || len(rows) == 0 {
			return err
		}
		stuck, more, err := cl.settleBatch(idsOf(rows))
		if err != nil || !more && len(rows) < f.Limit || ctx.Err() != nil {
			return err
		}
		// From here on, the pass revisits the chains whose children it has just settled, until none has
		// waiting children.
		f.Age, f.Skip = 0, append(f.Skip, stuck...)
	}
	cl.unsettled.Set()
	return nil
}

// settleBatch settles one batch of children, an equal share for each chain, and announces the changes. stuck
// lists the chains none of whose children could be settled. more reports whether another chain still has
// waiting children. An error means that the database is away.
func (cl *completionListener) settleBatch(chains []execution.ID) (stuck []execution.ID, more bool, err error) {
	share := max(1, cl.config.Executor.BatchSize/len(chains))
	settled, err := cl.commitChildren(chains, share)
	if err != nil {
		return nil, false, err
	}
	for i := range settled {
		c := &settled[i]
		switch {
		case c.failed, c.More && len(c.Started)+len(c.Skipped) == 0:
			stuck = append(stuck, chains[i])
		case c.More:
			more = true
		}
		cl.announceChildren(&c.Settled)
	}
	return stuck, more, nil
}

// settledChain is the database's answer for one chain; failed reports that there was no answer.
type settledChain struct {
	store.Settled
	failed bool
}

// commitChildren settles all chains in one call. If that call fails, it settles each chain alone, like
// commitOrchestrations.
func (cl *completionListener) commitChildren(chains []execution.ID, most int) ([]settledChain, error) {
	var answers []store.Settled
	err := cl.db(func(ctx context.Context) (err error) {
		answers, err = cl.store.SettleChildren(ctx, chains, most)
		return err
	})
	if err != nil && store.Retriable(err) && !cl.databaseAnswers() {
		return nil, err
	}
	settled := make([]settledChain, len(chains))
	for i := range answers {
		settled[i].Settled = answers[i]
	}
	switch {
	case err == nil:
	case len(chains) == 1:
		cl.log.LogAttrs(context.Background(), slog.LevelError, "the children of an ended execution can't be settled, the next pass tries again",
			slog.Int64("parent", int64(chains[0])), slog.Any("error", err))
		settled[0].failed = true
	default:
		for i := range chains {
			if s := &settled[i]; s.More || len(s.Started)+len(s.Skipped) > 0 {
				continue
			}
			one, err := cl.commitChildren(chains[i:i+1], most)
			if err != nil {
				return settled, err
			}
			settled[i] = one[0]
		}
	}
	return settled, nil
}

// announceChildren sends hints about settled children. No child is announced twice, because a second call
// finds no waiting children.
func (cl *completionListener) announceChildren(c *store.Settled) {
	var changes []broker.Change
	for _, id := range c.Skipped {
		changes = append(changes, broker.Change{Key: execution.Key{ID: id}, From: execution.Requested, To: execution.Cancelled})
	}
	cl.notifier.Changed(changes...)
	keys := make([]execution.Key, len(c.Started))
	for i, id := range c.Started {
		keys[i] = execution.Key{ID: id}
	}
	cl.notifier.Requested(keys...)
}
