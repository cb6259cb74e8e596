package mutant

import (
	"context"
	"slices"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants loops that miss the rows that they search for, or find too many.

func init() {
	registerMutants(
		Mutant{
			Name: "no-republish", Source: "D7", Expected: 12, Scenario: "network-partition",
			About: "no loop looks for dispatches that were committed and never published",
			Store: hideFindings(store.Unpublished, store.UnpublishedLate),
		},
		Mutant{
			Name: "one-dispatch-timeout", Source: "D7", Expected: 2, Scenario: "short-dispatch-timeouts",
			About: "whether an unpublished dispatch is late depends on the configuration's dispatch timeout and not on the action's own, so it is sent when it is too late to claim it",
			Store: func(p Process, c store.Store) store.Store {
				timeout, own := p.Config.Executor.DispatchTimeout, withoutJudge(c)
				return &searchStore{Store: c, find: func(ctx context.Context, f store.Finding, found []execution.Execution) []execution.Execution {
					switch f.Cause {
					case store.UnpublishedLate:
						late := found
						found, _ = own.Find(ctx, store.Finding{Cause: store.Unpublished, Age: timeout / 2, Limit: f.Limit})
						if !slices.Equal(rowIDs(late), rowIDs(found)) {
							p.Acted("treated a dispatch that is late by its own timeout as in time", rowIDs(late)...)
						}
					case store.Unpublished:
						for i := range found {
							deadline := found[i].ScheduledAt.Add(timeout)
							if !deadline.Equal(found[i].DispatchDeadline) {
								p.Acted("used another dispatch timeout than the execution's own", found[i].ID)
							}
							found[i].DispatchDeadline = deadline
						}
					default:
					}
					return found
				}}
			},
		},
		Mutant{
			Name: "no-claim-sweep", Source: "D8", Expected: 5, Scenario: "crash-after-heartbeat",
			About: "no loop takes back executions that an executor claimed for scheduling and then lost",
			Store: hideFindings(store.ClaimExpired),
		},
		Mutant{
			Name: "no-terminal-sweep", Source: "D22", Expected: 7, Scenario: "dropped-status-messages",
			About: "the end of an execution is only handled when a message tells of it",
			Store: hideFindings(store.Unorchestrated),
		},
		Mutant{
			Name: "no-lease-monitor", Source: "D13", Expected: 12, Scenario: "worker-stops-mid-execution",
			About: "no executor notices that a worker has stopped renewing its lease",
			Store: func(p Process, c store.Store) store.Store {
				return &searchStore{Store: c, reap: func() bool {
					p.Acted("did not mark workers lost whose leases are over")
					return false
				}}
			},
		},
		Mutant{
			Name: "same-name-orphans", Source: "D14", Expected: 12, Scenario: "crash-after-heartbeat",
			About: "work belongs to a worker's name and not to its incarnation, so a restart hides the work of the old process",
			Store: func(p Process, c store.Store) store.Store {
				return &searchStore{Store: c, find: func(ctx context.Context, f store.Finding, found []execution.Execution) []execution.Execution {
					if f.Cause != store.OwnerGone {
						return found
					}
					return notHidden(ctx, p, c, found)
				}}
			},
		},
		Mutant{
			Name: "draining-looks-dead", Source: "D37", Expected: 2, Scenario: "worker-stops-gracefully",
			About: "a worker that drains counts as dead, so its remaining runs are abandoned",
			Statements: func(p Process, c Database) store.Store {
				s := &searchStore{Store: c, see: reportFalseStates(p, "took a draining worker for a lost one", forEachWorker(func(w *store.WorkerRow) {
					if w.Lifecycle == execution.Draining {
						w.Lifecycle = execution.Lost
					}
				}))}
				s.find = func(ctx context.Context, f store.Finding, found []execution.Execution) []execution.Execution {
					if f.Cause != store.OwnerGone {
						return found
					}
					return append(found, runningOnDraining(ctx, c)...)
				}
				s.force = func(ctx context.Context, r store.Reclaim) (outcome store.Outcome, forced bool, err error) {
					if r.Cause != store.OwnerGone || r.To == execution.None {
						return outcome, false, nil
					}
					err = c.Step(ctx, func(tx Tx) {
						row := tx.Row(r.Key.ID)
						if row == nil || !row.Status.Claimed() || row.Epoch != r.Key.Epoch {
							return
						}
						p.Acted("took back a running execution, whether or not its worker is gone", r.Key.ID)
						tx.Named(r.Key, 0)
						tx.Move(r.Key.ID, r.To, r.By, r.Reason, func(e *execution.Execution) { e.FailureReason, e.Result = r.Reason, r.Result })
						outcome = store.Outcome{Applied: true, Row: *tx.Row(r.Key.ID)}
					})
					return outcome, true, err
				}
				return s
			},
		},
		Mutant{
			Name: "no-self-fence", Source: "D15", Expected: 4, Scenario: "network-partition",
			About:  "a worker that can't renew its lease goes on running its actions, and they have no shim",
			Config: func(c *config.Config) { c.Worker.FenceMargin = -1000 * c.Worker.Lease() },
			Machine: func(p Process, m Machine) {
				m.RemoveShims()
				p.Acted("removed the shims, so nothing ends an action if its worker does not")
			},
		},
	)
}

// searchStore is a store whose searches are replaced.
type searchStore struct {
	store.Store
	find func(ctx context.Context, f store.Finding, found []execution.Execution) []execution.Execution
	reap func() bool
	// see changes the workers that are shown.
	see func(ws []store.WorkerRow)
	// force replaces single reclaims.
	force func(ctx context.Context, r store.Reclaim) (store.Outcome, bool, error)
}

// Workers implements store.Store.
func (s *searchStore) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	ws, err := s.Store.Workers(ctx, into)
	if s.see != nil {
		s.see(ws)
	}
	return ws, err
}

// Find implements store.Store.
func (s *searchStore) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	found, err := s.Store.Find(ctx, f)
	if err != nil || s.find == nil {
		return found, err
	}
	return s.find(ctx, f, found), nil
}

// Reap implements store.Store.
func (s *searchStore) Reap(ctx context.Context, rs []store.Reap) ([]bool, error) {
	if s.reap != nil && !s.reap() {
		return make([]bool, len(rs)), nil
	}
	return s.Store.Reap(ctx, rs)
}

// Reclaim implements store.Store.
func (s *searchStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	if s.force == nil {
		return s.Store.Reclaim(ctx, rs)
	}
	outcomes := make([]store.Outcome, len(rs))
	for i := range rs {
		outcome, forced, err := s.force(ctx, rs[i])
		if err == nil && !forced {
			var guarded []store.Outcome
			if guarded, err = s.Store.Reclaim(ctx, rs[i:i+1]); err == nil {
				outcome = guarded[0]
			}
		}
		if err != nil {
			return nil, err
		}
		outcomes[i] = outcome
	}
	return outcomes, nil
}

// rowIDs returns the ids of the rows.
func rowIDs(rows []execution.Execution) []execution.ID {
	list := make([]execution.ID, len(rows))
	for i := range rows {
		list[i] = rows[i].ID
	}
	return list
}

// Unjudged is a store that reports its statements to a judge. A mutant that itself searches for
// rows to put into its answer searches in the store below, because a defective store would not make
// these statements.
type Unjudged interface{ Unjudged() store.Store }

// withoutJudge is a store without its judge, if it has one.
func withoutJudge(s store.Store) store.Store {
	if u, ok := s.(Unjudged); ok {
		return u.Unjudged()
	}
	return s
}

// hideFindings makes a store that never finds anything for some causes.
func hideFindings(causes ...store.ReclaimCause) func(Process, store.Store) store.Store {
	return func(p Process, c store.Store) store.Store {
		return &searchStore{Store: c, find: func(_ context.Context, f store.Finding, found []execution.Execution) []execution.Execution {
			if slices.Contains(causes, f.Cause) {
				p.Acted("did not find executions that must be taken up again", rowIDs(found)...)
				return nil
			}
			return found
		}}
	}
}

// notHidden keeps the rows of workers whose present incarnation is not active.
func notHidden(ctx context.Context, p Process, c store.Store, found []execution.Execution) []execution.Execution {
	workers, err := c.Workers(ctx, nil)
	if err != nil {
		return nil
	}
	active := make(map[execution.WorkerID]bool)
	for _, w := range workers {
		active[w.ID] = w.Lifecycle == execution.Active || w.Lifecycle == execution.Starting
	}
	var kept []execution.Execution
	for i := range found {
		if active[found[i].Worker] {
			p.Acted("did not find the executions of an earlier process of the worker", found[i].ID)
			continue
		}
		kept = append(kept, found[i])
	}
	return kept
}

func runningOnDraining(ctx context.Context, c Database) []execution.Execution {
	workers, err := c.Workers(ctx, nil)
	if err != nil {
		return nil
	}
	draining := make(map[execution.Incarnation]bool)
	for _, w := range workers {
		draining[w.Incarnation] = w.Lifecycle == execution.Draining
	}
	var running []execution.Execution
	_ = c.Step(ctx, func(tx Tx) {
		for id := execution.ID(1); int(id) <= tx.Rows(); id++ {
			if row := tx.Row(id); row.Status == execution.Running && draining[row.Incarnation] {
				running = append(running, *row)
			}
		}
	})
	return running
}
