package jobhistory

import (
	"bufio"
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxLine is the size of the longest line that is read, in bytes.
const MaxLine = 1 << 20

// Header is the first line of a history. All of it may be left out.
type Header struct {
	// History is the version of the format.
	History int    `json:"history"`
	System  string `json:"system,omitempty"`
	// Promises are the system's promises as docs/history.md describes them, and Slack is how late anything may
	// seem because of the observer and the machine.
	Promises jsontext.Value `json:"promises,omitempty"`
	Slack    string         `json:"slack,omitempty"`
	// Starts is how long a process takes to start up before it can run jobs.
	Starts string `json:"starts,omitempty"`
	Text   string `json:"text,omitempty"`
}

// Fields are a line as it is written. A time is a text in RFC 3339, or a number of nanoseconds of any clock.
type Fields struct {
	At          string  `json:"at,omitempty"`
	AtNS        *int64  `json:"at_ns,omitempty"`
	Kind        string  `json:"kind"`
	Job         string  `json:"job,omitempty"`
	Attempt     string  `json:"attempt,omitempty"`
	Actor       string  `json:"actor,omitempty"`
	Outcome     Outcome `json:"outcome,omitempty"`
	Result      string  `json:"result,omitempty"`
	Key         string  `json:"key,omitempty"`
	NotBefore   string  `json:"not_before,omitempty"`
	NotBeforeNS *int64  `json:"not_before_ns,omitempty"`
	Until       string  `json:"until,omitempty"`
	UntilNS     *int64  `json:"until_ns,omitempty"`
	Text        string  `json:"text,omitempty"`
}

// Reader reads a history line by line. It holds back the lines of the last Window, to return all in the order of
// their times; lines with one time keep their order in the file.
type Reader struct {
	name string
	// next reads the next line, and line counts them; unit is their name in messages.
	next   func(*Fields) error
	line   int
	unit   string
	lines  *bufio.Scanner
	header Header
	// first is the first event, if it was read while a header was looked for.
	first []byte
	// origin is the time of the first line on the clock of the file. dated is whether the lines have dates.
	origin int64
	begun  bool
	dated  bool
	held   heldLines
	seen   uint64
	latest time.Duration
	ended  bool
}

// NewReader reads the header, if there is one. name is the file's name in messages.
func NewReader(name string, from io.Reader) (*Reader, error) {
	r := &Reader{name: name, lines: bufio.NewScanner(from)}
	r.next = r.readFields
	r.lines.Buffer(make([]byte, 0, 64<<10), MaxLine)
	line, err := r.readLine()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s has no line", name)
	}
	if err != nil {
		return nil, err
	}
	if !IsHeader(line) {
		r.first = bytes.Clone(line)
		return r, nil
	}
	if err := json.Unmarshal(line, &r.header, json.RejectUnknownMembers(true)); err != nil {
		return nil, r.refuseLine(fmt.Errorf("the header is not as docs/history.md describes it: %w", err))
	}
	if r.header.History != Version {
		return nil, r.refuseLine(fmt.Errorf("the history is of version %d; this program reads version %d", r.header.History, Version))
	}
	return r, nil
}

// FromRows returns a reader of rows that next reads from elsewhere, such as a query; io.EOF ends them.
func FromRows(name string, next func(*Fields) error) *Reader {
	r := &Reader{name: name, unit: "row "}
	r.next = func(f *Fields) error {
		r.line++
		return next(f)
	}
	return r
}

// IsHeader reports whether a line is the header of a public history of any version.
func IsHeader(line []byte) bool {
	var h struct {
		History *jsontext.Value `json:"history"`
	}
	return json.Unmarshal(line, &h) == nil && h.History != nil
}

// IsLine reports whether a line looks like an event of a public history: it has a kind, and a time of this format.
func IsLine(line []byte) bool {
	var l struct {
		At   *jsontext.Value `json:"at"`
		AtNS *jsontext.Value `json:"at_ns"`
		Kind *jsontext.Value `json:"kind"`
	}
	return json.Unmarshal(line, &l) == nil && l.Kind != nil && (l.At != nil && l.At.Kind() == '"' || l.AtNS != nil)
}

// Header returns the header; it is zero if the file has none.
func (r *Reader) Header() Header { return r.header }

// Origin returns the moment of the first line that was read; zero if the lines have no dates.
func (r *Reader) Origin() time.Time {
	if !r.dated {
		return time.Time{}
	}
	return time.Unix(0, r.origin).UTC()
}

func (r *Reader) refuseLine(err error) error {
	return fmt.Errorf("%s:%s%d: %w", r.name, r.unit, r.line, err)
}

func (r *Reader) readLine() ([]byte, error) {
	if line := r.first; line != nil {
		r.first = nil
		return line, nil
	}
	for r.lines.Scan() {
		r.line++
		if line := bytes.TrimSpace(r.lines.Bytes()); len(line) > 0 {
			return line, nil
		}
	}
	if err := r.lines.Err(); err != nil {
		r.line++
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("the line is longer than %d bytes", MaxLine)
		}
		return nil, r.refuseLine(err)
	}
	return nil, io.EOF
}

// Next writes the next line, in the order of the times, into l. It returns io.EOF after the last one. An error about
// a line names the file and the number of the line, and no line follows it.
func (r *Reader) Next(l *Line) error {
	for !r.ended && (len(r.held) == 0 || r.held[0].line.At > r.latest-Window) {
		var f Fields
		err := r.next(&f)
		if errors.Is(err, io.EOF) {
			r.ended = true
			break
		}
		if err != nil {
			return err
		}
		one, err := r.parseFields(&f)
		if err != nil {
			return r.refuseLine(err)
		}
		if r.seen > 0 && one.At < r.latest-Window {
			return r.refuseLine(fmt.Errorf("the line is %s earlier than one before it; at most %s is sorted", r.latest-one.At, Window))
		}
		r.latest = max(r.latest, one.At)
		r.seen++
		heap.Push(&r.held, heldLine{one, r.seen})
	}
	if len(r.held) == 0 {
		return io.EOF
	}
	*l = heap.Pop(&r.held).(heldLine).line //nolint:forcetypeassert // the heap has only these
	return nil
}

func (r *Reader) readFields(f *Fields) error {
	raw, err := r.readLine()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, f, json.RejectUnknownMembers(true)); err != nil {
		return r.refuseLine(fmt.Errorf("the line is not as docs/history.md describes it: %w", err))
	}
	return nil
}

func (r *Reader) parseFields(f *Fields) (Line, error) {
	l := Line{Job: f.Job, Attempt: f.Attempt, Actor: f.Actor, Outcome: f.Outcome, Result: f.Result, Key: f.Key, Text: f.Text}
	var err error
	if l.Kind, err = kindOf(f.Kind); err != nil {
		return l, err
	}
	if f.At == "" && f.AtNS == nil {
		return l, errors.New("the line has no time: at (RFC 3339) or at_ns (a number of nanoseconds)")
	}
	if l.At, err = r.readMoment("at", f.At, f.AtNS); err != nil {
		return l, err
	}
	if l.NotBefore, err = r.readMoment("not_before", f.NotBefore, f.NotBeforeNS); err != nil {
		return l, err
	}
	if l.Until, err = r.readMoment("until", f.Until, f.UntilNS); err != nil {
		return l, err
	}
	if l.Kind == Stalled && f.Until == "" && f.UntilNS == nil {
		return l, errors.New("a stall needs an end: until")
	}
	return l, l.checkFields()
}

// readMoment reads a time and returns it since the origin, which is the first time that is read. A field that was left
// out is 0.
func (r *Reader) readMoment(name, text string, number *int64) (time.Duration, error) {
	if text == "" && number == nil {
		return 0, nil
	}
	if text != "" && number != nil {
		return 0, fmt.Errorf("give %s or %s_ns, not both", name, name)
	}
	if r.begun && r.dated != (number == nil) {
		return 0, fmt.Errorf("%s mixes dates and numbers of nanoseconds: one history has one clock", name)
	}
	var ns int64
	if number != nil {
		ns = *number
	} else {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return 0, fmt.Errorf("%s is %q, not a time in RFC 3339, such as 2026-11-27T10:00:00.210Z", name, text)
		}
		ns = at.UnixNano()
	}
	if !r.begun {
		r.begun, r.dated, r.origin = true, number == nil, ns
	}
	return time.Duration(ns - r.origin), nil
}

// heldLine is a line with its position in the file.
type heldLine struct {
	line Line
	n    uint64
}

// heldLines is a heap: the earliest line first.
type heldLines []heldLine

func (h heldLines) Len() int { return len(h) }
func (h heldLines) Less(i, j int) bool {
	if h[i].line.At != h[j].line.At {
		return h[i].line.At < h[j].line.At
	}
	return h[i].n < h[j].n
}
func (h heldLines) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heldLines) Push(x any)   { *h = append(*h, x.(heldLine)) } //nolint:forcetypeassert // as above
func (h *heldLines) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = heldLine{}
	*h = (*h)[:last]
	return x
}
