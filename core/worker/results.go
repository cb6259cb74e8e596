package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// A statement costs the database far more than one of its rows. So results that come while others are being
// written go into the next statement together; they wait at most config.ResultWindow for it. Waiting uses up
// the lease, so:
//
//   - A result that ends while no other is being written is written at once, alone.
//   - A result waits only while the lease has room: a result that comes within a window of the
//     fence is written at once. The fence margin has room for the window of a result that comes
//     just before (config.Worker).
//   - A batch is bounded in rows and in bytes, and is written when it is full.
//
// The slots of a batch become free together, so one statement also makes the next claims for them.

const (
	// mostRows is the maximum number of dispatches that one statement claims, and of results that one
	// statement writes: the batch size of the database's adapter.
	mostRows = 500
	// mostResultBytes bounds the total length of outputs in a batch: the result that reaches it is the last
	// of its batch.
	mostResultBytes = 1 << 20
)

// result is the end of a run that is not written yet.
type result struct {
	store.Finish
	e    *entry
	took time.Duration
	// uncertain reports whether a statement that wrote the result had an unknown outcome. refused reports
	// whether the database has refused the result once.
	uncertain, refused bool
}

// resultBatch holds the results that one statement writes. The task of its first result writes it.
type resultBatch struct {
	all   []*result
	bytes int
	// leaves wakes the task that will write the batch, when the batch must not wait longer.
	leaves host.Signal
}

// add puts a result into the batch, and reports whether the batch is now full.
func (rb *resultBatch) add(r *result) (full bool) {
	rb.all, rb.bytes = append(rb.all, r), rb.bytes+len(r.Result.Output)+len(r.Result.Message)
	return len(rb.all) >= mostRows || rb.bytes >= mostResultBytes
}

// results collects results that come at about the same time into batches.
type results struct {
	host  host.Host
	lease *lease

	mu sync.Mutex
	// gathering is the batch that accepts more results, nil if there is none.
	gathering *resultBatch
	// writing is the number of batches that are being written.
	writing int
	// crowded is the time until which a result waits for others although none is being written: one window
	// after a batch of several results was written.
	crowded time.Duration
}

// addResult adds a result to a batch. It returns the batch that the caller must write, and how long to wait
// before that. The batch is nil if another task writes the result.
func (r *results) addResult(one *result) (lead *resultBatch, wait time.Duration) {
	now := r.host.Monotonic()
	leaves := r.host.NewSignal() // made here, because the host must not be called under the lock
	r.mu.Lock()
	defer r.mu.Unlock()
	lead = r.gathering
	if lead == nil {
		lead = new(resultBatch)
	}
	full := lead.add(one)
	wait = config.ResultWindow
	if full || r.writing == 0 && now >= r.crowded || !r.lease.hasRoom(now, wait) {
		wait = 0
	}
	switch first := len(lead.all) == 1; {
	case first && wait > 0:
		lead.leaves = leaves
		r.gathering = lead
	case first:
		r.writing++
	default:
		if wait == 0 {
			r.sealBatch(lead)
			lead.leaves.Set()
		}
		return nil, 0
	}
	return lead, wait
}

// closeBatch closes a batch after its task has waited.
func (r *results) closeBatch(b *resultBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealBatch(b)
}

// sealBatch closes a batch to further results, because it is being written from now on. The caller holds the
// lock.
func (r *results) sealBatch(b *resultBatch) {
	if r.gathering == b {
		r.gathering = nil
		r.writing++
	}
}

// noteWritten records that a batch of n results was written.
func (r *results) noteWritten(n int) {
	now := r.host.Monotonic()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing--
	if n > 1 {
		r.crowded = now + config.ResultWindow
	}
}

// finishRun writes the end of a run, together with others that end now. The run keeps its slot until then. If
// another task writes the result, the calling task ends.
func (s *session) finishRun(e *entry, f store.Finish, took time.Duration) {
	b, wait := s.results.addResult(&result{Finish: f, e: e, took: took})
	if b == nil {
		return
	}
	if wait > 0 {
		_, _ = b.leaves.Wait(context.Background(), wait)
		s.results.closeBatch(b)
	}
	refused := s.writeResults(b.all)
	s.results.noteWritten(len(b.all))
	s.keepAllRefused(refused)
}

// writeResults writes results, and retries until it gets an answer, because they exist nowhere else. It
// continues after the session has ended: a row may still belong to this incarnation, and if not, the database
// refuses the write. It releases the slots, except those of refused results, which it returns.
func (s *session) writeResults(all []*result) (refused []refusal) {
	return s.writeResultsAfter(broker.NewBackoff(s.host, 100*time.Millisecond, 5*time.Second), all)
}

// writeResultsAfter is writeResults for results that may have been tried before: the pauses of backoff
// continue to grow.
func (s *session) writeResultsAfter(backoff *broker.Backoff, all []*result) (refused []refusal) {
	for {
		fs := make([]store.Finish, len(all))
		for i, r := range all {
			fs[i] = r.Finish
		}
		var outcomes []store.Outcome
		err := s.db(func(ctx context.Context) (err error) {
			outcomes, err = s.store.Finish(ctx, s.key, fs)
			return err
		})
		if err == nil {
			return append(refused, s.noteWrittenResults(all, outcomes)...)
		}
		// Results that the database answered alongside the error are done: one refused or locked row must not
		// affect the others.
		together := len(all) > 1
		var answered []refusal
		answered, all = s.notePartialResults(all, outcomes)
		refused = append(refused, answered...)
		switch {
		case len(all) == 0:
			return refused
		case !store.Retriable(err) && together:
			for _, r := range all[1:] {
				own := *backoff
				s.host.Go("result", func() {
					if own.Wait(s.closing) != nil {
						s.releaseSlots([]*result{r})
						return
					}
					s.keepAllRefused(s.writeResultsAfter(&own, []*result{r}))
				})
			}
			all = all[:1:1]
		case !store.Retriable(err):
			s.limited.LogAttrs(context.Background(), slog.LevelError, "result refused by the database", slog.Int64("execution", int64(all[0].Key.ID)), slog.Any("error", err))
			if r := all[0]; !r.refused {
				r.Finish, r.refused = storableFinish(r.Finish, err), true
				continue
			}
			// So the output is not the cause. The refusal may be temporary; as the result exists nowhere
			// else, retry.
		case errors.Is(err, store.ErrUnknownOutcome):
			for _, r := range all {
				r.uncertain = true
			}
		}
		s.limited.LogAttrs(context.Background(), slog.LevelWarn, "result could not be written yet, trying again", slog.Int64("execution", int64(all[0].Key.ID)),
			slog.Int("executions", len(all)), slog.Any("error", err))
		if backoff.Wait(s.closing) != nil {
			s.releaseSlots(all)
			return refused
		}
	}
}

// notePartialResults processes the results that the database answered although the call failed as a whole,
// and returns the others in left.
func (s *session) notePartialResults(all []*result, outcomes []store.Outcome) (refused []refusal, left []*result) {
	if len(outcomes) != len(all) {
		return nil, all
	}
	var done []*result
	var answers []store.Outcome
	for i, r := range all {
		if outcomes[i].Row.ID == r.Key.ID {
			done, answers = append(done, r), append(answers, outcomes[i])
		} else {
			left = append(left, r)
		}
	}
	return s.noteWrittenResults(done, answers), left
}

// refusal is a result that the database refused because the row belongs to another owner, and that row.
type refusal struct {
	*result
	row *execution.Execution
}

// noteWrittenResults processes answered results: it announces the accepted ones in one hint, releases their
// slots, and returns the refused ones.
//
// Accepted results count for the worker's health. Refused results do not, because another part has ended
// their executions.
func (s *session) noteWrittenResults(all []*result, outcomes []store.Outcome) (refused []refusal) {
	changes := make([]broker.Change, 0, len(all))
	taken := make([]*result, 0, len(all))
	for i, r := range all {
		o := &outcomes[i]
		ours := r.uncertain && o.Row.Key() == r.Key && o.Row.Status == r.To && o.Row.Incarnation == s.key.Incarnation
		if !o.Applied && !ours {
			refused = append(refused, refusal{r, &o.Row})
			continue
		}
		s.record.noteEnd(r.Reason, r.took)
		from := execution.Running
		if o.Applied {
			from = o.From
		}
		changes = append(changes, broker.Change{Key: r.Key, From: from, To: r.To, Handled: !o.Row.OrchestratedAt.IsZero()})
		taken = append(taken, r)
	}
	s.notifier.Changed(changes...)
	s.releaseSlots(taken)
	return refused
}

// keepAllRefused stores refused results, each in its own task, and releases their slots.
func (s *session) keepAllRefused(refused []refusal) {
	for i, r := range refused {
		keep := func() {
			s.keepRefused(r.Finish, r.row)
			s.releaseSlot(r.e)
		}
		if i == len(refused)-1 {
			keep()
			return
		}
		s.host.Go("result", keep)
	}
}

// releaseSlots releases the slots of results together, so that the next claims for these slots share a
// statement, too.
func (s *session) releaseSlots(all []*result) {
	if len(all) == 0 {
		return
	}
	entries := make([]*entry, len(all))
	for i, r := range all {
		entries[i] = r.e
	}
	s.held.removeEntries(s.host.Monotonic(), entries...)
}
