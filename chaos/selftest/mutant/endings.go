package mutant

import (
	"context"
	"slices"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants two kinds of defects: ends that the writing step also handles although more must follow,
// and hints of such ends that are misread.

func init() {
	registerMutants(
		Mutant{
			Name: "end-misses-children", Source: "D22", Expected: 12, Scenario: "workflow-under-lost-messages",
			About: "a result handles the end of its execution without checking for children that wait for it",
			Statements: replaceCompletions(completionStore{
				text: "handled an end for which children wait",
				of: func(tx Tx, row *execution.Execution) bool {
					return row.Action.Concurrency == 0 && tx.Children(row.ID) > 0
				},
				handle: func(tx Tx, id execution.ID) { tx.HandleChildless(id) },
			}),
		},
		Mutant{
			Name: "end-keeps-slot", Source: "D24", Expected: 7, Scenario: "concurrency-under-crashes",
			About: "a result handles the end of its execution without checking for the concurrency slot that it holds",
			Statements: replaceCompletions(completionStore{
				text: "handled the end of what holds a slot, and left it there",
				of: func(tx Tx, row *execution.Execution) bool {
					return row.Action.Concurrency > 0 && tx.Children(row.ID) == 0
				},
				handle: func(tx Tx, id execution.ID) { tx.HandleKeepingSlot(id, nil) },
			}),
		},
		Mutant{
			Name: "end-handled-again", Source: "D24", Expected: 7, Scenario: "activation-on-a-bad-road",
			About: "a result that is repeated, because its answer was lost, handles the end again",
			Statements: replaceCompletions(completionStore{
				text:   "handled an end again",
				again:  true,
				of:     func(_ Tx, row *execution.Execution) bool { return !row.OrchestratedAt.IsZero() },
				handle: func(tx Tx, id execution.ID) { tx.HandleTerminal(id, nil) },
			}),
		},
		Mutant{
			Name: "called-handled", Source: "D22", Expected: 26, Scenario: "dropped-status-messages",
			About: "a worker says of every end that it was handled together with the result, so that no executor handles the others",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &handledAnswerStore{c, p}
			},
		},
		Mutant{
			Name: "room-untold", Source: "D46", Expected: 26, Scenario: "long-runs-beside-a-queue",
			About: "an executor ignores ends that were handled with their results: executions that wait for the slot wait until an executor looks for another reason",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Executor() {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session {
					return &deliveryChangeSession{Session: s, change: func(d *broker.Delivery) {
						d.Envelope.Changes = slices.DeleteFunc(slices.Clone(d.Envelope.Changes), func(c broker.Change) bool {
							if c.Handled {
								p.Acted("ignored an end that freed a slot", c.Key.ID)
							}
							return c.Handled
						})
					}}
				}}
			},
		},
	)
}

// completionStore is a worker's store in which some completions are written by an unguarded statement, which
// handles the end as well.
type completionStore struct {
	store.Store
	p      Process
	client Database

	// text describes the act. of selects the rows, and handle handles their ends. The rows are first rows of
	// chains that the worker may complete. again selects rows that have completed already, and repeats the
	// result.
	text   string
	again  bool
	of     func(tx Tx, row *execution.Execution) bool
	handle func(tx Tx, id execution.ID)
}

func replaceCompletions(e completionStore) func(Process, Database) store.Store {
	return func(p Process, c Database) store.Store {
		if !p.Worker {
			return c
		}
		own := e
		own.Store, own.p, own.client = c, p, c
		return &own
	}
}

// Finish implements store.Worker. The core passes one result a call.
func (c *completionStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	var outcomes []store.Outcome
	if f := &fs[0]; f.To == execution.Completed {
		if err := c.client.Step(ctx, func(tx Tx) { outcomes = c.completeRun(tx, w, f) }); err != nil {
			return nil, err
		}
	}
	if outcomes != nil {
		return outcomes, nil
	}
	return c.Store.Finish(ctx, w, fs)
}

// completeRun returns nil if the true statement should be made.
func (c *completionStore) completeRun(tx Tx, w store.WorkerKey, f *store.Finish) []store.Outcome {
	row := tx.Row(f.Key.ID)
	if row == nil || row.Epoch != f.Key.Epoch || row.Incarnation != w.Incarnation || row.Original != 0 || !c.of(tx, row) {
		return nil
	}
	from := row.Status
	switch {
	case c.again && from == execution.Completed:
	case !c.again && from.Claimed():
		tx.Named(f.Key, w.Incarnation)
		tx.Move(row.ID, f.To, execution.Worker, f.Reason, func(e *execution.Execution) { e.Result = f.Result })
	default:
		return nil
	}
	c.p.Acted(c.text, row.ID)
	c.handle(tx, row.ID)
	return []store.Outcome{{Applied: !c.again, From: from, Row: *tx.Row(row.ID)}}
}

// handledAnswerStore is a worker's store whose answers show every end as handled.
type handledAnswerStore struct {
	store.Store
	p Process
}

// Finish implements store.Worker.
func (h *handledAnswerStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, err := h.Store.Finish(ctx, w, fs)
	for i := range outcomes {
		if row := &outcomes[i].Row; outcomes[i].Applied && row.OrchestratedAt.IsZero() {
			h.p.Acted("treated an end as handled that was not", row.ID)
			row.OrchestratedAt = row.Ended
		}
	}
	return outcomes, err
}
