package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Problem is the body of every error response of the API: RFC 9457, application/problem+json.
type Problem struct {
	// Type identifies the kind of problem for programs. It never changes, unlike the texts.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Errors lists every mistake in a request.
	Errors []FieldError `json:"errors,omitempty"`

	retryAfter int
	allow      string
}

// FieldError is one mistake in a request.
type FieldError struct {
	// Field is a JSON pointer into the body, or the name of a header.
	Field string `json:"field"`
	// Line and Column, from 1, are its position in the body; 0 for a header.
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Detail string `json:"detail"`
	// Allowed lists the allowed values. Nearest is the value that was probably meant.
	Allowed []string `json:"allowed,omitempty"`
	Nearest string   `json:"nearest,omitempty"`

	// at is the offset in the body. placed reports whether Line and Column must still be computed from it.
	at     int
	placed bool
}

// The types of problems.
const (
	typeBadRequest     = "urn:handoff:problem:bad-request"
	typeTooLarge       = "urn:handoff:problem:too-large"
	typeMediaType      = "urn:handoff:problem:unsupported-media-type"
	typeUnauthorized   = "urn:handoff:problem:unauthorized"
	typeForbidden      = "urn:handoff:problem:forbidden"
	typeForeignHost    = "urn:handoff:problem:foreign-host"
	typeCrossOrigin    = "urn:handoff:problem:cross-origin"
	typeNotFound       = "urn:handoff:problem:not-found"
	typeMethod         = "urn:handoff:problem:method-not-allowed"
	typeUnknownAction  = "urn:handoff:problem:unknown-action"
	typeUnknownWorker  = "urn:handoff:problem:unknown-worker"
	typeInvalidAction  = "urn:handoff:problem:invalid-action"
	typeInvalidLimits  = "urn:handoff:problem:invalid-limits"
	typeKeyReused      = "urn:handoff:problem:idempotency-key-reused"
	typeUnavailable    = "urn:handoff:problem:unavailable"
	typeOutcomeUnknown = "urn:handoff:problem:outcome-unknown"
	typeUnknownParent  = "urn:handoff:problem:unknown-parent"
	typeEnded          = "urn:handoff:problem:execution-ended"
	typeNotRetriable   = "urn:handoff:problem:not-retriable"
	typeSettled        = "urn:handoff:problem:dead-letter-settled"
	typeNotReplayable  = "urn:handoff:problem:not-replayable"
	typePositionGone   = "urn:handoff:problem:position-gone"
	typeUnreadable     = "urn:handoff:problem:unreadable-row"
	typeInternal       = "urn:handoff:problem:internal"
)

func badRequest(detail string, errors ...FieldError) *Problem {
	return &Problem{Type: typeBadRequest, Title: "The request can't be read", Status: http.StatusBadRequest, Detail: detail, Errors: errors}
}

func tooLarge(detail string) *Problem {
	return &Problem{Type: typeTooLarge, Title: "The request is too large", Status: http.StatusRequestEntityTooLarge, Detail: detail}
}

func notFound(detail string) *Problem {
	return &Problem{Type: typeNotFound, Title: "There is no such thing", Status: http.StatusNotFound, Detail: detail}
}

// serviceUnavailable returns a temporary refusal; retryAfter is in seconds.
func serviceUnavailable(title, detail string, retryAfter int) *Problem {
	return &Problem{Type: typeUnavailable, Title: title, Status: http.StatusServiceUnavailable, Detail: detail, retryAfter: retryAfter}
}

// databaseAway returns the problem that the database is temporarily unavailable.
func databaseAway(detail string) *Problem {
	return serviceUnavailable("The database is away", detail, 2)
}

// tooLong returns the problem that a list was not ready in time.
func tooLong(within time.Duration) *Problem {
	return serviceUnavailable("The list took too long", fmt.Sprintf("It was not there within executor.statement_timeout (%v): the database is slow or away. "+
		"Nothing was changed. Ask for a smaller page, or with a filter that names less, and send it again.", within), 2)
}

// unreadableRow returns the problem that a row in the database can't be read, and why.
func unreadableRow(detail string) *Problem {
	return &Problem{Type: typeUnreadable, Title: "The row can't be read", Status: http.StatusInternalServerError, Detail: detail}
}

func internalError() *Problem {
	return &Problem{
		Type: typeInternal, Title: "The server failed", Status: http.StatusInternalServerError,
		Detail: "The request failed. The server's log has the reason.",
	}
}

// writeTo sends the problem.
func (p *Problem) writeTo(w http.ResponseWriter) {
	h := w.Header()
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, "application/problem+json", p.Status, p)
}

// respondJSON sends a value. It returns nil, or a problem if the value can't be encoded, so that a handler
// can return its result.
func respondJSON(w http.ResponseWriter, status int, value any) *Problem {
	body, err := json.Marshal(value)
	if err != nil {
		return internalError()
	}
	writeBody(w, "application/json", status, body)
	return nil
}

func writeJSON(w http.ResponseWriter, contentType string, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		// This can't happen: all responses are plain data, or JSON that was checked on arrival.
		status, body = http.StatusInternalServerError, []byte(`{"type":"`+typeInternal+`","title":"The server failed","status":500}`)
		contentType = "application/problem+json"
	}
	writeBody(w, contentType, status, body)
}

// writeBody sends JSON and a line end. The body may be large and is not copied.
func writeBody(w http.ResponseWriter, contentType string, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(body); err == nil {
		_, _ = w.Write([]byte{'\n'})
	}
}
