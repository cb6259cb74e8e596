package reports

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

// Limits on a history. A file from elsewhere must not cost more than its own length, whatever
// numbers and names it contains. Real histories stay far below.
const (
	// MaxHistoryLine is the longest line, in bytes.
	MaxHistoryLine = 1 << 20
	// maxName limits a name in bytes, maxNames a list of processes or queues that a fault strikes.
	maxName  = 1024
	maxNames = 1 << 16
	// maxDistinct limits the number of different processes, actions, runtimes and incarnations of
	// workers.
	maxDistinct = 10_000
	// maxMoment limits every time, so that sums of a few times don't overflow. A time may be up to
	// a day before the start, because a live run has several clocks.
	maxMoment = 10 * 366 * 24 * time.Hour
	earliest  = -24 * time.Hour
	// maxID limits the numbers of rows; it is the largest number that every reader of JSON keeps
	// exactly. maxAmount limits counts.
	maxID     = 1<<53 - 1
	maxAmount = math.MaxInt32
	// mostWarnings limits the number of warnings about a header.
	mostWarnings = 20
)

// HistoryReader reads a history line by line. Its memory depends on the longest line and on the
// number of different names, never on the length of the file.
//
// It refuses, with file, line and column: a line that is longer than MaxHistoryLine or no JSON
// object, text that is not UTF-8, unknown and duplicate fields, unknown names of enumerations (see
// Next), and numbers, names and amounts beyond the limits above. Times need not ascend: the events
// of a live run are in the order in which they happened, but several clocks date them.
type HistoryReader struct {
	file   string
	lines  *bufio.Scanner
	line   int
	record verdict.Record

	names map[string]string
	// processes, actions, runtimes and incarnations hold the different ones so far.
	processes, actions, runtimes map[string]bool
	incarnations                 map[execution.Incarnation]bool
	// warnings lists the kinds of events in the header that this program doesn't know.
	warnings yamlfile.Errors
	// skew is how far, according to the events, the database's clock was moved.
	skew time.Duration
	// scratch is the line that is being read.
	scratch historyLine
}

// NewHistoryReader reads the header of a history. Errors call it by the name in file.
func NewHistoryReader(file string, r io.Reader) (*HistoryReader, error) {
	h := &HistoryReader{
		file: file, lines: bufio.NewScanner(r), names: make(map[string]string),
		processes: make(map[string]bool), actions: make(map[string]bool), runtimes: make(map[string]bool),
		incarnations: make(map[execution.Incarnation]bool),
	}
	// The scanner counts the line's end too.
	h.lines.Buffer(nil, MaxHistoryLine+1)
	text, err := h.next()
	switch {
	case errors.Is(err, io.EOF):
		h.line = 1
		return nil, h.refuse(1, "the history is empty, not even a header")
	case err != nil:
		return nil, err
	case h.line > 1:
		h.line = 1
		return nil, h.refuse(1, "the first line is empty; it must be the header")
	}
	return h, h.header(text)
}

// Header is the content of the first line: a record without events.
func (h *HistoryReader) Header() *verdict.Record { return &h.record }

// Warnings lists the kinds of events in the header that this program doesn't know.
func (h *HistoryReader) Warnings() yamlfile.Errors { return h.warnings }

// Next reads the next event into e. It returns io.EOF after the last one. After a
// *history.UnknownWord, reading can go on; e then holds what could be read of the event.
func (h *HistoryReader) Next(e *history.Event) error {
	text, err := h.next()
	if err != nil {
		return err
	}
	l := &h.scratch
	*l = historyLine{}
	if !readPlain(text, l) {
		*l = historyLine{}
		if _, err := h.decode(text, l, lineFields); err != nil {
			return err
		}
	}
	if p := l.check(); p.Message != "" {
		return h.refuseLine(text, p)
	}
	*e = l.event()
	unknown := l.names(e)
	h.intern(e)
	if p := h.amounts(e); p.Message != "" {
		return h.refuseLine(text, p)
	}
	switch {
	case l.Kind == "":
		return h.refuseLine(text, unknown)
	case unknown.Message != "":
		return &history.UnknownWord{Err: h.refuseLine(text, unknown)}
	}
	return nil
}

// refuseLine refuses a field of a line that could be decoded. It decodes it again, for the field's
// column.
func (h *HistoryReader) refuseLine(text []byte, f field) error {
	var l historyLine
	at, err := h.decode(text, &l, lineFields)
	if err != nil {
		return err
	}
	return h.refuseField(at, f)
}

// ReadHistory reads a whole history that WriteHistory wrote. It computes FaultIntervals from the
// events. Errors call the history by the name in file.
func ReadHistory(file string, r io.Reader) (*verdict.Record, error) {
	h, err := NewHistoryReader(file, r)
	if err != nil {
		return nil, err
	}
	record := h.Header()
	for {
		var e history.Event
		switch err := h.Next(&e); {
		case errors.Is(err, io.EOF):
			record.FaultIntervals = faultIntervalsOf(record.Events)
			return record, nil
		case err != nil:
			return nil, err
		}
		record.Events = append(record.Events, e)
	}
}

// next returns the next line that is not empty.
func (h *HistoryReader) next() ([]byte, error) {
	for h.lines.Scan() {
		h.line++
		text := h.lines.Bytes()
		if h.line == 1 && bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
			return nil, h.refuse(1, "the file is compressed with gzip; unpack it first")
		}
		if len(bytes.TrimSpace(text)) > 0 {
			return text, nil
		}
	}
	h.line++
	switch err := h.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, h.refuse(MaxHistoryLine+1, fmt.Sprintf("the line has more than %d bytes; a history has one JSON object a line", MaxHistoryLine))
	case err != nil:
		return nil, h.refuse(1, "reading the line: "+err.Error())
	}
	return nil, io.EOF
}

func (h *HistoryReader) refuse(column int, message string) error {
	return yamlfile.Problem{File: h.file, Line: h.line, Column: column, Message: message}
}

// field is a problem with one field, by name.
type field struct {
	name string
	yamlfile.Problem
}

func (h *HistoryReader) refuseField(at map[string]int, f field) error {
	p := f.Problem
	p.File, p.Line, p.Column = h.file, h.line, max(1, at[f.name])
	p.Message = f.name + ": " + p.Message
	return p
}

func (h *HistoryReader) header(text []byte) error {
	head := historyHeader{Profile: &h.record.Profile}
	at, err := h.decode(text, &head, headerFields)
	// A newer schema may have other fields.
	if err != nil && head.Schema <= HistorySchema {
		return err
	}
	complain := func(name, message string, args ...any) error {
		return h.refuseField(at, field{name, yamlfile.Problem{Message: fmt.Sprintf(message, args...)}})
	}
	switch {
	case head.Schema != HistorySchema:
		return complain("schema", "the history has schema %d, this program reads schema %d", head.Schema, HistorySchema)
	case max(len(head.Scenario), len(head.Mutant), len(h.record.Profile)) > maxName:
		return complain("scenario", "scenario, profile and mutant are names of at most %d bytes", maxName)
	case len(head.Workers) > maxDistinct:
		return complain("workers", "%d workers; at most %d are read", len(head.Workers), maxDistinct)
	case head.TimeScale < 0 || head.TimeScale > 1:
		return complain("time_scale", "%v; must be above 0 and at most 1, or left out for a simulated run", head.TimeScale)
	}
	for _, name := range head.Workers {
		if len(name) > maxName {
			return complain("workers", "a name has %d bytes; at most %d are read", len(name), maxName)
		}
	}
	r := &h.record
	r.Scenario, r.Seed, r.Mutant, r.Workers, r.TimeScale = head.Scenario, head.Seed, head.Mutant, head.Workers, head.TimeScale
	for _, name := range head.Kinds {
		kind, err := history.ParseKind(clip(name))
		if err != nil {
			// A kind that this program doesn't know concerns no invariant.
			var unknown yamlfile.Problem
			if errors.As(h.refuseField(at, field{"kinds", yamlfile.Problem{Message: err.Error(), Allowed: kindNames()}}), &unknown) && len(h.warnings) < mostWarnings {
				h.warnings = append(h.warnings, unknown)
			}
			continue
		}
		if slices.Contains(r.Kinds, kind) {
			return complain("kinds", "%q is there twice", name)
		}
		r.Kinds = append(r.Kinds, kind)
	}
	return nil
}

// The fields of the first line and of the other lines, in their order.
var (
	headerFields = fieldsOf(reflect.TypeFor[historyHeader]()) //nolint:gochecknoglobals // a constant list
	lineFields   = fieldsOf(reflect.TypeFor[historyLine]())   //nolint:gochecknoglobals // a constant list
)

func fieldsOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// decode decodes one line strictly: a misspelt key of an export must not be taken for a missing
// field, and a duplicate must not hide the first value. It returns the column of each field in the
// line.
func (h *HistoryReader) decode(text []byte, into any, known []string) (map[string]int, error) {
	column := func(offset int) int { return utf8.RuneCount(text[:min(max(offset, 0), len(text))]) + 1 }
	if !utf8.Valid(text) {
		for i := 0; i < len(text); {
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				return nil, h.refuse(column(i), fmt.Sprintf("byte 0x%02x is not UTF-8 text; a history is UTF-8", text[i]))
			}
			i += size
		}
	}
	if start := len(text) - len(bytes.TrimLeft(text, " \t\r")); text[start] != '{' {
		return nil, h.refuse(column(start), fmt.Sprintf("a line of a history is a JSON object and begins with {, this one with %q", clip(string(text[start:]))))
	}
	err := json.Unmarshal(text, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && strings.Contains(err.Error(), "after top-level value"):
		return nil, h.refuse(column(int(syntax.Offset)-1), "one object a line, and here is more")
	case errors.As(err, &syntax):
		return nil, h.refuse(column(int(syntax.Offset)-1), err.Error())
	case errors.As(err, &kind):
		return nil, h.refuse(column(int(kind.Offset)-1), fmt.Sprintf("%s can't be a %s", clip(kind.Field), clip(kind.Value)))
	case err != nil:
		return nil, h.refuse(1, err.Error())
	}
	at := make(map[string]int, len(known))
	bad := yamlfile.Problem{}
	keys(text, func(key string, offset int) bool {
		bad.Line, bad.Column = h.line, column(offset)
		switch {
		case !slices.Contains(known, key):
			bad.Message, bad.Allowed, bad.Nearest = fmt.Sprintf("unknown field %q", clip(key)), known, yamlfile.Nearest(clip(key), known)
		case at[key] > 0:
			bad.Message = fmt.Sprintf("duplicate field %q", key)
		}
		at[key] = bad.Column
		return bad.Message == ""
	})
	if bad.Message != "" {
		bad.File = h.file
		return nil, bad
	}
	return at, nil
}

// keys visits the top-level keys of a valid JSON object, in the order of the text, until visit
// returns false. encoding/json silently takes the last of two equal keys, and any case of letters.
func keys(object []byte, visit func(key string, offset int) bool) {
	depth, expected := 0, false
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '{', '[':
			depth++
			expected = depth == 1
		case '}', ']':
			depth--
		case ',':
			expected = depth == 1
		case '"':
			end := i + 1
			for object[end] != '"' {
				if object[end] == '\\' {
					end++
				}
				end++
			}
			if depth == 1 && expected {
				expected = false
				if !visit(string(object[i+1:end]), i) {
					return
				}
			}
			i = end
		}
	}
}

// clip shortens a quotation in an error.
func clip(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
