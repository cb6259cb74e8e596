package store

import (
	"fmt"
	"strconv"
	"strings"

	"handoff/core/execution"
)

// Position is a place in the stream of changes: behind the change that it names, or behind all changes of the
// transactions before Transaction when ID is 0. The zero value is the beginning. Positions belong to one database
// server.
type Position struct {
	Transaction uint64
	ID          int64
}

// String is what ParsePosition reads.
func (p Position) String() string { return fmt.Sprintf("%d-%d", p.Transaction, p.ID) }

// Before says that p comes earlier in the stream.
func (p Position) Before(o Position) bool {
	return p.Transaction < o.Transaction || p.Transaction == o.Transaction && p.ID < o.ID
}

// ParsePosition reads a position as String writes it; "0" is the beginning, too.
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
		return Position{}, fmt.Errorf("a position is what an event had as its id, such as 7421-193, or 0 for the beginning")
	}
	return p, nil
}

// ChangeQuery asks for changes. Fields that are zero select all.
type ChangeQuery struct {
	After     Position
	Execution execution.ID
	ActionRef string
	// To is the status that was reached.
	To execution.Status
	// Limit is how many changes are looked at, those that are not selected among them, so that a query that hardly
	// anything passes ends soon; zero or less looks at none, and goes on from where the stream ends by now.
	Limit int
}

// Change is one change of an execution's status, and where it stands in the stream.
type Change struct {
	Position
	Execution execution.ID
	ActionRef string
	Transition
}

// ChangePage is what a ChangeQuery finds.
type ChangePage struct {
	Changes []Change
	// Next is where to go on: behind the last change that was looked at or, when there were no more, behind all that
	// can be told by now. A change can be told when every transaction that began to write before its own has ended.
	Next Position
	// More says that the limit was reached.
	More bool
	// End is where the stream ends by now; no position that it has given lies behind it.
	End Position
}
