package simstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/store"
)

// StoreDeadLetters implements store.Executor and store.Worker.
func (c *Client) StoreDeadLetters(ctx context.Context, ds ...store.DeadLetter) error {
	c.reportIfEmpty("StoreDeadLetters", len(ds))
	if len(ds) == 0 {
		return nil
	}
	return c.runStep(ctx, "StoreDeadLetters", func(s *step) {
		for i := range ds {
			if d := &ds[i]; s.refuseInvalidText(d.Queue, d.Reason, d.Outcome, d.ActionRef) || s.refuseInvalidJSON(json.RawMessage(d.XDeath)) || s.refuseTooLong(d.Body) {
				return
			}
		}
		for _, d := range ds {
			s.storeDeadLetter(d)
		}
	})
}

func (s *step) storeDeadLetter(d store.DeadLetter) {
	s.db.stored++
	kept := store.StoredDeadLetter{ID: int64(s.db.stored), DeadLetter: d, ReceivedAt: s.now}
	if !d.Open {
		kept.HandledAt = s.now
	}
	s.db.letters = append(s.db.letters, kept)
	s.db.emit(&history.Event{
		Kind: history.DeadLetterStored, Process: s.process, Execution: d.Key.ID, Epoch: d.Key.Epoch, Queue: d.Queue, Text: d.Outcome,
	})
}

// PurgeDeadLetters implements store.Executor.
func (c *Client) PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error) {
	return writeStep(ctx, c, "PurgeDeadLetters", func(s *step) (purged int) {
		var old []store.StoredDeadLetter
		for i := range s.db.letters {
			if s.now.Sub(s.db.letters[i].ReceivedAt) >= age {
				old = append(old, s.db.letters[i])
			}
		}
		slices.SortStableFunc(old, func(a, b store.StoredDeadLetter) int { return a.ReceivedAt.Compare(b.ReceivedAt) })
		for _, l := range old[:min(len(old), max(0, limit))] {
			i := s.letterIndex(l.ID)
			s.db.letters = slices.Delete(s.db.letters, i, i+1)
			purged++
		}
		return purged
	})
}

// DeadLetters implements store.Client.
func (c *Client) DeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]store.StoredDeadLetter, error) {
	return readStep(ctx, c, "DeadLetters", func(s *step) (page []store.StoredDeadLetter) {
		for _, d := range slices.Backward(s.db.letters) {
			if len(page) < q.Limit && (q.Before == 0 || d.ID < q.Before) && (d.Open || !q.Open) {
				d.XDeath, d.Body = nil, nil
				page = append(page, d)
			}
		}
		return page
	})
}

// letterIndex returns the index of a dead letter, or -1 if there is no such letter.
func (s *step) letterIndex(id int64) int {
	return slices.IndexFunc(s.db.letters, func(d store.StoredDeadLetter) bool { return d.ID == id })
}

// DeadLetter implements store.Client.
func (c *Client) DeadLetter(ctx context.Context, id int64) (d store.StoredDeadLetter, known bool, err error) {
	found, err := readStep(ctx, c, "DeadLetter", func(s *step) *store.StoredDeadLetter {
		if i := s.letterIndex(id); i >= 0 {
			found := s.db.letters[i]
			return &found
		}
		return nil
	})
	if err != nil || found == nil {
		return d, false, err
	}
	return *found, true, nil
}

// SettleDeadLetter implements store.Client.
func (c *Client) SettleDeadLetter(ctx context.Context, id int64, outcome, actor string) (bool, error) {
	return writeStep(ctx, c, "SettleDeadLetter", func(s *step) bool {
		i := s.letterIndex(id)
		if s.refuseInvalidText(outcome, actor) || i < 0 || !s.db.letters[i].Open {
			return false
		}
		d := &s.db.letters[i]
		d.Open, d.Outcome, d.HandledAt, d.HandledBy = false, outcome, s.now, actor
		return true
	})
}

// DiscardDeadLetters implements store.Client.
func (c *Client) DiscardDeadLetters(ctx context.Context, d store.DeadLetterDiscard, outcome string) (store.DeadLettersDiscarded, error) {
	return writeStep(ctx, c, "DiscardDeadLetters", func(s *step) (done store.DeadLettersDiscarded) {
		if s.refuseInvalidText(d.Reason, d.Queue, d.ActionRef, d.Actor, outcome) {
			return done
		}
		done.Next = d.After
		looked := 0
		for i := range s.db.letters {
			l := &s.db.letters[i]
			if !l.Open || l.ID <= d.After || d.IDs != nil && !slices.Contains(d.IDs, l.ID) {
				continue
			}
			if looked++; looked > d.Limit {
				done.More = true
				break
			}
			done.Next = l.ID
			if (d.Reason == "" || d.Reason == l.Reason) && (d.Queue == "" || d.Queue == l.Queue) && (d.ActionRef == "" || d.ActionRef == l.ActionRef) &&
				(d.Worker == 0 || d.Worker == l.Worker) && s.now.Sub(l.ReceivedAt) >= d.OlderThan {
				l.Open, l.Outcome, l.HandledAt, l.HandledBy = false, outcome, s.now, d.Actor
				done.Closed++
			}
		}
		return done
	})
}

// SummarizeDeadLetters implements store.Client.
func (c *Client) SummarizeDeadLetters(ctx context.Context, q store.DeadLetterSummaryQuery) (store.DeadLetterSummary, error) {
	return readStep(ctx, c, "SummarizeDeadLetters", func(s *step) store.DeadLetterSummary {
		found := store.DeadLetterSummary{Since: s.now.Add(-q.Window), Until: s.now}
		at := make(map[store.DeadLetterGroup]int)
		for i := range s.db.letters {
			l := &s.db.letters[i]
			if s.now.Sub(l.ReceivedAt) > q.Window {
				continue
			}
			var g store.DeadLetterGroup
			if q.Every > 0 {
				from := l.ReceivedAt.UnixNano()
				g.From = time.Unix(0, from-from%int64(q.Every)).UTC()
			}
			if q.ByReason {
				g.Reason = l.Reason
			}
			if q.ByAction {
				g.ActionRef = l.ActionRef
			}
			if q.ByWorker {
				g.Worker = l.Worker
			}
			n, known := at[g]
			if !known {
				n = len(found.Groups)
				at[g] = n
				found.Groups = append(found.Groups, g)
			}
			found.Groups[n].Count++
			found.Total++
		}
		slices.SortFunc(found.Groups, func(a, b store.DeadLetterGroup) int {
			return cmp.Or(b.From.Compare(a.From), b.Count-a.Count, strings.Compare(a.Reason, b.Reason), strings.Compare(a.ActionRef, b.ActionRef), cmp.Compare(a.Worker, b.Worker))
		})
		if found.More = len(found.Groups) > max(0, q.Limit); found.More {
			found.Groups = found.Groups[:max(0, q.Limit)]
		}
		return found
	})
}

// Survey implements store.Executor.
func (c *Client) Survey(ctx context.Context) (store.Survey, error) {
	return readStep(ctx, c, "Survey", func(s *step) (survey store.Survey) {
		var by [execution.Statuses]store.Waiting
		for i := range int32(s.db.rows.n) {
			r := s.db.rows.rowAt(i)
			if r.Status == execution.None {
				continue
			}
			s.db.surveyUnreadable(&survey, r)
			if oracle.Terminal(r.Status) {
				if r.OrchestratedAt.IsZero() {
					survey.OrchestrationLag = max(survey.OrchestrationLag, s.now.Sub(r.Ended))
				}
				continue
			}
			w := &by[r.Status]
			w.Count++
			if !r.AwaitsParent {
				w.Oldest = max(w.Oldest, s.now.Sub(waitingSince(r)))
			}
			if !r.UnschedulableSince.IsZero() {
				survey.Unfit = max(survey.Unfit, s.now.Sub(r.UnschedulableSince))
			}
			if r.Status == execution.Scheduled {
				since := r.ScheduledAt
				if i := s.db.incarnation(r.Incarnation); i.fullAt.After(since) {
					since = i.fullAt
				}
				survey.Unclaimed = max(survey.Unclaimed, s.now.Sub(since))
			}
		}
		for status, w := range by {
			if w.Count > 0 {
				w.Status = execution.Status(status)
				survey.Waiting = append(survey.Waiting, w)
			}
		}
		if len(s.db.open) > 0 {
			survey.Held = s.db.open[0]
		}
		for i := range s.db.letters {
			if s.db.letters[i].Open {
				survey.DeadLettersOpen++
			}
		}
		for _, ref := range slices.Sorted(slices.Values(s.db.limits)) {
			if n := s.db.slots[ref].heldCount(); n > 0 || s.db.slots[ref].limit > 0 {
				survey.Slots = append(survey.Slots, store.SlotsInUse{ActionRef: ref, Count: n})
			}
		}
		return survey
	})
}

// waitingSince returns the time at which a row began to wait in its status; for a requested row, the time at
// which it is due.
func waitingSince(r *row) time.Time {
	switch {
	case r.Status == execution.Requested:
		return r.due
	case r.Status == execution.Scheduling:
		return r.SchedulingAt
	case r.Status == execution.Scheduled:
		return r.ScheduledAt
	}
	return r.StartedAt
}
