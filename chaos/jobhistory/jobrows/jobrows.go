// Package jobrows reads a public history from the rows of a query on people's own tables.
package jobrows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/jobhistory"
)

// rowsAtOnce is how many rows are fetched at a time.
const rowsAtOnce = 1000

// fetchTimeout is how long the database may take for one fetch.
const fetchTimeout = 5 * time.Minute

// Open runs a query whose columns are the fields of a line. It reads in one read-only transaction and through a cursor,
// so neither side holds all rows; the query must order them by at. name is the query's name in messages. close ends the
// transaction.
func Open(ctx context.Context, url, name, query string) (r *jobhistory.Reader, closeRows func(), err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the database: %w", err)
	}
	rows := &rowReader{}
	end := func() {
		rows.close()
		_ = conn.Close(context.WithoutCancel(ctx))
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, nil, fmt.Errorf("beginning to read: %w", err)
	}
	for _, statement := range []string{
		fmt.Sprintf("set local statement_timeout = %d", fetchTimeout.Milliseconds()),
		"declare handoff_rows no scroll cursor for " + strings.TrimRight(query, "; \t\r\n"),
	} {
		// The extended protocol takes one statement: a second one could leave the read-only transaction.
		answer, err := tx.Query(ctx, statement, pgx.QueryExecModeExec)
		if err == nil {
			answer.Close()
			err = answer.Err()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	rows.fetch = func() (pgx.Rows, error) {
		return tx.Query(ctx, fmt.Sprintf("fetch forward %d from handoff_rows", rowsAtOnce))
	}
	return jobhistory.FromRows(name, rows.next), end, nil
}

// rowReader reads the rows of a cursor.
type rowReader struct {
	fetch   func() (pgx.Rows, error)
	rows    pgx.Rows
	columns []string
	got     int
}

func (r *rowReader) close() {
	if r.rows != nil {
		r.rows.Close()
	}
}

// next reads the next row into the fields of a line.
func (r *rowReader) next(f *jobhistory.Fields) error {
	for r.rows == nil || !r.rows.Next() {
		if r.rows != nil {
			if err := r.rows.Err(); err != nil {
				return err
			}
			if r.got == 0 {
				return io.EOF
			}
		}
		var err error
		if r.rows, err = r.fetch(); err != nil {
			return err
		}
		r.got = 0
		if err := r.readColumns(); err != nil {
			return err
		}
	}
	r.got++
	values, err := r.rows.Values()
	if err != nil {
		return err
	}
	for i, v := range values {
		if v == nil {
			continue
		}
		*fieldOf(f, r.columns[i]) = textOf(v)
	}
	return nil
}

// queryColumns are the columns that a query may have.
var queryColumns = []string{"at", "kind", "job", "attempt", "actor", "outcome", "result", "key", "not_before", "text"} //nolint:gochecknoglobals // a constant

func (r *rowReader) readColumns() error {
	r.columns = r.columns[:0]
	for _, d := range r.rows.FieldDescriptions() {
		if !slices.Contains(queryColumns, d.Name) {
			return fmt.Errorf("the query has a column %q; allowed: %s", d.Name, strings.Join(queryColumns, ", "))
		}
		r.columns = append(r.columns, d.Name)
	}
	for _, needed := range []string{"at", "kind"} {
		if !slices.Contains(r.columns, needed) {
			return errors.New("the query has no column " + needed)
		}
	}
	return nil
}

// fieldOf returns the field of a line that a column fills.
func fieldOf(f *jobhistory.Fields, column string) *string {
	switch column {
	case "at":
		return &f.At
	case "kind":
		return &f.Kind
	case "job":
		return &f.Job
	case "attempt":
		return &f.Attempt
	case "actor":
		return &f.Actor
	case "outcome":
		return (*string)(&f.Outcome)
	case "result":
		return &f.Result
	case "key":
		return &f.Key
	case "not_before":
		return &f.NotBefore
	default:
		return &f.Text
	}
}

func textOf(v any) string {
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case string:
		return v
	case [16]byte: // a uuid
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[0:4], v[4:6], v[6:8], v[8:10], v[10:16])
	default:
		return fmt.Sprint(v)
	}
}
