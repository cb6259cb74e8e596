package simstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"handoff/core/execution"
	"handoff/core/store"
)

// An invalid item is an error, as from a type, a constraint or the trigger of the database. Nothing of the
// item is applied, but the other items of the call are.

// addInvalid notes an invalid item.
func (s *step) addInvalid(format string, args ...any) {
	s.itemErrors = append(s.itemErrors, fmt.Errorf("simstore: "+format, args...))
}

// refuseInvalidText reports whether one of the texts is not valid for the database, and notes it.
func (s *step) refuseInvalidText(texts ...string) bool {
	for _, t := range texts {
		if !utf8.ValidString(t) || strings.IndexByte(t, 0) >= 0 {
			s.addInvalid("the text %q is not UTF-8 or contains a zero byte", t)
			return true
		}
	}
	return false
}

// refuseTooLong reports whether a body is longer than the stored maximum, and notes it.
func (s *step) refuseTooLong(body []byte) bool {
	if len(body) <= store.LongestBody {
		return false
	}
	s.addInvalid("a body of %d bytes is longer than %d", len(body), store.LongestBody)
	return true
}

// refuseInvalidJSON reports whether a document is not JSON, and notes it. An empty document is allowed.
func (s *step) refuseInvalidJSON(document json.RawMessage) bool {
	if len(document) == 0 || json.Valid(document) {
		return false
	}
	s.addInvalid("%q is not JSON", document)
	return true
}

// refuseUnlawful reports whether a part may not make a change of status, and notes it.
func (s *step) refuseUnlawful(r *row, to execution.Status, by execution.Part) bool {
	if s.db.transitions.May(by, r.Status, to) {
		return false
	}
	s.addInvalid("execution %d may not go from %v to %v by %v", r.ID, r.Status, to, by)
	return true
}
