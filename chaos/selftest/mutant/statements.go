package mutant

import (
	"context"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants statements that lack a part of their guard.

func init() {
	registerMutants(
		Mutant{
			Name: "unguarded-monitor", Source: "D1", Expected: 2, Scenario: "ttl-race",
			About:  "the source design's timeout monitor: claims have no deadline, and the monitor fails stale executions by their id alone, whatever their state is by then",
			Config: func(c *config.Config) { c.Executor.DispatchTimeout = time.Hour },
			Statements: func(p Process, c Database) store.Store {
				s := &statementStore{Store: c, client: c}
				s.reclaim = func(ctx context.Context, r store.Reclaim) (outcome store.Outcome, replaced bool, err error) {
					if r.Cause != store.Unclaimed {
						return outcome, false, nil
					}
					err = c.Step(ctx, func(tx Tx) {
						if row := tx.Row(r.Key.ID); row != nil && (row.Status != execution.Scheduled || row.Epoch != r.Key.Epoch || r.Policy != config.Fail) {
							p.Acted("failed, by its id alone, an execution that is "+row.Status.String(), row.ID)
						}
						outcome = overwriteRow(tx, r.Key, r.By, r.Reason, r.Result)
					})
					return outcome, true, err
				}
				return s
			},
		},
		Mutant{
			Name: "dead-letter-fails-running", Source: "D2", Expected: 2, Scenario: "ttl-race",
			About: "the dead letter handler fails every execution that is not terminal, even a running one",
			Statements: replaceStatements(statementStore{deadLetter: func(p Process, tx Tx, d store.DeadLetter) {
				if row := tx.Row(d.Key.ID); row != nil && row.Status.Claimed() {
					p.Acted("failed an execution that is "+row.Status.String(), row.ID)
					overwriteRow(tx, d.Key, execution.DeadLetterHandler, execution.QueueTimeout, execution.Result{Error: "Worker queue TTL expired"})
				}
			}}),
		},
		Mutant{
			Name: "status-only-guard", Source: "D3", Expected: 3, Scenario: "ttl-race",
			About: "the dead letter handler's guard checks the status and not the epoch, so a late dead letter takes back the next dispatch",
			Statements: replaceStatements(statementStore{deadLetter: func(p Process, tx Tx, d store.DeadLetter) {
				row := tx.Row(d.Key.ID)
				if row == nil || row.Status != execution.Scheduled || row.Epoch == d.Key.Epoch {
					return
				}
				p.Acted("failed a dispatch by the dead letter of an earlier one", row.ID)
				tx.Named(d.Key, 0)
				tx.Move(d.Key.ID, execution.Failed, execution.DeadLetterHandler, execution.QueueTimeout, func(e *execution.Execution) {
					e.FailureReason = execution.QueueTimeout
				})
			}}),
		},
		Mutant{
			Name: "unguarded-finish", Source: "D4", Expected: 1, Scenario: "network-partition",
			About: "a worker writes its result by id alone, over any decision of the executor",
			Statements: replaceStatements(statementStore{finish: func(p Process, tx Tx, w store.WorkerKey, f store.Finish) store.Outcome {
				row := tx.Row(f.Key.ID)
				if row == nil || row.Status == f.To {
					return store.Outcome{}
				}
				if !row.Status.Claimed() || row.Epoch != f.Key.Epoch {
					p.Acted("wrote its result over an execution that is "+row.Status.String()+" and not its own", row.ID)
				}
				tx.Named(f.Key, w.Incarnation)
				tx.Move(f.Key.ID, f.To, execution.Worker, f.Reason, func(e *execution.Execution) {
					e.FailureReason, e.Result = f.Reason, f.Result
				})
				return store.Outcome{Applied: true, Row: *tx.Row(f.Key.ID)}
			}}),
		},
		Mutant{
			Name: "unguarded-claim", Source: "D12", Expected: 4, Scenario: "network-partition",
			About: "a worker that gets a message of a running execution treats it as its own claim and runs the execution again",
			Statements: replaceStatements(statementStore{claim: func(p Process, tx Tx, _ store.WorkerKey, c store.Claim) (store.ClaimResult, bool) {
				row := tx.Row(c.Key.ID)
				if row == nil || row.Status != execution.Running {
					return store.ClaimResult{}, false
				}
				p.Acted("treated the delivery of a running execution as its own claim", row.ID)
				return store.ClaimResult{Outcome: store.Outcome{Applied: true, Row: *row}}, true
			}}),
		},
		Mutant{
			Name: "late-claim", Source: "D20", Expected: 2, Scenario: "ttl-race",
			About: "a claim is accepted after its dispatch deadline, when a prefetched message has waited too long",
			Statements: replaceStatements(statementStore{claim: func(p Process, tx Tx, w store.WorkerKey, c store.Claim) (store.ClaimResult, bool) {
				row := tx.Row(c.Key.ID)
				if row == nil || row.Status != execution.Scheduled || row.Epoch != c.Key.Epoch || row.Incarnation != w.Incarnation || tx.Now().Before(row.DispatchDeadline) {
					return store.ClaimResult{}, false
				}
				p.Acted("claimed an execution after its dispatch deadline", row.ID)
				tx.MarkPublished(c.Key.ID)
				return claimPlainly(tx, w, c), true
			}}),
		},
	)
}

// statementStore is a store in which single statements are replaced.
type statementStore struct {
	store.Store
	p      Process
	client Database

	reclaim    func(ctx context.Context, r store.Reclaim) (store.Outcome, bool, error)
	claim      func(p Process, tx Tx, w store.WorkerKey, c store.Claim) (store.ClaimResult, bool)
	finish     func(p Process, tx Tx, w store.WorkerKey, f store.Finish) store.Outcome
	deadLetter func(p Process, tx Tx, d store.DeadLetter)
}

func replaceStatements(s statementStore) func(Process, Database) store.Store {
	return func(p Process, c Database) store.Store {
		own := s
		own.Store, own.p, own.client = c, p, c
		return &own
	}
}

// Reclaim implements store.Store.
func (s *statementStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	if s.reclaim == nil {
		return s.Store.Reclaim(ctx, rs)
	}
	outcomes := make([]store.Outcome, len(rs))
	for i, r := range rs {
		outcome, replaced, err := s.reclaim(ctx, r)
		if err != nil {
			return nil, err
		}
		if !replaced {
			guarded, err := s.Store.Reclaim(ctx, rs[i:i+1])
			if err != nil {
				return nil, err
			}
			outcome = guarded[0]
		}
		outcomes[i] = outcome
	}
	return outcomes, nil
}

// Claim implements store.Store.
func (s *statementStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	if s.claim == nil {
		return s.Store.Claim(ctx, w, cs)
	}
	results := make([]store.ClaimResult, len(cs))
	var left []int // rows that the mutant does not handle
	err := s.client.Step(ctx, func(tx Tx) {
		left = nil
		for i := range cs {
			var replaced bool
			if results[i], replaced = s.claim(s.p, tx, w, cs[i]); !replaced {
				left = append(left, i)
			}
		}
	})
	if err != nil || len(left) == 0 {
		return results, err
	}
	rest := make([]store.Claim, len(left))
	for n, i := range left {
		rest[n] = cs[i]
	}
	answers, err := s.Store.Claim(ctx, w, rest)
	if err != nil {
		return nil, err
	}
	for n, i := range left {
		results[i] = answers[n]
	}
	return results, nil
}

// Finish implements store.Store.
func (s *statementStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	if s.finish == nil {
		return s.Store.Finish(ctx, w, fs)
	}
	outcomes := make([]store.Outcome, len(fs))
	err := s.client.Step(ctx, func(tx Tx) {
		for i := range fs {
			outcomes[i] = s.finish(s.p, tx, w, fs[i])
		}
	})
	return outcomes, err
}

// StoreDeadLetters implements store.Store.
func (s *statementStore) StoreDeadLetters(ctx context.Context, ds ...store.DeadLetter) error {
	for _, d := range ds {
		if s.deadLetter == nil || d.Key.ID == 0 {
			continue
		}
		if err := s.client.Step(ctx, func(tx Tx) { s.deadLetter(s.p, tx, d) }); err != nil {
			return err
		}
	}
	return s.Store.StoreDeadLetters(ctx, ds...)
}

// overwriteRow fails a row in any state, as `UPDATE … WHERE id = $1` does.
func overwriteRow(tx Tx, key execution.Key, by execution.Part, reason execution.Reason, result execution.Result) store.Outcome {
	row := tx.Row(key.ID)
	if row == nil {
		return store.Outcome{}
	}
	tx.Named(execution.Key{ID: key.ID, Epoch: row.Epoch}, 0)
	tx.Move(key.ID, execution.Failed, by, reason, func(e *execution.Execution) {
		e.FailureReason, e.Result = reason, result
	})
	return store.Outcome{Applied: true, Row: *tx.Row(key.ID)}
}

// claimPlainly sets a row to running, without any check or other change.
func claimPlainly(tx Tx, w store.WorkerKey, c store.Claim) store.ClaimResult {
	tx.Named(c.Key, w.Incarnation)
	tx.Move(c.Key.ID, execution.Running, execution.Worker, execution.NoReason, func(e *execution.Execution) {
		e.StartedAt, e.RunDeadline, e.ClaimBeat = tx.Now(), tx.Now().Add(e.Action.RunTimeout()), c.Beat
	})
	return store.ClaimResult{Outcome: store.Outcome{Applied: true, Row: *tx.Row(c.Key.ID)}}
}
