package simstore

import (
	"time"

	"handoff/core/execution"
)

// pageRows is the number of rows in a page: small enough for a run with a dozen executions, and large enough
// that a run with a hundred thousand rarely allocates.
const pageRows = 32

// table holds the rows by index, which is the execution's id - 1. It grows by pages, so that no row
// is ever copied to make room and pointers to rows stay valid.
type table struct {
	pages []*[pageRows]row
	n     int
}

// row is an execution and its position in the list of rows that share its status.
type row struct {
	execution.Execution
	prev, next int32 // indexes + 1
	in         listName
	due        time.Time // when the row is due, or was when it was last requested
	// slot is the number of the concurrency slot that the row holds, or 0 if it holds none.
	slot int
	// hasChildren reports whether children were created that wait for the chain that begins with this row.
	hasChildren bool
}

// addRow appends a row under the next id.
func (t *table) addRow(e execution.Execution) *row {
	if t.n == len(t.pages)*pageRows {
		t.pages = append(t.pages, new([pageRows]row))
	}
	t.n++
	r := t.rowAt(int32(t.n - 1))
	r.Execution = e
	r.ID = execution.ID(t.n)
	return r
}

// rowAt returns the row with that index, which must exist.
func (t *table) rowAt(place int32) *row { return &t.pages[place/pageRows][place%pageRows] }

// clone returns a copy that shares no rows with the original.
func (t *table) clone() table {
	c := table{pages: make([]*[pageRows]row, len(t.pages)), n: t.n}
	for i, p := range t.pages {
		copied := *p
		c.pages[i] = &copied
	}
	return c
}
