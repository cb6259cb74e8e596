package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"handoff/core/execution"
)

// Position is a place in the stream of changes: behind the change with this ID or, when ID is 0,
// behind all changes of the transactions before Transaction. The zero value is the beginning. A
// position is valid for one database server only.
type Position struct {
	Transaction uint64
	ID          int64
}

// String returns the text that ParsePosition reads.
func (p Position) String() string { return fmt.Sprintf("%d-%d", p.Transaction, p.ID) }

// Before says that p comes earlier in the stream.
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

// ChangeQuery asks for changes. Zero fields select all.
type ChangeQuery struct {
	After     Position
	Execution execution.ID
	ActionRef string
	// To is the new status.
	To execution.Status
	// Limit is how many changes the query looks at, selected or not, so that a query with a narrow
	// filter ends soon too. With a limit of zero or less it looks at none, and Next is the current
	// end of the stream.
	Limit int
}

// Change is one change of an execution's status, with its place in the stream.
type Change struct {
	Position
	Execution execution.ID
	ActionRef string
	Transition
}

// ChangePage is the answer to a ChangeQuery.
type ChangePage struct {
	Changes []Change
	// Next is the position for the next query: behind the last change that was looked at or, when
	// there were no more, behind all changes that can be shown by now. A change can be shown when
	// every transaction that began to write before its own has ended.
	Next Position
	// More says that the query stopped at the limit.
	More bool
	// End is the current end of the stream. No position that the stream has handed out lies behind
	// it.
	End Position
	// Held says that the stream ends before changes that have happened: a transaction that is open,
	// anywhere on the database server, began to write before them.
	Held bool
	// Gone is the position of the latest change that a purge has deleted; zero if none was. A reader
	// whose position comes before it has missed changes. GoneAt is the time of the
	// latest of those that are deleted.
	Gone   Position
	GoneAt time.Time
}
