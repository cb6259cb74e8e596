package invariant

import (
	"strconv"
	"strings"

	"handoff/chaos/dense"
)

// sentHints holds hints by id. A sender builds an id from its name and a counter, so the hints of each name
// are in a table by number. A map of all ids would be slower, because there are thousands of ids, and each is
// soon removed.
//
// Its size is bounded by the hints in it: names and ids are removed with their last hint.
type sentHints struct {
	byName map[string]*dense.Table[uint64, *publishedHint]
	// odd holds the hints with ids of any other form, by the number that oddly assigns to the id. next is the
	// next free number.
	odd   dense.Table[uint64, *publishedHint]
	oddly map[string]uint64
	next  uint64
}

// hintPosition is the position of a hint: a table, and the hint's number in it.
type hintPosition struct {
	table  *dense.Table[uint64, *publishedHint]
	number uint64
}

func newSentHints() sentHints {
	return sentHints{byName: make(map[string]*dense.Table[uint64, *publishedHint]), oddly: make(map[string]uint64)}
}

// positionOf returns the position of a hint with this id, whether or not there is such a hint.
func (sh *sentHints) positionOf(id string) hintPosition {
	// Only the canonical spelling of a number is accepted, so that no two ids have the same position.
	if name, digits, ok := cutLast(id, '/'); ok && digits != "" && digits[0] != '0' {
		if number, err := strconv.ParseUint(digits, 10, 64); err == nil {
			of := sh.byName[name]
			if of == nil {
				of = new(dense.Table[uint64, *publishedHint])
				sh.byName[name] = of
			}
			return hintPosition{of, number}
		}
	}
	number, known := sh.oddly[id]
	if !known {
		number = sh.next
		sh.next++
		sh.oddly[id] = number
	}
	return hintPosition{&sh.odd, number}
}

func (sh *sentHints) forgetHint(s *publishedHint) {
	at := s.position
	at.table.Delete(at.number)
	switch {
	case at.table == &sh.odd:
		delete(sh.oddly, s.id)
	case at.table.Len() == 0:
		name, _, _ := cutLast(s.id, '/')
		delete(sh.byName, name)
	}
}

// cutLast cuts a string at the last separator.
func cutLast(s string, separator byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
