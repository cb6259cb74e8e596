package simstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file refuses invalid items, as the types, constraints and the trigger of the database do. Nothing of
// the item is applied, but the other items of the call are.

// addInvalid records an invalid item.
func (s *step) addInvalid(format string, args ...any) {
	s.itemErrors = append(s.itemErrors, fmt.Errorf("simstore: "+format, args...))
}

// refuseInvalidText reports whether one of the texts is not valid for the database, and records the error.
func (s *step) refuseInvalidText(texts ...string) bool {
	for _, t := range texts {
		if !utf8.ValidString(t) || strings.IndexByte(t, 0) >= 0 {
			s.addInvalid("the text %q is not UTF-8 or contains a zero byte", t)
			return true
		}
	}
	return false
}

// refuseTooLong reports whether a body is longer than the stored maximum, and records the error.
func (s *step) refuseTooLong(body []byte) bool {
	if len(body) <= store.LongestBody {
		return false
	}
	s.addInvalid("a body of %d bytes is longer than %d", len(body), store.LongestBody)
	return true
}

// refuseInvalidJSON reports whether a document is not JSON, and records the error. An empty document is
// allowed.
func (s *step) refuseInvalidJSON(document json.RawMessage) bool {
	if len(document) == 0 || json.Valid(document) {
		return false
	}
	s.addInvalid("%q is not JSON", document)
	return true
}

// refuseUnlawful reports whether a part must not make a status change, and records the error.
func (s *step) refuseUnlawful(r *row, to execution.Status, by execution.Part) bool {
	if s.db.transitions.May(by, r.Status, to) {
		return false
	}
	s.addInvalid("execution %d may not go from %v to %v by %v", r.ID, r.Status, to, by)
	return true
}
