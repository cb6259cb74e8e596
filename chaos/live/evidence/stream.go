package evidence

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Stream makes a history, window by window, from the evidence of a run that is too long to keep. It discards
// each window after returning it, and deletes from the database the rows that it has read.
//
// A window ends at a time before which all events are known. For the database, that is the start of the
// oldest open transaction that has written: triggers date its rows, so no row is older than its start. Shims
// write a line directly after reading the clock; shimLag allows for that. A line that arrives even later is
// put at the beginning of the next window, and counted.
//
// Messages are left out, because the broker's trace costs more than the load itself. Events are ordered as by
// Order.
//
// A Stream is not safe for concurrent use.
type Stream struct {
	database  *Database
	witnesses []*Witness
	start     time.Time
	conn      *pgx.Conn

	own, rows, runs []Item
	// taken holds the numbers of rows that were read but may not be deleted yet.
	taken map[int64]bool
	// claims holds the claims of executions that may still have a process. old holds claims that have ended,
	// the oldest first.
	claims map[execution.Key]history.Event
	old    []oldClaim
	step   uint64
	until  time.Time
	// failure returns why an action failed; see Sources.Failure.
	failure func(execution.ID, int) (execution.Reason, int)
	// Late counts events that came after their window. Behind is the age of the last window's end.
	Late   int
	Behind time.Duration
	// Unread is the error of the first unreadable line of a journal; nil for none.
	Unread error
}

// oldClaim is an ended claim, with the time of its end.
type oldClaim struct {
	key   execution.Key
	since time.Time
}

const (
	shimLag = 2 * time.Second
	// claimKept is how long after the end of a claim its process may still report.
	claimKept = 5 * time.Minute
	// streamBatch limits the number of rows read at once.
	streamBatch = 5000
	// streamWithin limits one read of the database.
	streamWithin = 10 * time.Second
)

// NewStream returns a stream of the evidence from a database and from witnesses. failure is Sources.Failure.
// Times count from start; the database and the witnesses must use the same start.
func NewStream(database *Database, witnesses []*Witness, start time.Time, failure func(execution.ID, int) (execution.Reason, int)) *Stream {
	return &Stream{
		database: database, witnesses: witnesses, start: start, until: start, failure: failure,
		taken: make(map[int64]bool), claims: make(map[execution.Key]history.Event),
	}
}

// Close closes the connection to the database.
func (s *Stream) Close() {
	if s.conn != nil {
		_ = s.conn.Close(context.Background())
	}
}

// Window takes the harness's own events since the last call and all other available evidence. It returns the
// history up to the moment before which everything is known. An error means that reading the database failed,
// perhaps because of a fault: its evidence then waits for the next call. last reports whether this is the
// last call.
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
	known, err := s.readEvidence(ctx)
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
	events := s.cutWindow(known)
	s.Behind = time.Since(known)
	return events, nil
}

// readEvidence takes the evidence from the database, and returns the time before which all of it is known.
func (s *Stream) readEvidence(ctx context.Context) (known time.Time, err error) {
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
		return known, fmt.Errorf("querying the oldest transaction: %w", err)
	}
	for {
		n, err := s.readBatch(ctx)
		if err != nil {
			return known, err
		}
		if n < streamBatch {
			return known, nil
		}
	}
}

// readBatch takes one batch, and returns its number of rows. It skips rows that it has read before: the
// answer to their deletion may have been lost.
func (s *Stream) readBatch(ctx context.Context) (n int, err error) {
	rows, err := s.conn.Query(ctx, selectEvidence+" order by id limit $1", streamBatch)
	if err != nil {
		return 0, fmt.Errorf("reading the evidence: %w", err)
	}
	var items []Item
	var ids []int64
	err = s.database.scanRows(rows, func(id int64, of []Item) {
		n++
		if !s.taken[id] {
			ids, items = append(ids, id), append(items, of...)
		}
	})
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		s.taken[id] = true
	}
	s.rows = append(s.rows, items...)
	all := slices.Collect(maps.Keys(s.taken))
	if _, err := s.conn.Exec(ctx, "delete from chaos_evidence where id = any($1)", all); err != nil {
		return 0, fmt.Errorf("deleting evidence that was read: %w", err)
	}
	clear(s.taken)
	return n, nil
}

// cutWindow removes the events before a given time, and returns them in order.
func (s *Stream) cutWindow(known time.Time) []history.Event {
	// Everything that one transaction wrote has the time of its last trigger, and stays together.
	s.rows = groupTransactions(s.rows)
	var window Sources
	window.Own, s.own = s.splitItems(s.own, known)
	window.Database, s.rows = s.splitItems(s.rows, known)
	window.Witness, s.runs = s.splitItems(s.runs, known)
	window.Failure = s.failure
	collectClaims(window.Database, s.claims)
	events := orderWithClaims(window, s.claims)
	for i := range events {
		events[i].Step += s.step
	}
	if n := len(events); n > 0 {
		s.step = events[n-1].Step
	}
	s.forgetClaims(window.Database, known)
	s.until = known
	return events
}

// splitItems splits items at a given time. An item of an earlier window is put at the beginning of this one.
func (s *Stream) splitItems(items []Item, known time.Time) (now, later []Item) {
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

// forgetClaims drops claims that ended more than claimKept ago.
func (s *Stream) forgetClaims(database []Item, now time.Time) {
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
