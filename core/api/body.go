package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"handoff/core/config/yamlfile"
)

// body reads a request's JSON once, from beginning to end, and collects mistakes with their positions.
// Reading ends at a syntax error, at maxMistakes, and when the client has disconnected.
type body struct {
	ctx      context.Context
	data     []byte
	dec      *jsontext.Decoder
	mistakes []FieldError
	// ended reports whether reading has stopped.
	ended bool
}

// parseBody begins to read one JSON object. The caller reads its content and then calls close.
func parseBody(ctx context.Context, data []byte) (*body, bool) {
	// The body itself must be valid UTF-8. The option only allows an escape of half a character, as in
	// "\ud800".
	b := &body{ctx: ctx, data: data, dec: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))}
	if !utf8.Valid(data) {
		return b, b.endReading(invalidUTF8(data), "is not UTF-8 text")
	}
	switch kind := b.dec.PeekKind(); {
	case len(bytes.TrimSpace(data)) == 0:
		return b, b.endReading(0, "the body is empty; send a JSON object")
	case kind != '{' && kind != jsontext.KindInvalid:
		v, ok := b.readValue("")
		if ok {
			b.endReading(v.at, "must be a JSON object, is "+v.kindName())
		}
		return b, false
	}
	return b, true
}

// nestedBody returns a body for the members of a value; offsets count from the value's first byte.
func (b *body) nestedBody(v value) *body {
	p := *b
	p.data, p.mistakes = v.raw, nil
	p.dec = jsontext.NewDecoder(bytes.NewBuffer(v.raw), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	return &p
}

// endReading stops reading and replaces all earlier mistakes with a fatal one. It returns false.
func (b *body) endReading(at int, detail string) bool {
	b.mistakes = b.mistakes[:0]
	b.refuseAt("", at, detail)
	b.ended = true
	return false
}

// endAfterError stops reading after a decoder error. It returns false.
func (b *body) endAfterError(err error) bool {
	if b.ended {
		return false
	}
	at, why := len(b.data), "the body ends in the middle"
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF) {
		at, why = int(syntax.ByteOffset), syntax.Err.Error()
	}
	return b.endReading(at, "is not JSON: "+why)
}

// close reads the rest of the body, and reports whether the body had no mistakes.
func (b *body) close() bool {
	if !b.ended {
		rest := b.data[b.dec.InputOffset():]
		if text := bytes.TrimLeft(rest, " \t\r\n"); len(text) > 0 {
			b.endReading(len(b.data)-len(text), "is not JSON: something follows after the object")
		}
	}
	return len(b.mistakes) == 0
}

// isReading reports whether reading may continue; if the client has disconnected, it stops reading.
func (b *body) isReading() bool {
	if !b.ended && b.ctx.Err() != nil {
		b.endReading(0, "the client has gone")
	}
	return !b.ended
}

// value is one JSON value in a body.
type value struct {
	// pointer is its JSON pointer; at is the offset of its first byte.
	pointer string
	at      int
	raw     []byte
}

// kindName names the value's JSON type in a sentence.
func (v value) kindName() string { return kindNamed(v.raw[0]) }

func kindNamed(first byte) string {
	switch first {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// readValue reads the whole next value.
func (b *body) readValue(pointer string) (value, bool) {
	raw, err := b.dec.ReadValue()
	if err != nil {
		return value{}, b.endAfterError(err)
	}
	return value{pointer: pointer, at: int(b.dec.InputOffset()) - len(raw), raw: raw}, true
}

// enterNested begins the next object or list, and returns its position.
func (b *body) enterNested(pointer string, kind jsontext.Kind) (at int, ok bool) {
	if next := b.dec.PeekKind(); next != kind && next != jsontext.KindInvalid {
		v, ok := b.readValue(pointer)
		if ok {
			b.refuseAt(pointer, v.at, "must be "+kindNamed(byte(kind))+", is "+v.kindName())
		}
		return v.at, false
	}
	if _, err := b.dec.ReadToken(); err != nil {
		return 0, b.endAfterError(err)
	}
	return int(b.dec.InputOffset()) - 1, true
}

// hasMore reports whether the current object or list has another member. If not, it ends the object or list.
func (b *body) hasMore(end jsontext.Kind) bool {
	if !b.isReading() {
		return false
	}
	if b.dec.PeekKind() != end {
		return true
	}
	if _, err := b.dec.ReadToken(); err != nil {
		b.endAfterError(err)
	}
	return false
}

func (b *body) refuseAt(pointer string, at int, detail string) {
	b.addMistake(FieldError{Field: pointer, at: at, Detail: detail})
}

func (b *body) addMistake(e FieldError) {
	if b.ended {
		return
	}
	e.placed = true
	b.mistakes = append(b.mistakes, e)
	b.ended = len(b.mistakes) >= maxMistakes
}

// mistakesProblem returns the response to a body with mistakes.
func (b *body) mistakesProblem(detail string) *Problem {
	if len(b.mistakes) >= maxMistakes {
		detail += fmt.Sprintf(" It was read up to its mistake number %d; there may be more.", maxMistakes)
	}
	locateMistakes(b.data, b.mistakes)
	return badRequest(detail, b.mistakes...)
}

// locateMistakes turns the offsets of mistakes into lines and columns, counted in characters from 1, in one
// pass over the body.
func locateMistakes(data []byte, mistakes ...[]FieldError) {
	var all []*FieldError
	for _, list := range mistakes {
		for i := range list {
			if list[i].placed {
				all = append(all, &list[i])
			}
		}
	}
	slices.SortStableFunc(all, func(x, y *FieldError) int { return x.at - y.at })
	line, column, from := 1, 1, 0
	for _, e := range all {
		passed := data[from:max(from, min(e.at, len(data)))]
		if lines := bytes.Count(passed, []byte("\n")); lines > 0 {
			line, column = line+lines, 1
			column += utf8.RuneCount(passed[bytes.LastIndexByte(passed, '\n')+1:])
		} else {
			column += utf8.RuneCount(passed)
		}
		from += len(passed)
		e.Line, e.Column, e.placed = line, column, false
	}
}

// readObject reads the next object and returns its fields by name. It refuses unknown and duplicate fields.
// For the field named streamed it calls stream, which must read the value.
func (b *body) readObject(pointer string, allowed []string, streamed string, stream func(pointer string)) (root value, fields map[string]value) {
	root.pointer = pointer
	var ok bool
	if root.at, ok = b.enterNested(pointer, '{'); !ok {
		return root, nil
	}
	fields = map[string]value{}
	for b.hasMore('}') {
		key, ok := b.readValue("")
		if !ok {
			break
		}
		name := fieldName(key.raw)
		field := pointer + "/" + escapePointer(yamlfile.Cut(name))
		_, doubled := fields[name]
		switch {
		case !slices.Contains(allowed, name):
			b.addMistake(FieldError{
				Field: field, at: key.at, Detail: fmt.Sprintf("unknown field %q", yamlfile.Cut(name)), Allowed: allowed, Nearest: yamlfile.Nearest(name, allowed),
			})
		case doubled:
			b.refuseAt(field, key.at, "duplicate field")
		case name == streamed:
			fields[name] = value{pointer: field, at: key.at}
			stream(field)
			continue
		default:
			if v, ok := b.readValue(field); ok {
				fields[name] = v
			}
			continue
		}
		if b.isReading() {
			if err := b.dec.SkipValue(); err != nil {
				b.endAfterError(err)
			}
		}
	}
	return root, fields
}

// fieldName returns the name of a field. Of a name longer than every allowed one it returns only the
// beginning, with escapes as written.
func fieldName(raw []byte) (name string) {
	if len(raw) > maxFieldName {
		return strings.ToValidUTF8(string(raw[1:maxFieldName]), "")
	}
	_ = json.Unmarshal(raw, &name)
	return name
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// escapePointer escapes a name as a part of a JSON pointer.
func escapePointer(name string) string { return pointerEscapes.Replace(name) }

// readItems reads at most `most` elements of the next list. It calls each for every element, and each must
// read it. It returns the number of elements; if there are more, n is `most` + 1.
func (b *body) readItems(pointer string, most int, each func(pointer string)) (at, n int, ok bool) {
	if at, ok = b.enterNested(pointer, '['); !ok {
		return at, 0, false
	}
	for b.hasMore(']') {
		if n++; n > most {
			return at, n, true
		}
		each(pointer + "/" + strconv.Itoa(n-1))
	}
	return at, n, !b.ended
}

// readText reads a string.
func (b *body) readText(v value) (string, bool) {
	var s string
	if v.raw[0] != '"' || json.Unmarshal(v.raw, &s) != nil {
		b.refuseAt(v.pointer, v.at, "must be a string, is "+v.kindName())
		return "", false
	}
	return s, true
}

// readInteger reads a whole number within bounds; null, if allowed, is 0.
func (b *body) readInteger(v value, least, most int64, null bool) (int64, bool) {
	if null && v.raw[0] == 'n' {
		return 0, true
	}
	n, err := strconv.ParseInt(string(v.raw[:min(len(v.raw), 24)]), 10, 64)
	if err != nil || n < least || n > most {
		b.refuseAt(v.pointer, v.at, fmt.Sprintf("must be a whole number from %d to %d", least, most))
		return 0, false
	}
	return n, true
}

// readIntegerField reads a field with a whole number within bounds. It returns 0 if the field is missing or
// invalid.
func (b *body) readIntegerField(fields map[string]value, key string, least, most int64, null bool) (n int64) {
	if f, given := fields[key]; given {
		n, _ = b.readInteger(f, least, most, null)
	}
	return n
}

// readIntegers reads a list of whole numbers from 1 to greatest, at most `most` of them. n is the number of
// elements; if there are more, it is `most` + 1.
func (b *body) readIntegers(f value, most int, greatest int64) (numbers []int64, n int, ok bool) {
	part := b.nestedBody(f)
	_, n, ok = part.readItems(f.pointer, most, func(pointer string) {
		if v, ok := part.readValue(pointer); ok {
			if number, ok := part.readInteger(v, 1, greatest, false); ok {
				numbers = append(numbers, number)
			}
		}
	})
	for _, m := range part.mistakes {
		m.at += f.at
		b.addMistake(m)
	}
	return numbers, n, ok
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8.
func invalidUTF8(data []byte) (at int) {
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// tooDeep returns the offset at which valid JSON is nested deeper than `most`, or -1.
func tooDeep(raw []byte, most int) int {
	if bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("[")) <= most {
		return -1
	}
	depth, inText := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

// sameJSON reports whether two pieces of JSON are equal, apart from spaces and the order of fields.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	canonical := func(raw []byte) ([]byte, error) {
		if len(raw) == 0 {
			return []byte("{}"), nil
		}
		v := jsontext.Value(bytes.Clone(raw))
		err := v.Format(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false))
		return v, err
	}
	x, errX := canonical(a)
	y, errY := canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// optionalBody reads the body of a request if it has one.
func optionalBody(w http.ResponseWriter, r *http.Request, allowed []string, use func(b *body, fields map[string]value)) *Problem {
	if r.ContentLength == 0 {
		return nil
	}
	data, problem := readBody(w, r, maxBody)
	if problem != nil {
		return problem
	}
	b, ok := parseBody(r.Context(), data)
	if ok {
		_, fields := b.readObject("", allowed, "", nil)
		if use(b, fields); b.close() {
			return nil
		}
	}
	return b.mistakesProblem("The body can't be used.")
}

// noBody refuses a request whose body is not empty.
func noBody(w http.ResponseWriter, r *http.Request) *Problem {
	return optionalBody(w, r, []string{}, func(*body, map[string]value) {})
}
