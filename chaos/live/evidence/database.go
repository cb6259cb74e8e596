// Package evidence collects the evidence by which a live run is judged. It reads facts at their source, not
// from the daemons' reports: rows from triggers in the database, messages from the broker's firehose, runs
// from the actions' shims. Order merges it into one history.
//
// The daemons' logs are kept for readers. Only one fact comes from them, because nothing else records it: that
// a guarded write matched no row. No invariant needs it, but some situations that a scenario may name do.
package evidence

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/history"
	"handoff/core/execution"
)

//go:embed schema.sql
var schema string

// Install creates the triggers in a database whose schema is up to date.
func Install(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting to install the evidence triggers: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, schema); err != nil {
		return fmt.Errorf("installing the evidence triggers: %w", err)
	}
	return nil
}

// Item is an event with the data by which Order places it.
type Item struct {
	// Wall is the time of the event on the machine's wall clock.
	Wall  time.Time
	Event history.Event
	// Transaction is the number of the event's database transaction; 0 for other sources.
	Transaction int64
	// Unreadable is the fault that made the body of a message unreadable; empty if it is readable.
	Unreadable string
}

// Database reads the evidence that the triggers wrote.
type Database struct {
	url   string
	start time.Time

	mu      sync.Mutex
	workers map[execution.WorkerID]string
}

// NewDatabase returns a reader that measures times from start.
func NewDatabase(url string, start time.Time) *Database {
	return &Database{url: url, start: start, workers: make(map[execution.WorkerID]string)}
}

// Worker returns the name of a registered worker; empty for others.
func (d *Database) Worker(id execution.WorkerID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.workers[id]
}

// WorkerID returns the id of the worker registered under a name; 0 for none.
func (d *Database) WorkerID(name string) execution.WorkerID {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, known := range d.workers {
		if known == name {
			return id
		}
	}
	return 0
}

// Workers returns the names of all registered workers.
func (d *Database) Workers() map[execution.WorkerID]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.workers)
}

const selectEvidence = `select id, tx, at, process, source, was, became from chaos_evidence`

// All reads all evidence, ordered by number.
func (d *Database) All(ctx context.Context) ([]Item, error) {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return nil, fmt.Errorf("connecting to read the evidence: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var all []Item
	err = d.readRows(ctx, conn, 0, func(_ int64, items []Item) { all = append(all, items...) })
	return all, err
}

func (d *Database) readRows(ctx context.Context, conn *pgx.Conn, after int64, take func(int64, []Item)) error {
	rows, err := conn.Query(ctx, selectEvidence+" where id > $1 order by id", after)
	if err != nil {
		return fmt.Errorf("reading the evidence: %w", err)
	}
	return d.scanRows(rows, take)
}

// scanRows passes each row's number and events to take.
func (d *Database) scanRows(rows pgx.Rows, take func(int64, []Item)) error {
	var id int64
	var r evidenceRow
	_, err := pgx.ForEachRow(rows, []any{&id, &r.tx, &r.at, &r.process, &r.source, &r.was, &r.became}, func() error {
		events, err := d.translateRow(&r)
		if err != nil {
			return fmt.Errorf("evidence %d, of %s: %w", id, r.source, err)
		}
		items := make([]Item, len(events))
		for i := range events {
			items[i] = Item{Wall: r.at, Event: events[i], Transaction: r.tx}
		}
		take(id, items)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the evidence: %w", err)
	}
	return nil
}

// pollEvery is the polling interval. It delays events that trigger a scenario's faults.
const pollEvery = 20 * time.Millisecond

// Follow passes events to take as they happen, until ctx ends. They are not always in order, because a
// transaction's rows become visible when it commits.
func (d *Database) Follow(ctx context.Context, take func(*history.Event)) {
	f := follower{seen: make(map[int64]time.Time)}
	for ctx.Err() == nil {
		conn, err := pgx.Connect(ctx, d.url)
		if err == nil {
			for ctx.Err() == nil && err == nil {
				err = d.readRows(ctx, conn, f.low, func(id int64, items []Item) {
					if f.addIfNew(id) {
						for i := range items {
							take(&items[i].Event)
						}
					}
				})
				f.forgetOldRows()
				pauseFor(ctx, pollEvery)
			}
			_ = conn.Close(context.WithoutCancel(ctx))
		}
		pauseFor(ctx, pollEvery)
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// follower records which rows it has passed on. Numbers are assigned before a transaction commits, so smaller
// ones may appear later. It waits a few seconds for them.
type follower struct {
	low  int64
	seen map[int64]time.Time
}

const commitsWithin = 5 * time.Second

func (f *follower) addIfNew(id int64) bool {
	if _, known := f.seen[id]; known {
		return false
	}
	f.seen[id] = time.Now()
	return true
}

func (f *follower) forgetOldRows() {
	for _, id := range slices.Sorted(maps.Keys(f.seen)) {
		if id != f.low+1 && time.Since(f.seen[id]) < commitsWithin {
			return
		}
		f.low = id
		delete(f.seen, id)
	}
}

// evidenceRow is one row of the evidence.
type evidenceRow struct {
	tx              int64
	at              time.Time
	process, source string
	was, became     []byte
}

func (d *Database) translateRow(r *evidenceRow) ([]history.Event, error) {
	var was *row
	if len(r.was) > 0 {
		was = new(row)
		if err := json.Unmarshal(r.was, was); err != nil {
			return nil, err
		}
	}
	var became row
	if err := json.Unmarshal(r.became, &became); err != nil {
		return nil, err
	}
	x := translation{start: d.start, at: r.at, process: r.process, was: was, row: &became}
	switch r.source {
	case "execution":
		return x.executionEvents()
	case "worker_incarnation":
		d.mu.Lock()
		d.workers[execution.WorkerID(became.Worker)] = became.Name
		d.mu.Unlock()
		return x.workerEvents()
	case "worker":
		return x.cordonEvents(), nil
	case "concurrency_slot":
		return x.slotEvents(), nil
	case "refused_result":
		return x.refusedResultEvents()
	case "observation":
		return x.observationEvents()
	case "dead_letter":
		return x.deadLetterEvents()
	}
	return nil, fmt.Errorf("unknown source")
}
