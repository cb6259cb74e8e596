package reports

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

// Limits on a history. A file from an unknown source must not cost more than its length, whatever numbers and
// names it contains. Real histories stay far below.
const (
	// MaxHistoryLine is the maximum length of a line in bytes.
	MaxHistoryLine = 1 << 20
	// maxName limits a name in bytes, and maxNames a list of processes or queues that a fault affects.
	maxName  = 1024
	maxNames = 1 << 16
	// maxDistinct limits the numbers of distinct processes, actions, runtimes and incarnations of workers.
	maxDistinct = 10_000
	// maxMoment limits every time, so that small sums of times don't overflow. A time may be up to a day
	// before the start, because a live run has several clocks.
	maxMoment = 10 * 366 * 24 * time.Hour
	earliest  = -24 * time.Hour
	// maxID limits row numbers. It is the largest number that every JSON reader represents exactly. maxAmount
	// limits counts.
	maxID     = 1<<53 - 1
	maxAmount = math.MaxInt32
	// mostWarnings is the maximum number of warnings about a header.
	mostWarnings = 20
)

// HistoryReader reads a history line by line. Its memory depends on the longest line and on the number of
// distinct names, never on the length of the file.
//
// It refuses lines longer than MaxHistoryLine and lines that are not a JSON object in UTF-8, with file, line
// and column. It also refuses unknown or duplicate fields, unknown names of enumerations (see Next), and
// values beyond the limits above. Times don't have to ascend: the events of a live run are in order, but
// dated by several clocks.
type HistoryReader struct {
	file   string
	lines  *bufio.Scanner
	line   int
	record verdict.Record

	names map[string]string
	// processes, actions, runtimes and incarnations hold the distinct values so far.
	processes, actions, runtimes map[string]bool
	incarnations                 map[execution.Incarnation]bool
	// warnings lists the kinds of events in the header that this program doesn't know.
	warnings yamlfile.Errors
	// skew is the sum of the steps of the database's clock so far.
	skew time.Duration
	// scratch holds the line that is being read.
	scratch historyLine
}

// NewHistoryReader reads the header of a history. Errors use file as its name.
func NewHistoryReader(file string, r io.Reader) (*HistoryReader, error) {
	h := &HistoryReader{
		file: file, lines: bufio.NewScanner(r), names: make(map[string]string),
		processes: make(map[string]bool), actions: make(map[string]bool), runtimes: make(map[string]bool),
		incarnations: make(map[execution.Incarnation]bool),
	}
	// The scanner counts the newline too.
	h.lines.Buffer(nil, MaxHistoryLine+1)
	text, err := h.nextLine()
	switch {
	case errors.Is(err, io.EOF):
		h.line = 1
		return nil, h.refuseAt(1, "the history is empty, not even a header")
	case err != nil:
		return nil, err
	case h.line > 1:
		h.line = 1
		return nil, h.refuseAt(1, "the first line is empty; it must be the header")
	}
	return h, h.readHeader(text)
}

// Header returns the content of the first line: a record without events.
func (h *HistoryReader) Header() *verdict.Record { return &h.record }

// Warnings lists the kinds of events in the header that this program doesn't know.
func (h *HistoryReader) Warnings() yamlfile.Errors { return h.warnings }

// Next reads the next event into e. It returns io.EOF after the last one. After a *history.UnknownWord,
// reading can continue; e then holds the readable part of the event.
func (h *HistoryReader) Next(e *history.Event) error {
	text, err := h.nextLine()
	if err != nil {
		return err
	}
	l := &h.scratch
	*l = historyLine{}
	if err := h.decodeLine(text, l, lineFields); err != nil {
		return err
	}
	if p := l.checkFields(); p.Message != "" {
		return h.refuseField(text, p)
	}
	*e = l.toEvent()
	unknown := l.parseNames(e)
	h.internNames(e)
	if p := h.limitDistinct(e); p.Message != "" {
		return h.refuseField(text, p)
	}
	switch {
	case l.Kind == "":
		return h.refuseField(text, unknown)
	case unknown.Message != "":
		return &history.UnknownWord{Err: h.refuseField(text, unknown)}
	}
	return nil
}

// ReadHistory reads a whole history written by WriteHistory. It computes FaultIntervals from the events.
// Errors use file as the name of the history.
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

// nextLine returns the next non-empty line.
func (h *HistoryReader) nextLine() ([]byte, error) {
	for h.lines.Scan() {
		h.line++
		text := h.lines.Bytes()
		if h.line == 1 && bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
			return nil, h.refuseAt(1, "the file is compressed with gzip; unpack it first")
		}
		if len(bytes.TrimSpace(text)) > 0 {
			return text, nil
		}
	}
	h.line++
	switch err := h.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, h.refuseAt(MaxHistoryLine+1, fmt.Sprintf("the line has more than %d bytes; a history has one JSON object a line", MaxHistoryLine))
	case err != nil:
		return nil, h.refuseAt(1, "reading the line: "+err.Error())
	}
	return nil, io.EOF
}

func (h *HistoryReader) refuseAt(column int, message string) error {
	return yamlfile.Problem{File: h.file, Line: h.line, Column: column, Message: message}
}

// fieldProblem is a problem with the field that it names.
type fieldProblem struct {
	name string
	yamlfile.Problem
}

// refuseField refuses a field of a decoded line.
func (h *HistoryReader) refuseField(text []byte, f fieldProblem) error {
	p := f.Problem
	p.File, p.Line, p.Column = h.file, h.line, keyColumn(text, f.name)
	p.Message = f.name + ": " + p.Message
	return p
}

// keyColumn returns the column of a key in a JSON object; 1 if the object lacks it.
func keyColumn(object []byte, key string) int {
	for d := jsontext.NewDecoder(bytes.NewReader(object)); ; {
		token, err := d.ReadToken()
		if err != nil {
			return 1
		}
		if token.Kind() == '"' && token.String() == key {
			if kind, n := d.StackIndex(d.StackDepth()); d.StackDepth() == 1 && kind == '{' && n%2 == 1 {
				return runeColumn(object, int(d.InputOffset())-len(key)-2)
			}
		}
	}
}

// runeColumn returns the column, in characters, of a byte offset in a line.
func runeColumn(text []byte, offset int) int {
	return utf8.RuneCount(text[:min(max(offset, 0), len(text))]) + 1
}

func (h *HistoryReader) readHeader(text []byte) error {
	complain := func(name, message string, args ...any) error {
		return h.refuseField(text, newFieldProblem(name, message, args...))
	}
	// A newer schema may have other fields, so its number is checked first.
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(text, &version); err == nil && version.Schema != HistorySchema {
		return complain("schema", "the history has schema %d, this program reads schema %d", version.Schema, HistorySchema)
	}
	head := historyHeader{Profile: &h.record.Profile}
	if err := h.decodeLine(text, &head, headerFields); err != nil {
		return err
	}
	switch {
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
		kind, err := history.ParseKind(clipQuotation(name))
		if err != nil {
			// No invariant needs an unknown kind, so it is only a warning.
			var unknown yamlfile.Problem
			if errors.As(h.refuseField(text, fieldProblem{"kinds", yamlfile.Problem{Message: err.Error(), Allowed: kindNames[1:]}}), &unknown) && len(h.warnings) < mostWarnings {
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

// The fields of the first line, and of the other lines, in their order.
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

// decodeLine decodes one line strictly: a misspelt key must not be mistaken for a missing field, and a
// duplicate must not hide the first value.
func (h *HistoryReader) decodeLine(text []byte, into any, known []string) error {
	if start := len(text) - len(bytes.TrimLeft(text, " \t\r")); text[start] != '{' {
		return h.refuseAt(runeColumn(text, start), fmt.Sprintf("a line of a history is a JSON object and begins with {, this one with %q", clipQuotation(string(text[start:]))))
	}
	err := json.Unmarshal(text, into, json.RejectUnknownMembers(true))
	var syntax *jsontext.SyntacticError
	var value *json.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax) && strings.Contains(syntax.Err.Error(), "after top-level value"):
		return h.refuseAt(runeColumn(text, int(syntax.ByteOffset)), "one object a line, and here is more")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return h.refuseAt(runeColumn(text, int(syntax.ByteOffset)), fmt.Sprintf("duplicate field %q", syntax.JSONPointer.LastToken()))
	case syntax != nil && errors.Is(err, io.ErrUnexpectedEOF):
		return h.refuseAt(runeColumn(text, int(syntax.ByteOffset)), "the line ends in the middle of its object: the file was cut off")
	case syntax != nil:
		return h.refuseAt(runeColumn(text, int(syntax.ByteOffset)), syntax.Err.Error())
	case !errors.As(err, &value):
		return h.refuseAt(1, err.Error())
	}
	p := yamlfile.Problem{File: h.file, Line: h.line, Column: runeColumn(text, int(value.ByteOffset))}
	if name := clipQuotation(strings.TrimPrefix(string(value.JSONPointer), "/")); errors.Is(err, json.ErrUnknownName) {
		p.Message, p.Allowed, p.Nearest = fmt.Sprintf("unknown field %q", name), known, yamlfile.Nearest(name, known)
	} else {
		p.Message = strings.TrimSpace(fmt.Sprintf("%s can't be a %s %s", name, value.JSONKind, clipQuotation(string(value.JSONValue))))
	}
	return p
}

// clipQuotation shortens a quotation in an error.
func clipQuotation(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
