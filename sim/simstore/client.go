package simstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

// Client is one process's client of the database.
type Client struct {
	db   *Database
	p    *kernel.Process // nil if the client's steps are applied immediately
	path *simnet.Path
	made *uint64 // number of statements made by all processes of that name
	// work and beats are the pools; beats is work if heartbeats have no connections of their own.
	work, beats *pool
	// looks, finds and dispatches hold reusable questions for the calls that executors repeat.
	looks      questions[[]store.WorkerRow, []store.WorkerRow]
	finds      questions[store.Finding, []execution.Execution]
	dispatches questions[store.DueDispatch, store.DueDispatched]
	// keepsDemoted reports whether connections that refuse writes are kept, for a mutant.
	keepsDemoted bool
}

var _ store.Store = (*Client)(nil)

// Client returns a new client of a process, with the default pools until it is configured.
func (da *Database) Client(p *kernel.Process) *Client {
	c := &Client{db: da, p: p, path: da.net.Path(p, Server), made: new(uint64)}
	if known := da.made[p.Name()]; known != nil {
		c.made = known
	}
	da.made[p.Name()] = c.made
	c.Configure(config.Default(config.Hardened).Database)
	return c
}

// Configure gives the client empty pools of the configured sizes.
func (c *Client) Configure(d config.Database) {
	c.work = c.newPool(d.Connections, d.PingTimeout)
	c.beats = c.work
	if d.HeartbeatConnections > 0 {
		c.beats = c.newPool(d.HeartbeatConnections, d.PingTimeout)
	}
}

// Step makes one atomic step with raw access to the rows, over the network like any statement.
func (c *Client) Step(ctx context.Context, f func(tx *Tx)) error {
	return c.runStep(ctx, "Step", func(s *step) { f(&Tx{*s}) })
}

// statement is one step in progress: its effect at the server, and its answer. It is one object
// because a sweep makes millions of them.
type statement[T any] struct {
	c      *Client
	call   string // the name of the method
	do     func(s *step) T
	writes bool
	// trips is the number of the call's round trips before the round trip that applies it. on is its pool.
	trips int
	on    *pool
	// beat reports whether the statement is a heartbeat, which is resent over another connection if its own
	// connection turns out to be silent.
	beat bool
	over *connection // nil if the statement is applied immediately
	step step

	answer       T
	bad, refused error
}

// Arrive handles the statement's arrival at the server, which applies it.
func (s *statement[T]) Arrive() {
	db := s.c.db
	db.steps, db.before, db.after = true, db.k.Strand(), db.k.Strand()
	s.applyStep()
	db.steps = false
	db.k.SetStrand(db.after)
}

func (s *statement[T]) applyStep() {
	db := s.c.db
	s.step = step{db: db, now: db.clockNow()}
	if s.c.p != nil {
		s.step.process = s.c.p.Name()
	}
	if s.refused = db.faultError(s.step.process, s.over, s.writes); s.refused != nil {
		return
	}
	if len(db.tables) > 0 && s.c.p != nil {
		if s.refused = db.refuseIfTableLocked(s.step.process, s.call); s.refused != nil {
			return
		}
	}
	s.answer = s.do(&s.step)
	if len(s.step.itemErrors) > 0 {
		s.bad = errors.Join(s.step.itemErrors...)
	}
	if waits := len(s.step.lockErrors); waits > 0 && waits == s.step.asked {
		s.bad = errors.Join(s.step.lockErrors...)
	} else if waits > 0 && s.bad == nil {
		// The caller can't tell which of the other items were done, except those with an answer.
		s.bad = fmt.Errorf("%w: a part of the call: %v", store.ErrUnknownOutcome, errors.Join(s.step.lockErrors...))
	}
}

// writeStep makes a step that writes, and returns its answer only if the reply came. A step that is applied
// late must not change results that its caller has given up on. Invalid items give an error alongside the
// answer.
func writeStep[T any](ctx context.Context, c *Client, call string, f func(s *step) T) (T, error) {
	return newStatement(c, call, true, 0, f).makeCall(ctx)
}

// runTransaction is like writeStep, for a call that is a transaction of several statements, each a round
// trip, including begin and commit. The last one applies it.
func runTransaction[T any](ctx context.Context, c *Client, call string, statements int, f func(s *step) T) (T, error) {
	return newStatement(c, call, true, statements-1, f).makeCall(ctx)
}

// readStep is like writeStep, for a step that only reads, which a database that refuses writes still answers.
func readStep[T any](ctx context.Context, c *Client, call string, f func(s *step) T) (T, error) {
	return newStatement(c, call, false, 0, f).makeCall(ctx)
}

// questions are a method's answered questions, whose memory later calls reuse. A question whose answer did
// not come may still arrive, so it is not among them.
type questions[Q, T any] []*question[Q, T]

type question[Q, T any] struct {
	of Q
	do func(s *step) T
}

// askReusing makes a call like writeStep and readStep, with a question whose memory later calls reuse. If of
// is nil, do gets the question of an earlier call.
func (qu *questions[Q, T]) askReusing(ctx context.Context, c *Client, call string, writes bool, of *Q, do func(s *step, of *Q) T) (T, error) {
	var q *question[Q, T]
	if last := len(*qu) - 1; last >= 0 {
		q, *qu = (*qu)[last], (*qu)[:last]
	} else {
		q = new(question[Q, T])
		q.do = func(s *step) T { return do(s, &q.of) }
	}
	if of != nil {
		q.of = *of
	}
	answer, err := newStatement(c, call, writes, 0, q.do).makeCall(ctx)
	if err == nil {
		*qu = append(*qu, q)
	}
	return answer, err
}

func (s *statement[T]) makeCall(ctx context.Context) (T, error) {
	answer, err := s.callServer(ctx)
	if told := s.c.db.onStatement; told != nil && s.c.p != nil {
		told(ctx, s.call, err)
	}
	if err == nil {
		// The reply came, so the statement is no longer in transit. Without a reply, it may still arrive
		// later.
		list := spareStatements[T](s.c.db)
		*s = statement[T]{}
		*list = append(*list, s)
	}
	return answer, err
}

// newStatement returns a statement that was not sent yet, reusing the memory of an answered statement if
// there is any.
func newStatement[T any](c *Client, call string, writes bool, trips int, do func(s *step) T) *statement[T] {
	var q *statement[T]
	if list := spareStatements[T](c.db); len(*list) > 0 {
		last := len(*list) - 1
		q, *list = (*list)[last], (*list)[:last]
	} else {
		q = new(statement[T])
	}
	q.c, q.call, q.do, q.writes, q.trips, q.on = c, call, do, writes, trips, c.work
	return q
}

// spareStatements returns the list of answered statements with that type of answer. There are few types.
func spareStatements[T any](db *Database) *[]*statement[T] {
	for _, list := range db.spare {
		if list, ok := list.(*[]*statement[T]); ok {
			return list
		}
	}
	list := new([]*statement[T])
	db.spare = append(db.spare, list)
	return list
}

func (s *statement[T]) callServer(ctx context.Context) (T, error) {
	var none T
	var err error
	*s.c.made++
	if s.c.p == nil {
		s.Arrive()
	} else {
		var unsent error
		if err, unsent = s.sendOnce(ctx); err == nil && unsent == nil && errors.Is(s.refused, errReadOnly) && s.on.moveToPrimary(ctx, s.over) {
			err, unsent = s.sendOnce(ctx)
		}
		if unsent != nil {
			return none, failure{store.ErrUnavailable, unsent}
		}
	}
	switch {
	case err == nil && s.refused != nil:
		return none, s.refused
	case err == nil && s.step.refused != nil && s.bad == nil:
		s.c.emitGone(&s.step)
		return none, s.step.refused
	case err == nil:
		return s.answer, s.bad
	case errors.Is(err, simnet.ErrRefused):
		return none, failure{store.ErrUnavailable, err}
	default:
		return none, failure{store.ErrUnknownOutcome, err}
	}
}

// failure is the error of a call that got no answer. Its text is built only on demand: most are never
// printed.
type failure struct{ kind, cause error }

// Error returns both texts.
func (f failure) Error() string { return f.kind.Error() + ": " + f.cause.Error() }

// Unwrap returns both errors.
func (f failure) Unwrap() []error { return []error{f.kind, f.cause} }

// sendOnce makes the call over one connection of the pool. unsent is the reason why there was none.
func (s *statement[T]) sendOnce(ctx context.Context) (err, unsent error) {
	conn, unsent := s.on.acquireConnection(ctx, !s.beat)
	if unsent != nil && s.on != s.c.work && ctx.Err() == nil {
		s.on = s.c.work
		conn, unsent = s.on.acquireConnection(ctx, false)
	}
	if unsent != nil {
		return nil, unsent
	}
	s.over = conn
	err = s.c.path.Call(ctx, s, conn.number, s.trips+conn.setupTrips())
	s.on.releaseConnection(conn, err)
	return err, nil
}

// KeepDemoted makes the client keep connections whose server refuses writes: a mutant.
func (c *Client) KeepDemoted() { c.keepsDemoted = true }

// emitGone writes the event that a process has learnt that its incarnation is over.
func (c *Client) emitGone(s *step) {
	if s.gone.Incarnation != 0 {
		c.db.emit(&history.Event{
			Kind: history.ToldGone, Process: s.process, Worker: s.gone.ID, Incarnation: s.gone.Incarnation, Count: oneIf(errors.Is(s.refused, store.ErrSuperseded)),
		})
	}
}

// callEach makes a call that does the same for each of its items.
func callEach[Q, R any](ctx context.Context, c *Client, call string, items []Q, do func(s *step, item *Q) R) ([]R, error) {
	return transactEach(ctx, c, call, 1, items, do)
}

// transactEach is like callEach, in a transaction of several statements.
func transactEach[Q, R any](ctx context.Context, c *Client, call string, statements int, items []Q, do func(s *step, item *Q) R) ([]R, error) {
	c.reportIfEmpty(call, len(items))
	return orOneByOne(items, func(items []Q) ([]R, error) {
		return runTransaction(ctx, c, call, statements, func(s *step) []R {
			s.asked = len(items)
			var results []R
			if len(items) > 0 {
				results = make([]R, 0, len(items))
			}
			for i := range items {
				results = append(results, do(s, &items[i]))
			}
			return results
		})
	})
}

// orOneByOne makes one call for all items. If the database refuses the statement itself, it makes a call for
// each item, as the adapter of PostgreSQL does. The answers of the other items come with the error. A
// transient error, or the end of the caller's lease, ends the call. Its outcome is then unknown, unless no
// item was answered before.
func orOneByOne[Q, R any](items []Q, call func(items []Q) ([]R, error)) ([]R, error) {
	results, err := call(items)
	if wrong := (statementError{}); len(items) < 2 || !errors.As(err, &wrong) {
		return results, err
	}
	results = make([]R, len(items))
	var bad []error
	for i := range items {
		one, err := call(items[i : i+1])
		over := errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrSuperseded) || errors.Is(err, store.ErrLeaseOver)
		switch {
		case (over || errors.Is(err, store.ErrUnavailable)) && len(bad) == i:
			return nil, err
		case over || store.Retriable(err):
			return nil, fmt.Errorf("%w: a part of the call: %v", store.ErrUnknownOutcome, err)
		case err != nil:
			bad = append(bad, err)
		}
		if len(one) > 0 {
			results[i] = one[0]
		}
	}
	return results, errors.Join(bad...)
}

// reportIfEmpty reports a call with no items, which can't do anything.
func (c *Client) reportIfEmpty(call string, items int) {
	if items == 0 && c.p != nil && c.db.onEmptyCall != nil {
		c.db.onEmptyCall(call)
	}
}

// runStep makes a call without an answer.
func (c *Client) runStep(ctx context.Context, call string, f func(s *step)) error {
	_, err := writeStep(ctx, c, call, func(s *step) struct{} {
		f(s)
		return struct{}{}
	})
	return err
}

// Executions implements store.Reader.
func (c *Client) Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error) {
	c.reportIfEmpty("Executions", len(ids))
	var unreadable error
	found, err := readStep(ctx, c, "Executions", func(s *step) (found []execution.Execution) {
		wanted := slices.Clone(ids)
		slices.Sort(wanted)
		for i, id := range slices.Compact(wanted) {
			r := s.db.row(id)
			if r == nil {
				continue
			}
			if err := s.db.unreadableError(id); err != nil {
				unreadable = errors.Join(unreadable, err)
				continue
			}
			if found == nil {
				found = make([]execution.Execution, 0, len(wanted)-i)
			}
			found = append(found, r.Execution)
		}
		return found
	})
	return found, cmp.Or(err, unreadable)
}

// Actions implements store.Client.
func (c *Client) Actions(ctx context.Context, q store.ActionQuery) ([]execution.Action, error) {
	return readStep(ctx, c, "Actions", func(s *step) (page []execution.Action) {
		for _, ref := range slices.Sorted(maps.Keys(s.db.actions)) {
			if q.Matches(ref) && len(page) < q.Limit {
				page = append(page, s.db.actions[ref])
			}
		}
		return page
	})
}

// PutActions implements store.Client.
func (c *Client) PutActions(ctx context.Context, actions []execution.Action) error {
	c.reportIfEmpty("PutActions", len(actions))
	return c.runStep(ctx, "PutActions", func(s *step) {
		for _, a := range actions {
			switch {
			case s.refuseInvalidText(a.Ref, a.Runtime, a.Entrypoint, a.PutBy):
			case a.Timeout < 0 || a.DispatchTimeout < 0 || a.MaxRetries < 0 || a.Concurrency < 0:
				s.addInvalid("action %s has a negative timeout, number of retries or limit of concurrency", a.Ref)
			default:
				// Keep the exit codes as a list, as the database does.
				a.RetriedExitCodes = execution.NewExitCodes(a.RetriedExitCodes.List()...)
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
	db.emit(&history.Event{Kind: history.ActionDefined, Process: s.process, Action: a.Ref, Count: int64(a.Concurrency)})
}

// Create implements store.Client.
func (c *Client) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	if slices.ContainsFunc(items, func(i store.NewExecution) bool { return i.Parent != 0 }) {
		return transactEach(ctx, c, "Create", tripsOfChildren, items, (*step).createExecution)
	}
	return callEach(ctx, c, "Create", items, (*step).createExecution)
}

func (s *step) createExecution(item *store.NewExecution) store.Created {
	db := s.db
	var parent execution.ID
	if item.Parent != 0 {
		r := db.row(item.Parent)
		if r == nil {
			return store.Created{UnknownParent: true}
		}
		parent = r.Chain()
	}
	if s.refuseInvalidText(item.ActionRef, string(item.Parameters), item.IdempotencyKey, item.Actor) {
		return store.Created{}
	}
	old, used := db.byKey[item.IdempotencyKey]
	if used = used && item.IdempotencyKey != ""; used && !s.isOld(db.row(old).Created, execution.KeyLifetime) { //nolint:forbidigo // an argument of the real statement
		return store.Created{ID: old, Existed: true}
	}
	action, known := db.actions[item.ActionRef]
	if !known {
		return store.Created{UnknownAction: true}
	}
	if item.Pinned != 0 && db.WorkerName(item.Pinned) == "" {
		return store.Created{UnknownWorker: true}
	}
	if s.refuseInvalidJSON(item.Parameters) {
		return store.Created{}
	}
	if l := item.Limits; l.Timeout < 0 || l.DispatchTimeout < 0 || l.OwnRetries && l.MaxRetries < 0 {
		s.addInvalid("an execution of %s has a negative timeout or number of retries", item.ActionRef)
		return store.Created{}
	}
	if used {
		s.forgetKey(db.row(old))
	}
	own := oracle.Limited(action, item.Limits)
	own.PutBy = ""
	id := s.insertRow(execution.Execution{
		Action: own, Limits: execution.LimitsNamed(item.Limits.Names(), own), Parameters: item.Parameters, IdempotencyKey: item.IdempotencyKey, Parent: parent, AwaitsParent: parent != 0,
		Pinned: item.Pinned, SubmittedBy: item.Actor,
	}, execution.API)
	if item.IdempotencyKey != "" {
		db.byKey[item.IdempotencyKey] = id
		db.rememberKey(id)
	}
	return store.Created{ID: id, Skipped: parent != 0 && s.adoptChild(id, parent)}
}

// insertRow adds a requested row.
func (s *step) insertRow(e execution.Execution, by execution.Part) execution.ID {
	db := s.db
	e.Status = execution.Requested
	e.Created = s.now
	r := db.rows.addRow(e)
	db.requested++
	if r.Parent != 0 {
		db.progeny[r.Parent]++
	}
	if !r.AwaitsParent {
		db.enqueueRow(r, s.now)
	}
	created := history.Event{
		Kind: history.Created, Process: s.process, Execution: r.ID, Chain: r.Chain(), To: execution.Requested, By: by,
		Count: int64(r.RetryCount), Reason: r.RetryReason, Due: db.sinceStart(r.NotBefore), Limit: int64(r.Action.MaxRetries),
		Action: r.Action.Ref, Key: r.IdempotencyKey, Worker: r.Pinned, Text: r.Action.Runtime,
		RunTimeout: oracle.RunTimeout(&r.Action), DispatchTimeout: r.Action.DispatchTimeout,
	}
	if r.AwaitsParent {
		created.Related = r.Parent
	}
	db.emit(&created)
	return r.ID
}

// elapsedSince returns the time since t; it is negative if t is in the future, and zero if t is the zero
// time.
func elapsedSince(now, t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return now.Sub(t)
}
