package reports

import (
	"bytes"
	"sync"
	"unicode/utf8"

	"handoff/core/execution"
)

// This file decodes the lines that WriteHistory writes, three times as fast as encoding/json does
// and without garbage. A history has a million of them.

// plain decodes a line without spaces, fractions, nulls and \u escapes. It returns false for every
// other line, and for every wrong one: decode then reads the line again and says what is wrong. So
// plain must accept nothing that decode refuses, and must read the same; a fuzz test compares them.
func (h *HistoryReader) plain(text []byte, l *historyLine) bool {
	if len(text) == 0 || text[0] != '{' || !utf8.Valid(text) {
		return false
	}
	seen := lineField(0)
	for i := 1; i < len(text) && text[i] == '"'; {
		i++
		end := bytes.IndexByte(text[i:], '"')
		if end < 0 || i+end+2 >= len(text) || text[i+end+1] != ':' {
			return false
		}
		key := text[i : i+end]
		i += end + 2
		var is lineField
		if text[i] == '"' {
			value, after := h.quoted(text, i+1)
			if after < 0 {
				return false
			}
			i, is = after, h.setText(l, key, value)
		} else {
			n, after := wholeNumber(text, i)
			if after < 0 {
				return false
			}
			i = after
			if string(key) == "at_ns" {
				h.moment, l.At, is = n, &h.moment, lineAt
			} else {
				is = l.setNumber(key, n)
			}
		}
		if is == 0 || seen&is != 0 || i >= len(text) {
			return false
		}
		seen |= is
		switch text[i] {
		case ',':
			i++
		case '}':
			return i == len(text)-1
		default:
			return false
		}
	}
	return false
}

// quoted returns the content of the JSON string that begins at i, behind its quotation mark, and the
// place behind it, which is negative if this is no plain string. The content is part of text, or of
// a buffer that the next call writes over.
func (h *HistoryReader) quoted(text []byte, i int) (value []byte, after int) {
	from := i
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return text[from:i], i + 1
		case c == '\\':
			return h.escaped(text, from, i)
		case c < ' ':
			return nil, -1
		}
	}
	return nil, -1
}

// escaped is quoted for a string with its first escape at i.
func (h *HistoryReader) escaped(text []byte, from, i int) (value []byte, after int) {
	h.buffer = append(h.buffer[:0], text[from:i]...)
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			return h.buffer, i + 1
		case c < ' ':
			return nil, -1
		case c == '\\':
			i++
			if i == len(text) {
				return nil, -1
			}
			of := bytes.IndexByte([]byte(escapes), text[i])
			if of < 0 {
				return nil, -1
			}
			c = escapedAs[of]
		}
		h.buffer = append(h.buffer, c)
	}
	return nil, -1
}

// The escapes of JSON except \u, and what they stand for.
const (
	escapes   = `"\/bfnrt`
	escapedAs = "\"\\/\b\f\n\r\t"
)

// wholeNumber returns the whole number at i and the place behind it, which is negative if there is
// none, or one that may not fit.
func wholeNumber(text []byte, i int) (n int64, after int) {
	const mostDigits = 18
	negative := text[i] == '-'
	if negative {
		i++
	}
	from := i
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		if i-from == mostDigits {
			return 0, -1
		}
		n = 10*n + int64(text[i]-'0')
	}
	// A negative zero is none of an unsigned number.
	if i == from || text[from] == '0' && (negative || i-from > 1) {
		return 0, -1
	}
	if negative {
		n = -n
	}
	return n, i
}

// lineField is a set of the fields of a line.
type lineField uint32

const (
	lineAt lineField = 1 << iota
	lineStep
	lineKind
	lineExecution
	lineChain
	lineRelated
	lineEpoch
	lineOldEpoch
	lineNamed
	lineFrom
	lineTo
	lineBy
	lineReason
	lineWorker
	lineIncarnation
	lineWriter
	lineLifecycle
	lineMessage
	lineType
	lineCount
	lineLimit
	lineDue
	lineRunTimeout
	lineWaitTimeout
	lineProcess
	lineAction
	lineKey
	lineQueue
	lineFault
	lineText
)

// setNumber sets a field with a number, except at_ns, and returns which it is: none if there is no
// such field, or n is out of its type's range.
func (l *historyLine) setNumber(key []byte, n int64) lineField {
	switch string(key) {
	case "step":
		if n >= 0 {
			l.Step = uint64(n)
			return lineStep
		}
	case "execution":
		l.Execution = execution.ID(n)
		return lineExecution
	case "chain":
		l.Chain = execution.ID(n)
		return lineChain
	case "related":
		l.Related = execution.ID(n)
		return lineRelated
	case "epoch":
		l.Epoch = execution.Epoch(n)
		return lineEpoch
	case "old_epoch":
		l.OldEpoch = execution.Epoch(n)
		return lineOldEpoch
	case "named":
		l.Named = execution.Epoch(n)
		return lineNamed
	case "worker":
		l.Worker = execution.WorkerID(n)
		return lineWorker
	case "incarnation":
		l.Incarnation = execution.Incarnation(n)
		return lineIncarnation
	case "writer":
		l.Writer = execution.Incarnation(n)
		return lineWriter
	case "message":
		if n >= 0 {
			l.Message = uint64(n)
			return lineMessage
		}
	case "count":
		l.Count = n
		return lineCount
	case "limit":
		l.Limit = n
		return lineLimit
	case "due_ns":
		l.Due = n
		return lineDue
	case "run_timeout_ns":
		l.RunTimeout = n
		return lineRunTimeout
	case "dispatch_timeout_ns":
		l.WaitTimeout = n
		return lineWaitTimeout
	}
	return 0
}

// setText sets a field with a text, and returns which it is: none if there is no such field.
func (h *HistoryReader) setText(l *historyLine, key, value []byte) lineField {
	switch string(key) {
	case "kind":
		l.Kind = word(value)
		return lineKind
	case "from":
		l.From = word(value)
		return lineFrom
	case "to":
		l.To = word(value)
		return lineTo
	case "by":
		l.By = word(value)
		return lineBy
	case "reason":
		l.Reason = word(value)
		return lineReason
	case "lifecycle":
		l.Lifecycle = word(value)
		return lineLifecycle
	case "type":
		l.Type = word(value)
		return lineType
	case "process":
		l.Process = h.known(value)
		return lineProcess
	case "action":
		l.Action = h.known(value)
		return lineAction
	case "queue":
		l.Queue = h.known(value)
		return lineQueue
	case "fault":
		l.Fault = h.known(value)
		return lineFault
	case "key":
		l.Key = string(value)
		return lineKey
	case "text":
		l.Text = string(value)
		return lineText
	}
	return 0
}

// known is a name as a string. It is not copied if it was interned before.
func (h *HistoryReader) known(name []byte) string {
	if s, there := h.names[string(name)]; there {
		return s
	}
	return string(name)
}

// word is the name of a value of an enumeration as a string; it is not copied if there is such a
// value.
func word(name []byte) string {
	if s, there := words()[string(name)]; there {
		return s
	}
	return string(name)
}

// words has the names of all values of the enumerations of a line.
var words = sync.OnceValue(func() map[string]string { //nolint:gochecknoglobals // a constant table
	all := make(map[string]string)
	for _, names := range [][]string{kindNames(), statusNames(), partNames(), execution.Reasons(), lifecycleNames(), typeNames()} {
		for _, name := range names {
			all[name] = name
		}
	}
	return all
})
