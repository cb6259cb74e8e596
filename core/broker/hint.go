package broker

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"handoff/core/execution"
)

// Hints are the most numerous messages, and most only report which executions reached which status. This file
// reads the body of a hint exactly as Encode writes it, several times as fast as the JSON package. It never
// refuses a body: one that differs, by a space or the order of fields, is left to the JSON package, which
// reports errors.

// hintReader reads the rest of a body.
type hintReader struct{ left []byte }

// skipText consumes a text if it comes next.
func (h *hintReader) skipText(text string) bool {
	if len(h.left) < len(text) || string(h.left[:len(text)]) != text {
		return false
	}
	h.left = h.left[len(text):]
	return true
}

// readString reads a string without escapes and control characters, and its closing quote.
func (h *hintReader) readString() ([]byte, bool) {
	end := bytes.IndexByte(h.left, '"')
	if end < 0 {
		return nil, false
	}
	text := h.left[:end]
	for _, c := range text {
		if c == '\\' || c < ' ' {
			return nil, false
		}
	}
	h.left = h.left[end+1:]
	return text, true
}

// readNumber reads a number that is not negative and has no leading zeros.
func (h *hintReader) readNumber() (n int64, ok bool) {
	end := 0
	for end < len(h.left) && h.left[end] >= '0' && h.left[end] <= '9' {
		n = n*10 + int64(h.left[end]-'0')
		end++
	}
	// A number of 18 digits can't overflow.
	if end == 0 || end > 18 || end > 1 && h.left[0] == '0' {
		return 0, false
	}
	h.left = h.left[end:]
	return n, true
}

// readStatus reads the status in a field; None if the field is missing.
func (h *hintReader) readStatus(field string) (execution.Status, bool) {
	if !h.skipText(field) {
		return execution.None, true
	}
	name, ok := h.readString()
	if !ok {
		return execution.None, false
	}
	for s := execution.None + 1; int(s) < execution.Statuses; s++ {
		if s.String() == string(name) {
			return s, true
		}
	}
	return execution.None, false
}

// readChange reads one entry of a hint.
func (h *hintReader) readChange() (c Change, ok bool) {
	if !h.skipText(`{"id":`) {
		return Change{}, false
	}
	id, read := h.readNumber()
	if !read || id == 0 || !h.skipText(`,"epoch":`) {
		return Change{}, false
	}
	epoch, read := h.readNumber()
	if !read {
		return Change{}, false
	}
	c.Key = execution.Key{ID: execution.ID(id), Epoch: execution.Epoch(epoch)}
	if c.From, ok = h.readStatus(`,"from":"`); !ok {
		return Change{}, false
	}
	if c.To, ok = h.readStatus(`,"to":"`); !ok {
		return Change{}, false
	}
	c.Handled = h.skipText(`,"handled":true`)
	return c, h.skipText(`}`)
}

// decodeHint reads the body of a hint; ok is false if the body is not a hint or differs from Encode's format.
func decodeHint(body []byte) (e Envelope, ok bool) {
	r := hintReader{body}
	if !r.skipText(`{"message_id":"`) {
		return Envelope{}, false
	}
	id, ok := r.readString()
	if !ok || len(id) == 0 || len(id) > maxName || !r.skipText(`,"message_type":"`) {
		return Envelope{}, false
	}
	name, ok := r.readString()
	if !ok || !r.skipText(`,"timestamp":"`) {
		return Envelope{}, false
	}
	at, ok := r.readString()
	if !ok || !r.skipText(`,"version":`+strconv.Itoa(WireVersion)+`,"payload":{"executions":[`) {
		return Envelope{}, false
	}
	for t := ExecutionRequested; t <= ExecutionCancel; t++ {
		if t != ExecutionScheduled && t.String() == string(name) {
			e.Type = t
		}
	}
	if e.Type == NoType {
		return Envelope{}, false
	}
	changes := make([]Change, 0, bytes.Count(r.left, []byte(`{"id":`)))
	for {
		c, ok := r.readChange()
		if !ok {
			return Envelope{}, false
		}
		changes = append(changes, c)
		if !r.skipText(`,`) {
			break
		}
	}
	if !r.skipText(`]}}`) || len(r.left) > 0 || !utf8.Valid(id) {
		return Envelope{}, false
	}
	stamp, err := time.Parse(time.RFC3339Nano, string(at))
	if err != nil {
		return Envelope{}, false
	}
	if e.Timestamp = stamp.UTC(); e.Timestamp.Year() < 0 || e.Timestamp.Year() > 9999 {
		return Envelope{}, false
	}
	e.MessageID, e.Version, e.Changes = string(id), WireVersion, changes
	return e, true
}
