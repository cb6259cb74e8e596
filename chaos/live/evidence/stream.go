package evidence

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Stream makes a history of the evidence of a run that is too long to keep: window by window, and it forgets each
// window when it has handed it over. What it takes from the database it deletes there.
//
// A window ends at a moment before which everything is known. Of the database that is the begin of the oldest
// transaction that has written and not ended: what a transaction writes is dated by its triggers, so not before it
// began. Shims write a line right after they have read the clock; shimLag is left for that. A line that comes later
// still is put at the begin of the next window, and counted.
//
// Messages are left out: the broker's trace of everything costs more than the load itself. The order is that of Order.
//
// A Stream is for one task.
type Stream struct {
	database  *Database
	witnesses []*Witness
	start     time.Time
	conn      *pgx.Conn

	own, rows, runs []Item
	// taken are numbers of evidence that were read and are perhaps not deleted yet.
	taken map[int64]bool
	// claims are those of executions that may still have a process; old are those that nobody runs any more, oldest
	// first.
	claims map[execution.Key]history.Event
	old    []oldClaim
	step   uint64
	until  time.Time
	// fail is why every action fails that does.
	fail execution.Reason
	// Late counts events that came after their window; Behind is how far the last window ended behind the present.
	Late   int
	Behind time.Duration
	// Unread is the first line of a journal that could not be read, nil if all could.
	Unread error
}

// oldClaim is a claim that is over since a moment.
type oldClaim struct {
	key   execution.Key
	since time.Time
}

const (
	shimLag = 2 * time.Second
	// claimKept is how long after the end of a claim a process of it may still tell of itself.
	claimKept = 5 * time.Minute
	// streamBatch bounds what is read at once.
	streamBatch = 5000
	// streamWithin bounds one read of the database.
	streamWithin = 10 * time.Second
)

// NewStream returns a stream of a database's evidence and of witnesses, all of whose actions fail for the same reason.
// Times are counted from start, as theirs are.
func NewStream(database *Database, witnesses []*Witness, start time.Time, fail execution.Reason) *Stream {
	return &Stream{
		database: database, witnesses: witnesses, start: start, until: start, fail: fail,
		taken: make(map[int64]bool), claims: make(map[execution.Key]history.Event),
	}
}

// Close closes its connection.
func (s *Stream) Close() {
	if s.conn != nil {
		_ = s.conn.Close(context.Background())
	}
}

// Window takes what the harness did since the last call and everything else that is there, and returns the history up
// to the moment before which all of it is known. An error means that the database could not be asked, which may be a
// fault's work: what is there then waits for the next call. last says that nothing will come any more.
func (s *Stream) Window(ctx context.Context, own []Item, last bool) ([]history.Event, error) {
	s.own = append(s.own, own...)
	began := time.Now().Round(0)
	for _, w := range s.witnesses {
		items, err := w.Take()
		s.runs = append(s.runs, items...)
		if s.Unread == nil {
			s.Unread = err
		}
	}
	known, err := s.read(ctx)
	if err != nil {
		if s.conn != nil {
			_ = s.conn.Close(context.WithoutCancel(ctx))
			s.conn = nil
		}
		s.Behind = time.Since(s.until)
		return nil, err
	}
	if lag := began.Add(-shimLag); lag.Before(known) {
		known = lag
	}
	if last {
		known = time.Now().Add(time.Hour)
	}
	events := s.cut(known)
	s.Behind = time.Since(known)
	return events, nil
}

// read takes the evidence from the database, and returns the moment before which there is no more of it.
func (s *Stream) read(ctx context.Context) (known time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, streamWithin)
	defer cancel()
	if s.conn == nil {
		if s.conn, err = pgx.Connect(ctx, s.database.url); err != nil {
			s.conn = nil
			return known, fmt.Errorf("connecting to read the evidence: %w", err)
		}
	}
	const oldest = `select least(clock_timestamp(), min(xact_start)) from pg_stat_activity
		where datname = current_database() and backend_xid is not null and pid <> pg_backend_pid()`
	if err := s.conn.QueryRow(ctx, oldest).Scan(&known); err != nil {
		return known, fmt.Errorf("asking for the oldest transaction: %w", err)
	}
	for {
		n, err := s.batch(ctx)
		if err != nil {
			return known, err
		}
		if n < streamBatch {
			return known, nil
		}
	}
}

// batch takes one batch, and returns how many rows were there. A row that was read and perhaps not deleted, because the
// answer was lost, is not taken twice.
func (s *Stream) batch(ctx context.Context) (n int, err error) {
	rows, err := s.conn.Query(ctx, `select id, tx, at, process, source, was, became from chaos_evidence order by id limit $1`, streamBatch)
	if err != nil {
		return 0, fmt.Errorf("reading the evidence: %w", err)
	}
	var items []Item
	var ids []int64
	var id int64
	var r record
	_, err = pgx.ForEachRow(rows, []any{&id, &r.tx, &r.at, &r.process, &r.source, &r.was, &r.became}, func() error {
		n++
		if s.taken[id] {
			return nil
		}
		ids = append(ids, id)
		events, err := s.database.events(&r)
		if err != nil {
			return fmt.Errorf("evidence %d, of %s: %w", id, r.source, err)
		}
		for i := range events {
			items = append(items, Item{Wall: r.at, Event: events[i], Transaction: r.tx})
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reading the evidence: %w", err)
	}
	for _, id := range ids {
		s.taken[id] = true
	}
	s.rows = append(s.rows, items...)
	all := make([]int64, 0, len(s.taken))
	for id := range s.taken {
		all = append(all, id)
	}
	if _, err := s.conn.Exec(ctx, "delete from chaos_evidence where id = any($1)", all); err != nil {
		return 0, fmt.Errorf("deleting evidence that was read: %w", err)
	}
	clear(s.taken)
	return n, nil
}

// cut orders what happened before a moment, and forgets it.
func (s *Stream) cut(known time.Time) []history.Event {
	// All that one transaction wrote has the moment of its last trigger, and stays together.
	s.rows = together(s.rows)
	var window Sources
	window.Own, s.own = s.before(s.own, known)
	window.Database, s.rows = s.before(s.rows, known)
	window.Witness, s.runs = s.before(s.runs, known)
	window.FailReason = func(execution.ID) execution.Reason { return s.fail }
	incarnations(window.Database, s.claims)
	events := order(window, s.claims)
	for i := range events {
		events[i].Step += s.step
	}
	if n := len(events); n > 0 {
		s.step = events[n-1].Step
	}
	s.forget(window.Database, known)
	s.until = known
	return events
}

// before divides items at a moment. What should have been in an earlier window is put at the begin of this one.
func (s *Stream) before(items []Item, known time.Time) (now, later []Item) {
	for i := range items {
		item := items[i]
		if !item.Wall.Before(known) {
			later = append(later, item)
			continue
		}
		if item.Wall.Before(s.until) {
			s.Late++
			item.Event.At += s.until.Sub(item.Wall)
			item.Wall = s.until
		}
		now = append(now, item)
	}
	return now, later
}

// forget drops the claims that have been over for long.
func (s *Stream) forget(database []Item, now time.Time) {
	for i := range database {
		if e := &database[i].Event; e.Kind == history.Transition && (e.From == execution.Running || e.From == execution.Canceling) && e.To != execution.Canceling {
			s.old = append(s.old, oldClaim{execution.Key{ID: e.Execution, Epoch: e.OldEpoch}, database[i].Wall})
		}
	}
	n := 0
	for n < len(s.old) && now.Sub(s.old[n].since) > claimKept {
		delete(s.claims, s.old[n].key)
		n++
	}
	s.old = slices.Delete(s.old, 0, n)
}
