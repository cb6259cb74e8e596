package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"handoff/core/execution"
)

// Position is a place in the stream of changes. It is behind the change with this ID or, if ID is 0, behind
// all changes of the transactions before Transaction. The zero value is the beginning. A position is valid
// only for the database server that issued it.
type Position struct {
	Transaction uint64
	ID          int64
}

// String returns the text that ParsePosition reads.
func (p Position) String() string { return fmt.Sprintf("%d-%d", p.Transaction, p.ID) }

// Before reports whether p is earlier in the stream than o.
func (p Position) Before(o Position) bool {
	return p.Transaction < o.Transaction || p.Transaction == o.Transaction && p.ID < o.ID
}

// ParsePosition reads a position as String writes it. "0" is the beginning, too.
func ParsePosition(text string) (p Position, err error) {
	if text == "0" {
		return p, nil
	}
	transaction, id, ok := strings.Cut(text, "-")
	if ok {
		if p.Transaction, err = strconv.ParseUint(transaction, 10, 64); err == nil {
			p.ID, err = strconv.ParseInt(id, 10, 64)
		}
	}
	if !ok || err != nil || p.ID < 0 || p.String() != text {
		return Position{}, fmt.Errorf("a position is the id of an event, such as 7421-193, or 0 for the beginning")
	}
	return p, nil
}

// ChangeQuery selects changes. A field that is zero does not filter.
type ChangeQuery struct {
	After     Position
	Execution execution.ID
	ActionRef string
	// To selects changes to this status.
	To execution.Status
	// Limit bounds the changes that the query examines, selected or not, so that a query with a narrow filter
	// is cheap, too. At zero or less it examines none, and Next is the current end of the stream.
	Limit int
}

// Change is one change of an execution's status, with its place in the stream.
type Change struct {
	Position
	Execution execution.ID
	ActionRef string
	Transition
}

// ChangePage is the result of a ChangeQuery.
type ChangePage struct {
	Changes []Change
	// Next is the position for the next query. It is behind the last change examined or, if none was left,
	// behind all changes that can be shown now. A change can be shown once every transaction that began to
	// write before its own has ended.
	Next Position
	// More reports whether the query stopped at the limit.
	More bool
	// End is the current end of the stream. The stream has never returned a position behind it.
	End Position
	// Held reports whether committed changes are missing at the end of the stream, because an open
	// transaction, anywhere on the database server, began to write before them.
	Held bool
	// Gone is the position of the latest change that a purge has deleted; zero if none was. A reader whose
	// position is earlier has missed changes. GoneAt is the latest time of a deleted change.
	Gone   Position
	GoneAt time.Time
}
