package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// table is a database in which only the terminal handling and the sweeps work.
type table struct {
	store.Executor
	// rows holds the rows that Find returns for every cause, in order, until they are handled.
	rows    []execution.Execution
	handled map[execution.ID]int
	// children counts the waiting children of each row. settled lists the children that no longer wait.
	children map[execution.ID]int
	settled  map[execution.ID]int
	// bad maps rows that can't be handled to their errors. away reports whether the database does not answer
	// at all.
	bad  map[execution.ID]error
	away bool
	// offered holds the rows that Find returned for any cause. found counts them by cause.
	offered map[execution.ID]bool
	found   map[store.ReclaimCause]int
	freed   int
	old     int
	calls   int
	most    int
	before  func()
}

var errAway = fmt.Errorf("%w: no route to host", store.ErrUnavailable)

func (t *table) Find(_ context.Context, f store.Finding) (found []execution.Execution, err error) {
	if t.away {
		return nil, errAway
	}
	t.found[f.Cause] += 0 // counts the cause as asked for
	for i := range t.rows {
		row := &t.rows[i]
		open := t.handled[row.ID] == 0
		if f.Cause == store.Unsettled {
			open = !open && t.children[row.ID] > t.settled[row.ID]
		}
		if open && len(found) < f.Limit && !slices.Contains(f.Skip, row.ID) {
			found = append(found, *row)
			t.offered[row.ID] = true
			t.found[f.Cause]++
		}
	}
	return found, nil
}

func (t *table) Executions(_ context.Context, ids []execution.ID) (rows []execution.Execution, err error) {
	for i := range t.rows {
		if slices.Contains(ids, t.rows[i].ID) {
			rows = append(rows, t.rows[i])
		}
	}
	return rows, nil
}

func (t *table) Clock(context.Context) (time.Time, error) {
	if t.away {
		return time.Time{}, errAway
	}
	return time.Time{}, nil
}

// refusal returns the error of a call about these rows.
func (t *table) refusal(ids []execution.ID) error {
	t.calls++
	if t.before != nil {
		t.before()
	}
	if t.away {
		return errAway
	}
	for _, id := range ids {
		if err := t.bad[id]; err != nil {
			return err
		}
	}
	return nil
}

func (t *table) Orchestrate(_ context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	var ids []execution.ID
	for _, o := range os {
		ids = append(ids, o.ID)
	}
	if err := t.refusal(ids); err != nil {
		return nil, err
	}
	done := make([]store.Orchestrated, len(os))
	for i, id := range ids {
		t.handled[id]++
		done[i] = store.Orchestrated{Applied: true, Children: t.children[id] > 0}
	}
	return done, nil
}

func (t *table) SettleChildren(_ context.Context, chains []execution.ID, most int) ([]store.Settled, error) {
	if err := t.refusal(chains); err != nil {
		return nil, err
	}
	settled, moved := make([]store.Settled, len(chains)), 0
	for i, id := range chains {
		for t.settled[id] < t.children[id] && len(settled[i].Started) < most {
			t.settled[id]++
			settled[i].Started = append(settled[i].Started, execution.ID(1000*int(id)+t.settled[id]))
		}
		moved += len(settled[i].Started)
		settled[i].More = t.settled[id] < t.children[id]
	}
	t.most = max(t.most, moved)
	return settled, nil
}

func (t *table) Reclaim(_ context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	var ids []execution.ID
	for _, r := range rs {
		ids = append(ids, r.Key.ID)
	}
	if err := t.refusal(ids); err != nil {
		return nil, err
	}
	outcomes := make([]store.Outcome, len(rs))
	for i, id := range ids {
		t.handled[id]++
		outcomes[i].Applied, outcomes[i].Row.Status = true, execution.Abandoned
	}
	return outcomes, nil
}

func (t *table) FreeSlots(_ context.Context, limit int) ([]execution.ID, error) {
	t.calls++
	n := min(limit, t.freed)
	t.freed -= n
	return make([]execution.ID, n), nil
}

func (t *table) ForgetKeys(_ context.Context, _ time.Duration, limit int) (int, error) {
	t.calls++
	n := min(limit, t.old)
	t.old -= n
	return n, nil
}

func (t *table) PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error) {
	return t.ForgetKeys(ctx, age, limit)
}

// tasklessHost is a host that runs no other tasks.
type tasklessHost struct{ host.Host }

func (tasklessHost) Monotonic() time.Duration { return time.Hour }
func (tasklessHost) Now() time.Time           { return time.Time{} }
func (tasklessHost) Uint64N(uint64) uint64    { return 0 }
func (tasklessHost) NewSignal() host.Signal   { return new(bell) }
func (tasklessHost) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

type bell struct{ rung bool }

func (b *bell) Set() { b.rung = true }
func (b *bell) Wait(context.Context, time.Duration) (bool, error) {
	was := b.rung
	b.rung = false
	return was, nil
}

const batch = 10

// sweeping returns a service whose database has the given number of rows to handle.
func sweeping(rows int) (*Service, *table) {
	t := &table{
		handled: make(map[execution.ID]int), children: make(map[execution.ID]int), settled: make(map[execution.ID]int), bad: make(map[execution.ID]error), offered: make(map[execution.ID]bool), found: make(map[store.ReclaimCause]int),
	}
	for id := range rows {
		t.rows = append(t.rows, execution.Execution{ID: execution.ID(id + 1), Status: execution.Completed, Worker: 1, Epoch: 1})
	}
	c := config.Default(config.Hardened)
	c.Executor.BatchSize = batch
	s := New(Options{Host: tasklessHost{}, Store: t, Config: c, Log: slog.New(slog.DiscardHandler), Recorder: telemetry.Discard{}})
	return s, t
}

// missed returns the rows that were not handled exactly once.
func (t *table) missed() (ids []execution.ID) {
	for i := range t.rows {
		if t.handled[t.rows[i].ID] != 1 {
			ids = append(ids, t.rows[i].ID)
		}
	}
	return ids
}

var reasons = map[string]error{
	"it is wrong in itself": errors.New("violates a constraint"),
	"it takes too long":     fmt.Errorf("%w: statement timeout", store.ErrUnavailable),
}

func TestUnhandledEndDoesNotBlockOthers(t *testing.T) {
	for why, err := range reasons {
		t.Run(why, func(t *testing.T) {
			for name, pass := range map[string]func(s *Service, db *table) error{
				"reconciler": func(s *Service, _ *table) error { return s.reconcileTerminal(t.Context()) },
				"listener":   func(s *Service, db *table) error { return s.completion.handleHinted(idsOf(db.rows)) },
			} {
				s, db := sweeping(5*batch + 3)
				db.bad[1], db.bad[batch+4] = err, err
				if err := pass(s, db); err != nil {
					t.Errorf("%s: the pass failed: %v", name, err)
				}
				if got := db.missed(); !slices.Equal(got, []execution.ID{1, batch + 4}) {
					t.Errorf("%s: %v were not handled in the pass, want only the two that can't be", name, got)
				}
			}
		})
	}
}

func TestUnhandledBatchDoesNotBlockLaterEnds(t *testing.T) {
	s, db := sweeping(4 * batch)
	for id := range execution.ID(2 * batch) {
		db.bad[id+1] = reasons["it is wrong in itself"]
	}
	if err := s.reconcileTerminal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(db.missed()); got != 2*batch {
		t.Errorf("%d of %d were not handled, want only the %d that can't be", got, len(db.rows), 2*batch)
	}
}

func TestPassEndsWhenDatabaseIsAway(t *testing.T) {
	s, db := sweeping(5 * batch)
	db.before = func() { db.away = true }
	if err := s.completion.handleHinted(idsOf(db.rows)); !store.Retriable(err) {
		t.Errorf("the pass ended with %v, want the database's error", err)
	}
	if db.calls != 1 {
		t.Errorf("%d calls were made to a database that is away, want 1", db.calls)
	}
}

func TestBadChainDoesNotBlockOtherChildren(t *testing.T) {
	for why, err := range reasons {
		t.Run(why, func(t *testing.T) {
			s, db := sweeping(batch + 2)
			for i := range db.rows {
				db.children[db.rows[i].ID] = 1 + i
			}
			db.children[1] = 50 * batch
			if err := s.reconcileTerminal(t.Context()); err != nil {
				t.Fatal(err)
			}
			db.bad[2] = err
			if err := s.completion.settleChildren(t.Context(), store.Finding{Cause: store.Unsettled}); err != nil {
				t.Fatal(err)
			}
			for i := range db.rows {
				id := db.rows[i].ID
				if left := db.children[id] - db.settled[id]; left > 0 && id != 2 {
					t.Errorf("%d of %d children of execution %d were not settled in the pass", left, db.children[id], id)
				}
			}
			if db.most > batch {
				t.Errorf("one call settled %d children, at most %d may be", db.most, batch)
			}
		})
	}
}

func TestSweepContinuesUntilNothingIsLeft(t *testing.T) {
	const rows = 7*batch + 1
	ctx := t.Context()
	for name, pass := range map[string]func(s *Service) error{
		"claims": func(s *Service) error { return s.reconcileClaims(ctx) },
		"owners": func(s *Service) error {
			return s.sweepFinding(ctx, store.Finding{Cause: store.OwnerGone}, func(row *execution.Execution) store.Reclaim { return store.Reclaim{Key: row.Key()} })
		},
		"terminal executions": func(s *Service) error { return s.reconcileTerminal(ctx) },
	} {
		s, db := sweeping(rows)
		if err := pass(s); err != nil || len(db.missed()) > 0 {
			t.Errorf("%s: %v, %d of %d were left", name, err, len(db.missed()), rows)
		}
	}
	for name, pass := range map[string]func(s *Service) error{
		"slots":        func(s *Service) error { return s.reconcileSlots(ctx) },
		"keys":         func(s *Service) error { return s.reconcileKeys(ctx) },
		"dead letters": func(s *Service) error { return s.purgeDeadLetters(ctx) },
	} {
		s, db := sweeping(0)
		db.freed, db.old = rows, rows
		if err := pass(s); err != nil || db.freed > 0 && db.old > 0 {
			t.Errorf("%s: %v, %d slots and %d keys or letters were left of %d", name, err, db.freed, db.old, rows)
		}
	}
}

// A row that a pass skips, or only sends a hint about, stays in place; the pass continues with the next ones.
func TestSweepContinuesPastSkippedRows(t *testing.T) {
	s, db := sweeping(3*batch + 5)
	seen := make(map[execution.ID]int)
	if err := s.sweepFinding(t.Context(), store.Finding{Cause: store.Overrun}, func(row *execution.Execution) store.Reclaim {
		seen[row.ID]++
		if row.ID <= 2*batch {
			return store.Reclaim{}
		}
		return store.Reclaim{Key: row.Key()}
	}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != len(db.rows) || len(db.missed()) != 2*batch {
		t.Errorf("%d of %d rows were looked at, %d were left; only the %d that were passed over may be", len(seen), len(db.rows), len(db.missed()), 2*batch)
	}
	before := db.calls
	if err := s.drainFinding(t.Context(), store.Finding{Cause: store.Unanswered}, func(rows []execution.Execution) ([]execution.ID, error) {
		db.calls += len(rows)
		return idsOf(rows), nil
	}); err != nil || db.calls-before != 2*batch {
		t.Errorf("%v: %d rows got a hint, want %d, each once", err, db.calls-before, 2*batch)
	}
}

func TestStopEndsPassAfterItsBatch(t *testing.T) {
	for name, pass := range map[string]func(ctx context.Context, s *Service) error{
		"sweep":    func(ctx context.Context, s *Service) error { return s.reconcileClaims(ctx) },
		"terminal": func(ctx context.Context, s *Service) error { return s.reconcileTerminal(ctx) },
	} {
		s, db := sweeping(5 * batch)
		ctx, stop := context.WithCancel(t.Context())
		db.before = stop
		if err := pass(ctx, s); err != nil || len(db.handled) != batch {
			t.Errorf("%s: %v, %d rows were handled after a stop in the first batch, want %d", name, err, len(db.handled), batch)
		}
	}
	s, db := sweeping(0)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	db.old = 5 * batch
	if err := s.reconcileKeys(ctx); err != nil || db.old != 4*batch {
		t.Errorf("%v: %d keys were left after a stop, want %d", err, db.old, 4*batch)
	}
}

// Every cancellation that no worker has answered gets another hint, however many there are.
func TestUnansweredCancellationsGetHints(t *testing.T) {
	s, db := sweeping(4*batch + 1)
	if err := s.reconcileCancellations(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(db.offered) != len(db.rows) {
		t.Errorf("%d of %d were looked at", len(db.offered), len(db.rows))
	}
}

// One pass handles all rows of every cause, however many batches that takes. The passes are those that the
// executor runs. When a cause is added, this test fails until a pass asks for it.
func TestOnePassHandlesEveryCause(t *testing.T) {
	const rows = 3*batch + 1
	asked := make(map[store.ReclaimCause]bool)
	for name, pass := range map[string]func(s *Service, ctx context.Context) error{
		"timeout monitor":                  (*Service).monitorTimeouts,
		"reconciler of claims":             (*Service).reconcileClaims,
		"reconciler of dispatches":         (*Service).reconcileUnpublished,
		"reconciler of terminal ends":      (*Service).reconcileTerminal,
		"reconciler of cancellations":      (*Service).reconcileCancellations,
		"reconciler of owners, whose rows": (*Service).reconcileOwners,
		"reconciler of children": func(s *Service, ctx context.Context) error {
			table := s.store.(*table)
			for i := range table.rows {
				table.handled[table.rows[i].ID], table.children[table.rows[i].ID] = 1, 1
			}
			return s.completion.settleChildren(ctx, store.Finding{Cause: store.Unsettled})
		},
	} {
		s, db := sweeping(rows)
		// The database has answered for long enough that no pass waits for workers to return.
		s.outage = &outage{gap: 24 * time.Hour}
		if err := pass(s, t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for cause, found := range db.found {
			asked[cause] = true
			if found < rows && len(db.missed()) > 0 {
				t.Errorf("%s: %d of %d rows were found on the ground %v, and %d were left", name, found, rows, cause, len(db.missed()))
			}
		}
	}
	for cause := store.NoCause + 1; cause <= store.Unsettled; cause++ {
		switch cause {
		case store.DeadLettered, store.Undeliverable:
			// No pass asks for these: a dead or returned message names the row.
		case store.Unpublished:
			// These need a broker. The pass continues after the rows that stay, as it does for Unanswered.
		default:
			if !asked[cause] {
				t.Errorf("no pass has asked for rows on the ground %v", cause)
			}
		}
	}
}
