package policies

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
)

// Readers are the results of both readers of the core for one body, as broker.AskReaders returns
// them.
type Readers struct {
	Fast    broker.Envelope
	OK      bool
	Careful broker.Envelope
	Err     error
}

// BothReaders reads a body with both readers of the core that this program was built with.
func BothReaders(body []byte) (r Readers) {
	r.Fast, r.OK, r.Careful, r.Err = broker.AskReaders(body)
	return r
}

// Misread says how a message was read otherwise than it was sent; empty if it was not. sent is an
// envelope that Encode wrote. read and err are what Decode made of the body. readers reads the body
// with each of Decode's two readers.
//
// That a hint gets through is not enough. The fast reader of hints may leave any body to the careful
// one, so a mistake in it would only cost time. So it has to read each hint that Encode wrote, and
// the careful reader has to read the same.
func Misread(sent, read *broker.Envelope, err error, readers func() Readers) string {
	if err != nil {
		return fmt.Sprintf("%s was sent and can't be read: %v", about(sent), err)
	}
	if d := difference(sent, read); d != "" {
		return fmt.Sprintf("%s arrives with %s", about(sent), d)
	}
	if !fast(sent) {
		return ""
	}
	by := readers()
	if !by.OK {
		return fmt.Sprintf("the fast reader of hints leaves %s to the reader of all messages, although it is written as hints are", about(sent))
	}
	if by.Err != nil {
		return fmt.Sprintf("%s was sent, and the reader of all messages can't read it: %v", about(sent), by.Err)
	}
	if d := difference(sent, &by.Careful); d != "" {
		return fmt.Sprintf("the reader of all messages reads %s with %s", about(sent), d)
	}
	return ""
}

// about names a message.
func about(e *broker.Envelope) string {
	id := e.MessageID
	if len(id) > 40 {
		id = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(id[:40], ""), len(id))
	}
	return fmt.Sprintf("the message %q (%v, version %d, %d dispatches, %d changes)", id, e.Type, e.Version, len(e.Dispatches), len(e.Changes))
}

// largestFast is the largest number that the fast reader reads. It has 18 digits.
const largestFast = 999_999_999_999_999_999

// fast says whether the fast reader has to read a message: a hint of at least one change, without a
// character that JSON escapes and without a number that only the careful reader can check.
func fast(e *broker.Envelope) bool {
	if len(e.Changes) == 0 || e.CorrelationID != "" || e.Type == broker.DeadLetterCanary || strings.ContainsFunc(e.MessageID, func(c rune) bool {
		return c < ' ' || c == '"' || c == '\\' || c == '\u2028' || c == '\u2029'
	}) {
		return false
	}
	return !slices.ContainsFunc(e.Changes, func(c broker.Change) bool { return c.Key.ID > largestFast || c.Key.Epoch > largestFast })
}

// difference names the first field in which a message that was read differs from the sent one.
func difference(sent, read *broker.Envelope) string {
	switch {
	case read.MessageID != sent.MessageID:
		return fmt.Sprintf("the id %.300q", read.MessageID)
	case read.Type != sent.Type:
		return fmt.Sprintf("the type %v", read.Type)
	case read.CorrelationID != sent.CorrelationID:
		return fmt.Sprintf("the correlation id %.300q instead of %.300q", read.CorrelationID, sent.CorrelationID)
	case !read.Timestamp.Equal(sent.Timestamp):
		return fmt.Sprintf("the timestamp %v instead of %v", read.Timestamp, sent.Timestamp)
	case read.Version != sent.Version:
		return fmt.Sprintf("version %d", read.Version)
	case len(read.Unread) > 0:
		return fmt.Sprintf("%d dispatches that can't be read: %s", len(read.Unread), read.Unread[0].Why)
	case len(read.Dispatches) != len(sent.Dispatches):
		return fmt.Sprintf("%d dispatches", len(read.Dispatches))
	case len(read.Changes) != len(sent.Changes):
		return fmt.Sprintf("%d changes", len(read.Changes))
	}
	for i := range sent.Changes {
		if read.Changes[i] != sent.Changes[i] {
			return fmt.Sprintf("the change %+v instead of %+v, number %d", read.Changes[i], sent.Changes[i], i+1)
		}
	}
	for i := range sent.Dispatches {
		s, r := sent.Dispatches[i], &read.Dispatches[i]
		s.Action = carried(s.Action)
		if r.Key != s.Key || r.Worker != s.Worker || r.Incarnation != s.Incarnation || r.Action != s.Action {
			return fmt.Sprintf("the dispatch %+v of %+v to incarnation %d of worker %d instead of %+v of %+v to incarnation %d of worker %d, number %d",
				r.Key, r.Action, r.Incarnation, r.Worker, s.Key, s.Action, s.Incarnation, s.Worker, i+1)
		}
		if !sameParameters(s.Parameters, r.Parameters) {
			return fmt.Sprintf("the parameters %.100q instead of %.100q of dispatch %d", r.Parameters, s.Parameters, i+1)
		}
	}
	return ""
}

// carried is what a dispatch carries of its action (docs/queues.md). A worker takes everything else
// from the row that it claims.
func carried(a execution.Action) execution.Action {
	return execution.Action{
		Ref: a.Ref, Runtime: a.Runtime, Entrypoint: a.Entrypoint, MaxRetries: a.MaxRetries,
		Timeout: wholeMilliseconds(a.Timeout), DispatchTimeout: wholeMilliseconds(a.DispatchTimeout),
	}
}

// Loses says that a message does not carry all of its envelope, or not in the form in which the
// sender has it: parameters, durations below a millisecond, parts of an action.
func Loses(e *broker.Envelope) bool {
	for i := range e.Dispatches {
		a := &e.Dispatches[i].Action
		if e.Dispatches[i].Parameters != nil || a.Concurrency != 0 || a.PutBy != "" || a.RetriedExitCodes != (execution.ExitCodes{}) ||
			a.Timeout%time.Millisecond != 0 || a.DispatchTimeout%time.Millisecond != 0 {
			return true
		}
	}
	return false
}

// sameParameters compares parameters by their text. Encode leaves out spaces between values, and
// null stands for none.
func sameParameters(sent, read []byte) bool {
	var compact bytes.Buffer
	if len(sent) > 0 && json.Compact(&compact, sent) != nil {
		return false
	}
	if text := compact.String(); text != "null" {
		return text == string(read)
	}
	return len(read) == 0
}

// wholeMilliseconds rounds up, because 0 means that there is no bound ("Durations are whole
// milliseconds" in docs/queues.md).
func wholeMilliseconds(d time.Duration) time.Duration {
	if rest := d % time.Millisecond; rest > 0 {
		d += time.Millisecond - rest
	}
	return d
}
