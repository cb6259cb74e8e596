package simstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

// Client is one process's connection pool to the database.
type Client struct {
	db *Database
	p  *kernel.Process
}

var _ store.Store = (*Client)(nil)

// Client returns the client of a process.
func (db *Database) Client(p *kernel.Process) *Client { return &Client{db, p} }

// Step makes one atomic step with raw access, over the network like any statement.
func (c *Client) Step(ctx context.Context, f func(tx *Tx)) error {
	return c.call(ctx, func(s *step) { f(&Tx{*s}) })
}

// call makes one step that writes.
func (c *Client) call(ctx context.Context, f func(s *step)) error {
	var refused error
	err := c.read(ctx, func(s *step) {
		if refused = c.db.refusal(s.process); refused == nil {
			f(s)
		}
	})
	if err == nil && refused != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, refused)
	}
	return err
}

// read makes one step that only reads, which a database that refuses writes still answers.
func (c *Client) read(ctx context.Context, f func(s *step)) error {
	if c.p == nil {
		f(&step{db: c.db, now: c.db.now()})
		return nil
	}
	err := c.db.net.Call(ctx, c.p, Server, func() {
		f(&step{db: c.db, process: c.p.Name(), now: c.db.now()})
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, simnet.ErrRefused):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
}

// ask makes a step that writes and hands its answer on only if the reply came: a step that is applied
// late must not change what its caller has given up on. Items that were wrong in themselves are an error
// beside the answer.
func ask[T any](ctx context.Context, c *Client, f func(s *step) T) (T, error) {
	return answered(ctx, c.call, f)
}

// look is ask for a step that only reads.
func look[T any](ctx context.Context, c *Client, f func(s *step) T) (T, error) {
	return answered(ctx, c.read, f)
}

func answered[T any](ctx context.Context, through func(context.Context, func(*step)) error, f func(s *step) T) (T, error) {
	var answer, none T
	var bad error
	err := through(ctx, func(s *step) {
		answer = f(s)
		bad = errors.Join(s.bad...)
	})
	if err != nil {
		return none, err
	}
	return answer, bad
}

// each makes a call that does one thing for each of its items.
func each[Q, R any](ctx context.Context, c *Client, items []Q, do func(s *step, item *Q) R) ([]R, error) {
	return ask(ctx, c, func(s *step) []R {
		var results []R
		for i := range items {
			results = append(results, do(s, &items[i]))
		}
		return results
	})
}

// do makes a call that answers nothing.
func (c *Client) do(ctx context.Context, f func(s *step)) error {
	_, err := ask(ctx, c, func(s *step) struct{} {
		f(s)
		return struct{}{}
	})
	return err
}

// Executions implements store.Reader.
func (c *Client) Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error) {
	return look(ctx, c, func(s *step) (found []execution.Execution) {
		for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
			if r := s.db.row(id); r != nil {
				found = append(found, r.Execution)
			}
		}
		return found
	})
}

// PutActions implements store.Client.
func (c *Client) PutActions(ctx context.Context, actions []execution.Action) error {
	return c.do(ctx, func(s *step) {
		for _, a := range actions {
			switch {
			case s.garbled(a.Ref, a.Runtime, a.Entrypoint):
			case a.Timeout < 0 || a.DispatchTimeout < 0 || a.MaxRetries < 0 || a.Concurrency < 0:
				s.wrong("action %s has a negative timeout, number of retries or limit of concurrency", a.Ref)
			default:
				s.putAction(a)
			}
		}
	})
}

func (s *step) putAction(a execution.Action) {
	db := s.db
	db.actions[a.Ref] = a
	of := db.slots[a.Ref]
	if of == nil {
		of = new(slots)
		db.slots[a.Ref] = of
		db.limits = append(db.limits, a.Ref)
	}
	of.resize(a.Concurrency)
	db.emit(history.Event{Kind: history.ActionDefined, Process: s.process, Action: a.Ref, Count: int64(a.Concurrency)})
}

// Create implements store.Client.
func (c *Client) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	return each(ctx, c, items, (*step).create)
}

func (s *step) create(item *store.NewExecution) store.Created {
	db := s.db
	if s.garbled(item.ActionRef, string(item.Parameters), item.IdempotencyKey) {
		return store.Created{}
	}
	if id, used := db.byKey[item.IdempotencyKey]; used && item.IdempotencyKey != "" {
		return store.Created{ID: id, Existed: true}
	}
	action, known := db.actions[item.ActionRef]
	if !known {
		return store.Created{UnknownAction: true}
	}
	var parent execution.ID
	if item.Parent != 0 {
		r := db.row(item.Parent)
		if r == nil {
			return store.Created{UnknownParent: true}
		}
		parent = r.Chain()
	}
	if item.Pinned != 0 && db.WorkerName(item.Pinned) == "" {
		return store.Created{UnknownWorker: true}
	}
	if s.malformed(item.Parameters) {
		return store.Created{}
	}
	id := s.insert(execution.Execution{
		Action: action, Parameters: item.Parameters, IdempotencyKey: item.IdempotencyKey, Parent: parent, AwaitsParent: parent != 0,
		Pinned: item.Pinned,
	}, execution.API)
	if item.IdempotencyKey != "" {
		db.byKey[item.IdempotencyKey] = id
		db.keyed = append(db.keyed, id)
	}
	if parent != 0 {
		s.adopt(id, parent)
	}
	return store.Created{ID: id}
}

// insert adds a requested row.
func (s *step) insert(e execution.Execution, by execution.Part) execution.ID {
	db := s.db
	e.ID = execution.ID(len(db.rows) + 1)
	e.Status = execution.Requested
	e.Created = s.now
	db.rows = append(db.rows, row{Execution: e})
	r := &db.rows[e.ID-1]
	db.requested++
	if !r.AwaitsParent {
		db.request(r, s.now)
	}
	created := history.Event{
		Kind: history.Created, Process: s.process, Execution: r.ID, Chain: r.Chain(), To: execution.Requested, By: by,
		Count: int64(r.RetryCount), Reason: r.RetryReason, Due: db.sinceStart(r.NotBefore), Limit: int64(r.Action.MaxRetries),
		Action: r.Action.Ref, Key: r.IdempotencyKey, Worker: r.Pinned, Text: r.Action.Runtime,
	}
	if r.AwaitsParent {
		created.Related = r.Parent
	}
	db.emit(created)
	return r.ID
}

// since is how long ago t was; negative if it lies ahead, and zero for no time.
func since(now, t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return now.Sub(t)
}
