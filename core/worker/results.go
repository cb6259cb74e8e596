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

// A statement costs the database far more than a row of it. So results that come while others are written go together into the
// next statement, for which they wait for config.ResultWindow at most. Who waits gives up time of its lease, so that:
//
//   - A result that finds the worker idle is written at once, alone.
//   - A result waits only while the lease has room for it: what ends within a window of the fence is written at once. The fence
//     margin has room for the window of one that ends just before (config.Worker).
//   - A batch is bounded in rows and in bytes, and leaves when it is full.
//
// The slots of a batch come free together, and what is claimed for them then is one statement as well.

const (
	// mostResults is how many results are written in one statement: as many rows as the database takes in one.
	mostResults = 100
	// mostResultBytes is how long their outputs may be together: the result that reaches it is the last of its batch.
	mostResultBytes = 1 << 20
)

// result is how a run has ended, until that is written.
type result struct {
	store.Finish
	e    *entry
	took time.Duration
	// uncertain says that a statement with it had an unknown outcome, refused that the database has refused it once.
	uncertain, refused bool
}

// batch is the results that one statement writes. The task whose result was the first one writes it.
type batch struct {
	all   []*result
	bytes int
	// leaves wakes the task that waits for the batch's time to be over.
	leaves host.Signal
}

// add takes a result into the batch, and says whether it is full then.
func (b *batch) add(r *result) (full bool) {
	b.all, b.bytes = append(b.all, r), b.bytes+len(r.Result.Output)+len(r.Result.Message)
	return len(b.all) >= mostResults || b.bytes >= mostResultBytes
}

// results puts results that come at the same time together.
type results struct {
	host  host.Host
	lease *lease

	mu sync.Mutex
	// gathers is the batch that waits, nil if there is none.
	gathers *batch
	// writing is how many batches are being written.
	writing int
	// crowded is the moment until which a result waits for others although none is being written: a window from the end of a
	// batch of several.
	crowded time.Duration
}

// add takes a result. Unless another task writes it, it returns the batch that the caller has to write, after waiting for it.
func (r *results) add(one *result) (lead *batch, wait time.Duration) {
	now := r.host.Monotonic()
	leaves := r.host.NewSignal() // made here, because nothing of the host is called under the lock
	r.mu.Lock()
	defer r.mu.Unlock()
	lead = r.gathers
	if lead == nil {
		lead = new(batch)
	}
	full := lead.add(one)
	wait = config.ResultWindow
	if full || r.writing == 0 && now >= r.crowded || !r.lease.room(now, wait) {
		wait = 0
	}
	switch first := len(lead.all) == 1; {
	case first && wait > 0:
		lead.leaves = leaves
		r.gathers = lead
	case first:
		r.writing++
	default:
		if wait == 0 {
			r.seal(lead)
			lead.leaves.Set()
		}
		return nil, 0
	}
	return lead, wait
}

// leave ends the gathering of a batch that its task has waited for.
func (r *results) leave(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seal(b)
}

// seal takes no more results into a batch, which is being written from now on. The lock is held.
func (r *results) seal(b *batch) {
	if r.gathers == b {
		r.gathers = nil
		r.writing++
	}
}

// back notes that so many results were written together.
func (r *results) back(n int) {
	now := r.host.Monotonic()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing--
	if n > 1 {
		r.crowded = now + config.ResultWindow
	}
}

// finish has the end of a run written, together with others that end now. Until then the run keeps its slot. The task of a run
// whose result another one writes is over.
func (t *session) finish(e *entry, f store.Finish, took time.Duration) {
	b, wait := t.results.add(&result{Finish: f, e: e, took: took})
	if b == nil {
		return
	}
	if wait > 0 {
		_, _ = b.leaves.Wait(context.Background(), wait)
		t.results.leave(b)
	}
	refused := t.write(b.all)
	t.results.back(len(b.all))
	t.keepAll(refused)
}

// write writes results, as often as it takes to get an answer: until then they are nowhere else. It goes on after the session has
// ended, because a row may still be this incarnation's; if not, the write is refused. It gives the slots back, except those of
// what was refused, which it returns.
func (t *session) write(all []*result) (refused []refusal) {
	return t.writeAfter(broker.NewBackoff(t.host, 100*time.Millisecond, 5*time.Second), all)
}

// writeAfter writes results as write does, some of which may have been tried before: the pauses go on growing.
func (t *session) writeAfter(backoff *broker.Backoff, all []*result) (refused []refusal) {
	for {
		fs := make([]store.Finish, len(all))
		for i, r := range all {
			fs[i] = r.Finish
		}
		var outcomes []store.Outcome
		err := t.db(func(ctx context.Context) (err error) {
			outcomes, err = t.store.Finish(ctx, t.key, fs)
			return err
		})
		if err == nil {
			return append(refused, t.written(all, outcomes)...)
		}
		switch {
		case !store.Retriable(err) && len(all) > 1:
			// One of them may be what the database refuses, and costs the others nothing: what was answered beside it is done,
			// and each of the rest goes on alone.
			var answered []refusal
			answered, all = t.writtenBeside(all, outcomes)
			refused = append(refused, answered...)
			if len(all) == 0 {
				return refused
			}
			for _, r := range all[1:] {
				own := *backoff
				t.host.Go("result", func() {
					_ = own.Wait(t.closing)
					t.keepAll(t.writeAfter(&own, []*result{r}))
				})
			}
			all = all[:1:1]
		case !store.Retriable(err):
			t.limited.LogAttrs(context.Background(), slog.LevelError, "result refused by the database", slog.Int64("execution", int64(all[0].Key.ID)), slog.Any("error", err))
			if r := all[0]; !r.refused {
				r.Finish, r.refused = storable(r.Finish, err), true
				continue
			}
			// Not the output, then. What the database says of the statement may pass all the same, and nobody else has the end.
		case errors.Is(err, store.ErrUnknownOutcome):
			for _, r := range all {
				r.uncertain = true
			}
		}
		t.limited.LogAttrs(context.Background(), slog.LevelWarn, "result could not be written yet, trying again", slog.Int64("execution", int64(all[0].Key.ID)),
			slog.Int("executions", len(all)), slog.Any("error", err))
		if backoff.Wait(t.closing) != nil {
			t.leaveAll(all)
			return refused
		}
	}
}

// writtenBeside notes those results that were answered although the database has refused the statement as a whole, and returns
// those that were not.
func (t *session) writtenBeside(all []*result, outcomes []store.Outcome) (refused []refusal, left []*result) {
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
	return t.written(done, answers), left
}

// refusal is a result that was refused because its row is somebody else's, and the row.
type refusal struct {
	*result
	row *execution.Execution
}

// written notes results that were answered, tells of those that were taken, in one hint, and gives their slots back.
//
// What was written counts for the worker's health: a refused result is somebody else's verdict.
func (t *session) written(all []*result, outcomes []store.Outcome) (refused []refusal) {
	changes := make([]broker.Change, 0, len(all))
	taken := make([]*result, 0, len(all))
	for i, r := range all {
		o := &outcomes[i]
		ours := r.uncertain && o.Row.Key() == r.Key && o.Row.Status == r.To && o.Row.Incarnation == t.key.Incarnation
		if !o.Applied && !ours {
			refused = append(refused, refusal{r, &o.Row})
			continue
		}
		t.record.ended(r.Reason, r.took)
		from := execution.Running
		if o.Applied {
			from = o.From
		}
		changes = append(changes, broker.Change{Key: r.Key, From: from, To: r.To, Handled: !o.Row.OrchestratedAt.IsZero()})
		taken = append(taken, r)
	}
	t.notifier.Changed(changes...)
	t.leaveAll(taken)
	return refused
}

// keepAll keeps refused results, each in a task of its own, and gives their slots back.
func (t *session) keepAll(refused []refusal) {
	for i, r := range refused {
		keep := func() {
			t.keepRefused(r.Finish, r.row)
			t.leave(r.e)
		}
		if i == len(refused)-1 {
			keep()
			return
		}
		t.host.Go("result", keep)
	}
}

// leaveAll gives the slots of results back, all at once: what is claimed for them goes together, too.
func (t *session) leaveAll(all []*result) {
	if len(all) == 0 {
		return
	}
	entries := make([]*entry, len(all))
	for i, r := range all {
		entries[i] = r.e
	}
	t.held.remove(t.host.Monotonic(), entries...)
}
