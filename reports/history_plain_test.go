package reports

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// oddLines are lines that no report writes.
func oddLines() []string {
	return []string{
		`{}`, `{`, ``, `}`, `{"`, `{"at_ns"`, `{"at_ns":`, `{"at_ns":}`, `{"at_ns":1`, `{"at_ns":1,`, `{"at_ns":1,}`, `{"at_ns":1}}`, `{"at_ns":1} `, ` {"at_ns":1}`,
		`{"at_ns" :1}`, `{"at_ns": 1}`, `{"at_ns":1,"at_ns":1}`, `{"at_ns":01}`, `{"at_ns":-}`, `{"at_ns":-0}`, `{"at_ns":-1}`, `{"at_ns":+1}`, `{"at_ns":1.0}`, `{"at_ns":1e3}`,
		`{"at_ns":999999999999999999}`, `{"at_ns":9999999999999999999}`, `{"at_ns":"1"}`, `{"at_ns":null}`, `{"At_ns":1}`, `{"step":-1}`, `{"message":-1}`, `{"step":1}`, `{"step":-0}`,
		`{"execution":-1}`, `{"kind":1}`, `{"kind":""}`, `{"kind":"created"}`, `{"kind":"created"x}`, `{"kind":"cre` + "\x01" + `ated"}`, `{"kind":"cre` + "\xff" + `ated"}`,
		`{"text":"\""}`, `{"text":"\\"}`, `{"text":"\/\b\f\n\r\t"}`, `{"text":"\u0041"}`, `{"text":"\x"}`, `{"text":"\`, `{"text":"\"`, `{"text":"é\n“"}`, `{"te\u0078t":"a"}`, `{"text":"a","key":"b"}`,
		`{"text":"` + "a\nb" + `"}`, `{"unknown":1}`, `{"unknown":"a"}`, `{"fault":1}`, `{"mutant":"a"}`, `{"type":"","queue":"q","fault":"f"}`, `{"count":true}`, `{"count":[1]}`, `{"count":{"a":1}}`,
	}
}

// agree checks that a line is read plainly only if encoding/json accepts it and reads the same.
func agree(t *testing.T, line string) (plain bool) {
	t.Helper()
	h := &HistoryReader{file: "h", line: 2, names: map[string]string{"w": "w"}}
	var quick, full historyLine
	if plain = readPlain([]byte(line), &quick); !plain {
		return false
	}
	if _, err := h.decode([]byte(line), &full, lineFields); err != nil {
		t.Errorf("%q is read, but must be refused: %v", line, err)
	} else if !reflect.DeepEqual(quick, full) {
		t.Errorf("%q is read as\n%+v, want\n%+v", line, quick, full)
	}
	return true
}

func TestPlainLinesAreReadLikeAllOthers(t *testing.T) {
	for _, line := range oddLines() {
		agree(t, line)
	}
	full := historyLine{}
	of := reflect.ValueOf(&full).Elem()
	for i := range of.NumField() {
		switch f := of.Field(i); f.Kind() {
		case reflect.Pointer:
			f.Set(reflect.ValueOf(new(int64)))
		case reflect.Uint64:
			f.SetUint(7)
		case reflect.String:
			f.SetString("a \"b\" \\ \n“c”")
		default:
			f.SetInt(-7)
		}
	}
	// A line with each field alone, and one with all.
	for i := range of.NumField() + 1 {
		one, only := historyLine{At: new(int64)}, full
		if i < of.NumField() {
			reflect.ValueOf(&one).Elem().Field(i).Set(of.Field(i))
			only = one
		}
		if line := written(t, only); !agree(t, line) {
			t.Errorf("%q is a line that a report writes, and it is not read plainly", line)
		}
	}
}

// written is a line as WriteHistory writes it.
func written(t *testing.T, l historyLine) string {
	t.Helper()
	var b bytes.Buffer
	enc := newHistoryEncoder(&b)
	if err := enc.Encode(l); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func FuzzPlainLine(f *testing.F) {
	for _, line := range oddLines() {
		f.Add(line)
	}
	f.Add(fmt.Sprintf(`{"at_ns":1,"kind":%q,"execution":7,"to":%q,"process":"w","text":"a\nb"}`, history.Created, execution.Requested))
	f.Fuzz(func(t *testing.T, line string) { agree(t, line) })
}
