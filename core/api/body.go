package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"handoff/core/config/yamlfile"
)

// maxJSONDepth bounds the nesting of a body; the database's own parser is recursive.
const maxJSONDepth = 64

// body reads a request's JSON and gathers every mistake with its position. encoding/json alone
// would stop at the first unknown field, without saying where it stands, and take the second of two
// fields of one name.
type body struct {
	data     []byte
	mistakes []FieldError
}

// parseBody checks that data is one JSON object of text; what is in it is for the caller to read.
func parseBody(data []byte) (*body, value, bool) {
	b := &body{data: data}
	if at, ok := invalidUTF8(data); !ok {
		b.refuse("", at, "is not UTF-8 text")
		return b, value{}, false
	}
	if len(bytes.TrimSpace(data)) == 0 {
		b.refuse("", 0, "the body is empty; send a JSON object")
		return b, value{}, false
	}
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		at, text := len(data), err.Error()
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = int(syntax.Offset) - 1
			if strings.HasPrefix(text, "unexpected end") {
				at, text = len(data), "the body ends in the middle"
			}
		}
		b.refuse("", at, "is not JSON: "+text)
		return b, value{}, false
	}
	at := b.skip(0)
	root := value{raw: bytes.TrimSpace(data), at: at}
	if depthAt := tooDeep(root.raw); depthAt >= 0 {
		b.refuse("", at+depthAt, fmt.Sprintf("is nested deeper than %d levels", maxJSONDepth))
		return b, value{}, false
	}
	if root.raw[0] != '{' {
		b.refuse("", at, "must be a JSON object, is "+root.kind())
		return b, value{}, false
	}
	return b, root, true
}

// value is a piece of valid JSON in a body.
type value struct {
	// pointer is its JSON pointer, at the offset of its first byte.
	pointer string
	at      int
	raw     []byte
}

// kind names what a value is.
func (v value) kind() string {
	switch v.raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "a truth value"
	case 'n':
		return "null"
	}
	return "a number"
}

func (b *body) refuse(pointer string, at int, detail string) {
	line, column := position(b.data, at)
	b.mistakes = append(b.mistakes, FieldError{Field: pointer, Line: line, Column: column, Detail: detail})
}

// position turns an offset into line and column, in characters from 1.
func position(data []byte, at int) (line, column int) {
	before := data[:max(0, min(at, len(data)))]
	line = 1 + bytes.Count(before, []byte("\n"))
	return line, 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
}

// skip is the offset of the next byte that is neither space nor punctuation between values.
func (b *body) skip(at int) int {
	for at < len(b.data) && strings.IndexByte(" \t\r\n,:", b.data[at]) >= 0 {
		at++
	}
	return at
}

// object lists the fields of an object by name; unknown and doubled ones are refused.
func (b *body) object(v value, allowed []string) (map[string]value, bool) {
	if v.raw[0] != '{' {
		b.refuse(v.pointer, v.at, "must be an object, is "+v.kind())
		return nil, false
	}
	fields := map[string]value{}
	before := len(b.mistakes)
	dec := json.NewDecoder(bytes.NewReader(v.raw))
	_, _ = dec.Token() // the brace; the JSON is known to be valid
	for dec.More() {
		keyAt := b.skip(v.at + int(dec.InputOffset()))
		key, _ := dec.Token()
		name, _ := key.(string)
		field := value{pointer: v.pointer + "/" + escape(name), at: b.skip(v.at + int(dec.InputOffset()))}
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return nil, false
		}
		field.raw = raw
		_, doubled := fields[name]
		switch {
		case !slices.Contains(allowed, name):
			b.refuse(field.pointer, keyAt, fmt.Sprintf("unknown field %q", name))
			last := &b.mistakes[len(b.mistakes)-1]
			last.Allowed, last.Nearest = allowed, yamlfile.Nearest(name, allowed)
		case doubled:
			b.refuse(field.pointer, keyAt, "stands twice")
		default:
			fields[name] = field
		}
	}
	return fields, len(b.mistakes) == before
}

// escape writes a name as a part of a JSON pointer.
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// items lists the elements of a list.
func (b *body) items(v value) ([]value, bool) {
	if v.raw[0] != '[' {
		b.refuse(v.pointer, v.at, "must be a list, is "+v.kind())
		return nil, false
	}
	var list []value
	dec := json.NewDecoder(bytes.NewReader(v.raw))
	_, _ = dec.Token()
	for dec.More() {
		item := value{pointer: v.pointer + "/" + strconv.Itoa(len(list)), at: b.skip(v.at + int(dec.InputOffset()))}
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return nil, false
		}
		item.raw = raw
		list = append(list, item)
	}
	return list, true
}

// text reads a text.
func (b *body) text(v value) (string, bool) {
	var s string
	if v.raw[0] != '"' || json.Unmarshal(v.raw, &s) != nil {
		b.refuse(v.pointer, v.at, "must be a text, is "+v.kind())
		return "", false
	}
	return s, true
}

// integer reads a whole number within bounds; null is 0 where that is allowed.
func (b *body) integer(v value, least, most int64, null bool) (int64, bool) {
	if null && v.raw[0] == 'n' {
		return 0, true
	}
	n, err := strconv.ParseInt(string(v.raw), 10, 64)
	if err != nil || n < least || n > most {
		b.refuse(v.pointer, v.at, fmt.Sprintf("must be a whole number from %d to %d", least, most))
		return 0, false
	}
	return n, true
}

// invalidUTF8 finds the first byte that is no text.
func invalidUTF8(data []byte) (at int, ok bool) {
	if utf8.Valid(data) {
		return 0, true
	}
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at, false
}

// tooDeep is where valid JSON becomes nested too deep, or -1.
func tooDeep(raw []byte) int {
	depth, inText := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			if depth++; depth > maxJSONDepth {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

// sameJSON says that two pieces of JSON mean the same: neither spaces nor the order of fields count.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	canonical := func(raw []byte) ([]byte, bool) {
		if len(raw) == 0 {
			return []byte("{}"), true
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) != nil {
			return nil, false
		}
		out, err := json.Marshal(v) // sorts the fields
		return out, err == nil
	}
	x, okX := canonical(a)
	y, okY := canonical(b)
	return okX && okY && bytes.Equal(x, y)
}

// optionalBody reads the body of a request that may do without one.
func optionalBody(w http.ResponseWriter, r *http.Request, allowed []string, use func(b *body, fields map[string]value)) *Problem {
	if r.ContentLength == 0 {
		return nil
	}
	data, problem := read(w, r, maxBody)
	if problem != nil {
		return problem
	}
	b, root, ok := parseBody(data)
	if ok {
		var fields map[string]value
		fields, ok = b.object(root, allowed)
		use(b, fields)
	}
	if !ok || len(b.mistakes) > 0 {
		return badRequest("The body can't be used.", b.mistakes...)
	}
	return nil
}

// noBody refuses a body that says something.
func noBody(w http.ResponseWriter, r *http.Request) *Problem {
	return optionalBody(w, r, []string{}, func(*body, map[string]value) {})
}
