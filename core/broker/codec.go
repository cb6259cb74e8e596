package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"handoff/core/execution"
)

// The wire format: a JSON object of message_id, message_type, correlation_id, timestamp, version and payload.
const (
	// WireVersion is the version of all messages except blocks (VersionBlock). A reader refuses a version
	// that it does not know: guessing the meaning of a field is worse than a dead letter. Readers skip
	// unknown fields, so a field that an old reader may safely ignore needs no new version.
	WireVersion = 1
	// MaxBody bounds a body, in bytes. Encode refuses a longer one, and Decode does before it parses.
	MaxBody = 1 << 20
	// ContentType is the media type of a body.
	ContentType = "application/json"
	// maxName bounds ids, because they are also sent as AMQP short strings.
	maxName = 255
)

type wireEnvelope struct {
	MessageID     *string      `json:"message_id"`
	Type          *string      `json:"message_type"`
	CorrelationID string       `json:"correlation_id,omitempty"`
	Timestamp     *string      `json:"timestamp"`
	Version       *int64       `json:"version"`
	Payload       *wirePayload `json:"payload"`
}

// wirePayload has the fields of all types of payload, so that one pass reads a body.
type wirePayload struct {
	// For execution.scheduled. In a block this holds the worker and its incarnation, and Dispatches
	// holds the dispatches without them.
	wireDispatch
	Dispatches *[]json.RawMessage `json:"dispatches,omitempty"`
	// For hints.
	Executions *[]wireChange `json:"executions,omitempty"`
}

// wireDispatch is one dispatch. Durations are whole milliseconds, 0 or absent if the action sets none.
type wireDispatch struct {
	ExecutionID       *int64          `json:"execution_id,omitempty"`
	Epoch             *int64          `json:"epoch,omitempty"`
	Worker            *int64          `json:"worker,omitempty"`
	Incarnation       *int64          `json:"incarnation,omitempty"`
	ActionRef         *string         `json:"action_ref,omitempty"`
	Runtime           *string         `json:"runtime,omitempty"`
	Entrypoint        string          `json:"entrypoint,omitempty"`
	TimeoutMS         int64           `json:"timeout_ms,omitempty"`
	DispatchTimeoutMS int64           `json:"dispatch_timeout_ms,omitempty"`
	MaxRetries        int64           `json:"max_retries,omitempty"`
	Parameters        json.RawMessage `json:"parameters,omitempty"`
}

// wireChange is one change of a hint. A missing status is execution.None.
type wireChange struct {
	ID    *int64 `json:"id"`
	Epoch *int64 `json:"epoch"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	// Handled was added later, so older releases do not send it. A reader that does not know it reads the
	// row.
	Handled bool `json:"handled,omitempty"`
}

// fieldError returns an error that names a field and what is wrong with it.
func fieldError(field, format string, args ...any) error {
	return fmt.Errorf("message field %s "+format, append([]any{field}, args...)...)
}

func missingField(field string) error { return fieldError(field, "is missing") }

// Encode returns the body of a message. It refuses what Decode would refuse: an unreadable message must not
// be sent. It rounds durations up to milliseconds.
func Encode(e *Envelope) ([]byte, error) {
	if err := checkEnvelope(e); err != nil {
		return nil, err
	}
	var payload *wirePayload
	var err error
	switch {
	case e.Version == VersionBlock:
		payload, err = encodeBlock(e.Dispatches)
	case e.Type == ExecutionScheduled:
		var d wireDispatch
		d, err = encodeDispatch(&e.Dispatches[0])
		payload = &wirePayload{wireDispatch: d}
	default:
		payload, err = encodeChanges(e.Changes)
	}
	if err != nil {
		return nil, err
	}
	name, at, version := e.Type.String(), e.Timestamp.UTC().Format(time.RFC3339Nano), int64(e.Version)
	w := wireEnvelope{
		MessageID: &e.MessageID, Type: &name, CorrelationID: e.CorrelationID, Timestamp: &at, Version: &version, Payload: payload,
	}
	b, err := writeJSON(&w)
	if err != nil {
		return nil, err
	}
	if len(b) > MaxBody {
		return nil, tooLong(len(b))
	}
	if !utf8.Valid(b) {
		return nil, fieldError("payload.parameters", "is not UTF-8")
	}
	return b, nil
}

func writeJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	// Parameters belong to the user and are not altered: "<" stays "<".
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, fmt.Errorf("message field payload.parameters can't be written: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

func tooLong(n int) error { return fmt.Errorf("message of %d bytes is longer than %d", n, MaxBody) }

// EncodeDeaths returns the x-death header as JSON, to be stored for people to read.
func EncodeDeaths(deaths []Death) []byte {
	type entry struct {
		Queue  string    `json:"queue"`
		Reason string    `json:"reason"`
		Count  int       `json:"count"`
		Time   time.Time `json:"time"`
	}
	entries := make([]entry, len(deaths))
	for i, d := range deaths {
		entries[i] = entry{d.Queue, d.Reason.String(), d.Count, d.Time.UTC()}
	}
	// This can't fail: the entries have only strings, numbers, and times that JSON can represent.
	text, err := json.Marshal(entries)
	if err != nil {
		return nil
	}
	return text
}

// checkEnvelope refuses an envelope that Decode would not accept.
func checkEnvelope(e *Envelope) error {
	switch {
	case e.Version != WireVersion && (e.Version != VersionBlock || e.Type != ExecutionScheduled):
		return fieldError("version", "is %d, only %d is written, and %d for blocks of dispatches", e.Version, WireVersion, VersionBlock)
	case e.Type == NoType || int(e.Type) >= Types:
		return fieldError("message_type", "is not set")
	case e.MessageID == "":
		return missingField("message_id")
	case (e.Type == ExecutionScheduled) != (len(e.Dispatches) > 0), len(e.Dispatches) > 0 && e.Changes != nil,
		e.Version == WireVersion && len(e.Dispatches) > 1, e.Unread != nil:
		return fieldError("payload", "is not the one of %s", e.Type)
	case e.Timestamp.UTC().Year() < 0 || e.Timestamp.UTC().Year() > 9999:
		return fieldError("timestamp", "has a year of more than four digits")
	}
	if err := checkName("message_id", e.MessageID); err != nil {
		return err
	}
	return checkName("correlation_id", e.CorrelationID)
}

// checkName refuses an id that would be altered on its way to the receiver.
func checkName(field, name string) error {
	if len(name) > maxName {
		return fieldError(field, "is longer than %d bytes", maxName)
	}
	return checkText(field, name)
}

func checkText(field, text string) error {
	if !utf8.ValidString(text) {
		return fieldError(field, "is not UTF-8")
	}
	return nil
}

func encodeDispatch(d *Dispatch) (wireDispatch, error) {
	for _, text := range []struct{ field, value string }{
		{"payload.action_ref", d.Action.Ref},
		{"payload.runtime", d.Action.Runtime},
		{"payload.entrypoint", d.Action.Entrypoint},
	} {
		if err := checkText(text.field, text.value); err != nil {
			return wireDispatch{}, err
		}
	}
	id, epoch := int64(d.Key.ID), int64(d.Key.Epoch)
	worker, incarnation := int64(d.Worker), int64(d.Incarnation)
	w := wireDispatch{
		ExecutionID: &id, Epoch: &epoch, Worker: &worker, Incarnation: &incarnation,
		ActionRef: &d.Action.Ref, Runtime: &d.Action.Runtime, Entrypoint: d.Action.Entrypoint,
		TimeoutMS: ceilMilliseconds(d.Action.Timeout), DispatchTimeoutMS: ceilMilliseconds(d.Action.DispatchTimeout),
		MaxRetries: int64(d.Action.MaxRetries), Parameters: d.Parameters,
	}
	return w, w.checkFields()
}

// ceilMilliseconds rounds up, so that a short timeout does not become 0, which means no timeout.
func ceilMilliseconds(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

func encodeChanges(changes []Change) (*wirePayload, error) {
	list := make([]wireChange, len(changes))
	for i := range changes {
		c := &changes[i]
		id, epoch := int64(c.Key.ID), int64(c.Key.Epoch)
		list[i] = wireChange{ID: &id, Epoch: &epoch, From: statusName(c.From), To: statusName(c.To), Handled: c.Handled}
		if _, err := list[i].decodeChange(i); err != nil {
			return nil, err
		}
	}
	return &wirePayload{Executions: &list}, nil
}

func statusName(s execution.Status) string {
	if s == execution.None {
		return ""
	}
	return s.String()
}

// Decode reads a body. It never panics. Its error names the first field that is missing, of another
// type, or out of range.
func Decode(body []byte) (Envelope, error) {
	if len(body) > MaxBody {
		return Envelope{}, tooLong(len(body))
	}
	if e, ok := decodeHint(body); ok {
		return e, nil
	}
	return decodeJSON(body)
}

// decodeJSON reads a body of any type.
func decodeJSON(body []byte) (Envelope, error) {
	// The JSON package would silently replace bytes that are not UTF-8.
	if !utf8.Valid(body) {
		return Envelope{}, errors.New("message is not UTF-8")
	}
	var w wireEnvelope
	if err := json.Unmarshal(body, &w); err != nil {
		return Envelope{}, inWords(err)
	}
	e, err := w.decodeHeader()
	if err != nil {
		return Envelope{}, err
	}
	switch {
	case e.Version == VersionBlock:
		e.Dispatches, e.Unread, err = w.Payload.decodeBlock()
	case e.Type == ExecutionScheduled:
		e.Dispatches = make([]Dispatch, 1)
		err = w.Payload.decodeDispatch(&e.Dispatches[0])
	default:
		e.Changes, err = w.Payload.decodeChanges()
	}
	if err != nil {
		return Envelope{}, err
	}
	return e, nil
}

// inWords translates an error of the JSON package into one that names the message's field.
func inWords(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return fmt.Errorf("message is not JSON: %w", err)
	case wrong.Field == "":
		return fmt.Errorf("message is a JSON %s, not an object", wrong.Value)
	}
	// The JSON package also names embedded structs, which are not fields of the message.
	return fieldError(strings.Replace(wrong.Field, "wireDispatch.", "", 1), "is a JSON %s, which is no %s", wrong.Value, kindName(wrong.Type.String()))
}

// kindName translates a Go type into words.
func kindName(goType string) string {
	switch strings.TrimLeft(goType, "*") {
	case "int64":
		return "64-bit integer"
	case "string":
		return "string"
	case "bool":
		return "boolean"
	case "[]broker.wireChange", "[]json.RawMessage":
		return "list"
	}
	return "object"
}

// decodeHeader reads everything but the payload. It checks the version first: the other fields of an
// unknown version have no known meaning.
func (w *wireEnvelope) decodeHeader() (Envelope, error) {
	switch {
	case w.Version == nil:
		return Envelope{}, missingField("version")
	case *w.Version != WireVersion && *w.Version != VersionBlock:
		return Envelope{}, fieldError("version", "is %d, only %d and %d are known", *w.Version, WireVersion, VersionBlock)
	case w.Type == nil:
		return Envelope{}, missingField("message_type")
	case w.MessageID == nil || *w.MessageID == "":
		return Envelope{}, missingField("message_id")
	case w.Timestamp == nil:
		return Envelope{}, missingField("timestamp")
	case w.Payload == nil:
		return Envelope{}, missingField("payload")
	}
	e := Envelope{MessageID: *w.MessageID, CorrelationID: w.CorrelationID, Version: int(*w.Version)}
	for t := ExecutionRequested; int(t) < Types; t++ {
		if t.String() == *w.Type {
			e.Type = t
		}
	}
	switch {
	case e.Type == NoType:
		return Envelope{}, fieldError("message_type", "is %.64q, which is unknown", *w.Type)
	case e.Version == VersionBlock && e.Type != ExecutionScheduled:
		return Envelope{}, fieldError("version", "is %d, which no %s has", e.Version, e.Type)
	}
	if err := checkName("message_id", e.MessageID); err != nil {
		return Envelope{}, err
	}
	if err := checkName("correlation_id", e.CorrelationID); err != nil {
		return Envelope{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, *w.Timestamp)
	if err != nil {
		return Envelope{}, fieldError("timestamp", "is %.64q, which is not RFC 3339", *w.Timestamp)
	}
	e.Timestamp = at.UTC()
	if year := e.Timestamp.Year(); year < 0 || year > 9999 {
		return Envelope{}, fieldError("timestamp", "has a year of more than four digits")
	}
	return e, nil
}

func (w *wireDispatch) decodeDispatch(d *Dispatch) error {
	if err := w.checkFields(); err != nil {
		return err
	}
	*d = Dispatch{
		Key:    execution.Key{ID: execution.ID(*w.ExecutionID), Epoch: execution.Epoch(*w.Epoch)},
		Worker: execution.WorkerID(*w.Worker), Incarnation: execution.Incarnation(*w.Incarnation),
		Action: execution.Action{
			Ref: *w.ActionRef, Runtime: *w.Runtime, Entrypoint: w.Entrypoint,
			Timeout:         time.Duration(w.TimeoutMS) * time.Millisecond,
			DispatchTimeout: time.Duration(w.DispatchTimeoutMS) * time.Millisecond,
			MaxRetries:      int(w.MaxRetries),
		},
	}
	if len(w.Parameters) > 0 && string(w.Parameters) != "null" {
		d.Parameters = w.Parameters
	}
	return nil
}

// checkFields checks a dispatch by the rules that apply to both writing and reading.
func (w *wireDispatch) checkFields() error {
	for _, number := range []struct {
		field   string
		value   *int64
		largest int64
	}{
		{"payload.execution_id", w.ExecutionID, math.MaxInt64},
		{"payload.epoch", w.Epoch, math.MaxInt64},
		{"payload.worker", w.Worker, math.MaxInt64},
		{"payload.incarnation", w.Incarnation, math.MaxInt64},
		{"payload.timeout_ms", &w.TimeoutMS, math.MaxInt64 / int64(time.Millisecond)},
		{"payload.dispatch_timeout_ms", &w.DispatchTimeoutMS, math.MaxInt64 / int64(time.Millisecond)},
		{"payload.max_retries", &w.MaxRetries, math.MaxInt32},
	} {
		switch {
		case number.value == nil:
			return missingField(number.field)
		case *number.value < 0 || *number.value > number.largest:
			return fieldError(number.field, "is %d, which is out of range", *number.value)
		}
	}
	switch {
	case *w.ExecutionID == 0:
		return fieldError("payload.execution_id", "is 0, which no execution has")
	case w.ActionRef == nil:
		return missingField("payload.action_ref")
	case w.Runtime == nil:
		return missingField("payload.runtime")
	}
	return nil
}

func (w *wirePayload) decodeChanges() ([]Change, error) {
	if w.Executions == nil {
		return nil, missingField("payload.executions")
	}
	if len(*w.Executions) == 0 {
		return nil, nil
	}
	changes := make([]Change, len(*w.Executions))
	for i := range *w.Executions {
		var err error
		if changes[i], err = (*w.Executions)[i].decodeChange(i); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// decodeChange converts the i-th entry of a hint.
func (w *wireChange) decodeChange(i int) (c Change, err error) {
	at := func(name string) string { return fmt.Sprintf("payload.executions[%d].%s", i, name) }
	switch {
	case w.ID == nil:
		return Change{}, missingField(at("id"))
	case w.Epoch == nil:
		return Change{}, missingField(at("epoch"))
	case *w.ID <= 0:
		return Change{}, fieldError(at("id"), "is %d, which no execution has", *w.ID)
	case *w.Epoch < 0:
		return Change{}, fieldError(at("epoch"), "is %d, which is out of range", *w.Epoch)
	}
	c.Key, c.Handled = execution.Key{ID: execution.ID(*w.ID), Epoch: execution.Epoch(*w.Epoch)}, w.Handled
	if c.From, err = parseStatus(w.From); err != nil {
		return Change{}, fieldError(at("from"), "is %.64q, which is no status", w.From)
	}
	if c.To, err = parseStatus(w.To); err != nil {
		return Change{}, fieldError(at("to"), "is %.64q, which is no status", w.To)
	}
	return c, nil
}

func parseStatus(name string) (execution.Status, error) {
	if name == "" {
		return execution.None, nil
	}
	return execution.ParseStatus(name)
}
