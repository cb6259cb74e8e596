package invariant

import (
	"strconv"
	"strings"

	"handoff/chaos/dense"
)

// sentHints holds hints by their ids. A sender makes an id of its name and of a number that it
// counts up, so the hints of each name are in a table by number. A map of all ids is slower, because
// there are thousands of them, and each is soon forgotten.
//
// It is as large as the hints that are not forgotten: names and ids go with their last hint.
type sentHints struct {
	byName map[string]*dense.Table[uint64, *publishedHint]
	// odd are the hints with any other id, by the number that oddly has given the id. Numbers are
	// given from next on.
	odd   dense.Table[uint64, *publishedHint]
	oddly map[string]uint64
	next  uint64
}

// hintPosition is where a hint is: in a table, under a number.
type hintPosition struct {
	table  *dense.Table[uint64, *publishedHint]
	number uint64
}

func newSentHints() sentHints {
	return sentHints{byName: make(map[string]*dense.Table[uint64, *publishedHint]), oddly: make(map[string]uint64)}
}

// positionOf is where the hint with this id is, or belongs if there is none.
func (sh *sentHints) positionOf(id string) hintPosition {
	// Only one spelling of a number is accepted, so that no two ids have the same position.
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

// forgetHint removes a hint.
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
