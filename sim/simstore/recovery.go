package simstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// causeHolds reports whether a cause applies to a row now. Only this function decides that: Find selects by
// it, and Reclaim's guard checks it again.
func (s *step) causeHolds(r *row, cause store.ReclaimCause, age time.Duration) bool {
	switch cause {
	case store.Unclaimed:
		return r.Status == execution.Scheduled && s.isOld(r.ScheduledAt, age)
	case store.DeadLettered, store.Undeliverable:
		return r.Status == execution.Scheduled
	case store.Unpublished:
		return r.Status == execution.Scheduled && r.PublishedAt.IsZero() && s.isOld(r.ScheduledAt, age)
	case store.UnpublishedLate:
		return s.causeHolds(r, store.Unpublished, age) && s.isOld(r.ScheduledAt, r.DispatchDeadline.Sub(r.ScheduledAt)/2)
	case store.OwnerGone:
		return s.ownerGone(r, age)
	case store.Overrun:
		return oracle.Claimed(r.Status) && s.isOld(r.RunDeadline, age)
	case store.ClaimExpired:
		return r.Status == execution.Scheduling && s.now.After(r.SchedulingExpiresAt)
	case store.Unorchestrated:
		return oracle.Terminal(r.Status) && r.OrchestratedAt.IsZero() && s.isOld(r.Ended, age)
	case store.Unanswered:
		return r.Status == execution.Canceling && s.isOld(r.CancelingAt, age)
	case store.Unsettled:
		return !r.SettlingAt.IsZero() && s.isOld(r.SettlingAt, age)
	default:
		return false
	}
}

func (s *step) ownerGone(r *row, age time.Duration) bool {
	inc := s.db.incarnation(r.Incarnation)
	if inc == nil {
		return false
	}
	gone := oracle.Gone(inc.lifecycle) || s.db.workers[inc.worker-1].current != r.Incarnation
	switch {
	case r.Status == execution.Scheduled:
		return gone || inc.lifecycle == execution.Draining
	case oracle.Claimed(r.Status):
		return gone && s.isOld(inc.leaseExpires, age)
	}
	return false
}

// listsFor returns the lists in which rows with a cause are found.
func listsFor(cause store.ReclaimCause) []listName {
	switch cause {
	case store.Unclaimed, store.Unpublished, store.UnpublishedLate:
		return []listName{listScheduled}
	case store.OwnerGone:
		return []listName{listScheduled, listRunning}
	case store.Overrun, store.Unanswered:
		return []listName{listRunning}
	case store.ClaimExpired:
		return []listName{listScheduling}
	case store.Unorchestrated:
		return []listName{listUnorchestrated}
	default:
		return nil
	}
}

// Find implements store.Executor.
func (c *Client) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	return c.finds.askReusing(ctx, c, "Find", false, &f, (*step).findRows)
}

func (s *step) findRows(f *store.Finding) (found []execution.Execution) {
	if f.Limit <= 0 || f.Cause == store.OwnerGone && !s.anyOwnerGone() {
		return nil
	}
	for _, id := range s.db.settling {
		if f.Cause != store.Unsettled || len(found) == f.Limit {
			break
		}
		if r := s.db.row(id); s.causeHolds(r, f.Cause, f.Age) && !slices.Contains(f.Skip, id) && s.db.foreign[id] == "" {
			found = append(found, r.Execution)
		}
	}
	for _, name := range listsFor(f.Cause) {
		s.db.forEachRow(name, func(r *row) bool {
			// The list of running rows is ordered by their starts, not by their deadlines.
			if len(found) == f.Limit && f.Cause != store.Overrun {
				return false
			}
			if s.causeHolds(r, f.Cause, f.Age) {
				if !slices.Contains(f.Skip, r.ID) && s.db.foreign[r.ID] == "" {
					found = append(found, r.Execution)
				}
				return true
			}
			// In these lists, later rows are younger.
			return f.Cause != store.Unclaimed && f.Cause != store.Unorchestrated
		})
	}
	if f.Cause == store.Overrun {
		slices.SortFunc(found, func(a, b execution.Execution) int {
			return cmp.Or(a.RunDeadline.Compare(b.RunDeadline), cmp.Compare(a.ID, b.ID))
		})
	}
	return found[:min(len(found), f.Limit)]
}

// anyOwnerGone reports whether any incarnation that is leaving or gone still holds rows, to avoid a scan if
// none does.
func (s *step) anyOwnerGone() bool {
	for i := range s.db.incarnations {
		inc := &s.db.incarnations[i]
		if inc.load > 0 && (inc.lifecycle != execution.Active || s.db.workers[inc.worker-1].current != execution.Incarnation(i+1)) {
			return true
		}
	}
	return false
}

// Reclaim implements store.Executor.
func (c *Client) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	return callEach(ctx, c, "Reclaim", rs, (*step).reclaimRow)
}

func (s *step) reclaimRow(rc *store.Reclaim) store.Outcome {
	s.noteNamedEpoch(rc.Key)
	if s.refuseIfLocked(rc.Key.ID) || s.refuseInvalidText(string(rc.Result.Output)) {
		return store.Outcome{}
	}
	r := s.db.row(rc.Key.ID)
	to, reason, counts, lawful := s.judgeReclaim(r, rc)
	if !lawful {
		s.emitStaleWrite(rc.Key, rc.To, rc.By)
		return refusedOutcome(r)
	}
	if s.refuseUnlawful(r, to, rc.By) || to != execution.Requested && s.refuseInvalidJSON(rc.Result.Output) {
		return store.Outcome{}
	}
	if counts > 0 {
		s.noteExpiry(r.Incarnation)
	}
	from := r.Status
	s.changeStatus(r, to, rc.By, reason, func(r *row) {
		r.Dispatches += counts
		if to == execution.Requested {
			s.releaseRow(r, rc.Delay)
			r.UnschedulableSince = time.Time{}
		} else {
			setFailure(r, reason, rc.Result)
		}
	})
	return appliedOutcome(from, r)
}

// judgeReclaim decides whether a reclaim of a row is lawful now. It returns the new status, the reason, and
// how many used dispatches it counts. The row is nil if there is none.
func (s *step) judgeReclaim(r *row, rc *store.Reclaim) (to execution.Status, reason execution.Reason, counts int, lawful bool) {
	if r == nil || r.Epoch != rc.Key.Epoch || rc.Cause == store.Unorchestrated || rc.Cause == store.Unanswered || rc.Cause == store.Unsettled || !s.causeHolds(r, rc.Cause, rc.Age) {
		return to, reason, 0, false
	}
	behind := s.waitsAtFullWorker(r)
	if inc := s.currentIncarnation(store.WorkerKey{ID: r.Worker, Incarnation: r.Incarnation}); rc.Counts && !behind && inc != nil && inc.lifecycle == execution.Active {
		counts = 1
	}
	to, reason = execution.Requested, rc.Reason
	switch {
	case r.Status == execution.Canceling:
		to, reason, counts = execution.Cancelled, execution.CancelRequested, 0
	case oracle.Claimed(r.Status):
		to, counts = rc.To, 0
	case rc.Policy == config.Fail && !behind && !s.isOnDrainingWorker(r, rc.Cause) || counts > 0 && r.Dispatches+counts >= rc.MaxDispatches:
		to = execution.Failed
	}
	return to, reason, counts, true
}

// isOnDrainingWorker reports whether a row was delayed only because its worker was asked to stop.
func (s *step) isOnDrainingWorker(r *row, cause store.ReclaimCause) bool {
	return cause == store.OwnerGone && r.Incarnation > 0 && s.db.incarnations[r.Incarnation-1].lifecycle == execution.Draining
}

// Reap implements store.Executor.
func (c *Client) Reap(ctx context.Context, rs []store.Reap) ([]bool, error) {
	return callEach(ctx, c, "Reap", rs, func(s *step, r *store.Reap) bool {
		inc := s.currentIncarnation(r.WorkerKey)
		ok := inc != nil && !oracle.Gone(inc.lifecycle) && inc.beat == r.Beat && s.now.After(inc.leaseExpires)
		if ok {
			s.setLifecycle(r.Incarnation, execution.Lost)
		}
		return ok
	})
}

// Orchestrate implements store.Executor.
func (c *Client) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	return orOneByOne(os, func(os []store.Orchestration) ([]store.Orchestrated, error) {
		return writeStep(ctx, c, "Orchestrate", func(s *step) []store.Orchestrated {
			if len(os) == 0 {
				return nil
			}
			done := make([]store.Orchestrated, len(os))
			for _, statement := range splitStatements(os) {
				s.orchestrateStatement(os, statement, done)
			}
			return done
		})
	})
}

// splitStatements splits the item indexes of a call into statements, as the PostgreSQL adapter does. A second
// item for a row goes into a further statement, and a statement with an invalid item is repeated row by row.
func splitStatements(os []store.Orchestration) [][]int {
	var rounds, all [][]int
	for i := range os {
		n := 0
		for j := range i {
			if os[j].ID == os[i].ID {
				n++
			}
		}
		if n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], i)
	}
	for _, round := range rounds {
		if !slices.ContainsFunc(round, func(i int) bool { return isInvalidRetry(os[i]) }) {
			all = append(all, round)
			continue
		}
		for n := range round {
			all = append(all, round[n:n+1])
		}
	}
	return all
}

func isInvalidRetry(o store.Orchestration) bool { return o.Retry != nil && o.Retry.Count <= 0 }

// orchestrateStatement executes one statement: it reads all its rows before it changes any of them.
func (s *step) orchestrateStatement(os []store.Orchestration, places []int, done []store.Orchestrated) {
	judged := make([]*row, len(places))
	for n, i := range places {
		o := &os[i]
		if isInvalidRetry(*o) {
			s.addInvalid("the retry of execution %d has the number %d", o.ID, o.Retry.Count)
			continue
		}
		if r := s.db.row(o.ID); r != nil && oracle.Terminal(r.Status) && r.OrchestratedAt.IsZero() {
			judged[n] = r
		}
	}
	for n, i := range places {
		if judged[n] == nil {
			continue
		}
		retry := os[i].Retry
		if !s.db.row(judged[n].Chain()).CancelRequestedAt.IsZero() {
			retry = nil
		}
		done[i] = s.handleTerminal(judged[n], retry)
	}
}

// handleTerminal marks the row, frees its slot and creates its retry, or else marks the chain so
// that its children are settled.
func (s *step) handleTerminal(r *row, retry *store.Retry) store.Orchestrated {
	db := s.db
	s.freeSlot(r)
	r.OrchestratedAt = s.now
	db.unlinkRow(int32(r.ID - 1))
	from := r.Execution
	done := store.Orchestrated{Applied: true}
	var id execution.ID
	if retry != nil && retry.Free > 0 {
		if first := db.row(from.Chain()).Action.MaxRetries; (first > 0 || from.FailureReason == execution.WorkerUnavailable) && from.Action.MaxRetries-first < retry.Free {
			from.Action.MaxRetries++
		} else if from.RetryCount >= from.Action.MaxRetries {
			retry = nil
		}
	}
	if retry != nil {
		key := retryKey{from.Chain(), retry.Count}
		if id = db.retries[key]; id == 0 {
			id = s.insertRow(execution.Execution{
				Action: from.Action, Limits: from.Limits, Parameters: from.Parameters, Original: from.Chain(), RetryCount: retry.Count,
				RetryReason: retry.Reason, NotBefore: s.timeAfter(retry.Delay), Avoid: from.Worker, Parent: from.Parent, Pinned: from.Pinned, SubmittedBy: from.SubmittedBy,
			}, execution.RetryManager)
			db.retries[key] = id
		}
		done.Retry = id
	} else {
		first := db.row(from.Chain())
		if done.Children = first.hasChildren; done.Children {
			s.markSettling(first, true)
		}
	}
	db.emit(&history.Event{
		Kind: history.Orchestrated, Process: s.process, Execution: from.ID, Chain: from.Chain(), From: from.Status,
		Reason: from.FailureReason, Related: id, Due: s.now.Sub(from.Ended),
	})
	return done
}
