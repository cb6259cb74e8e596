package yamlfile

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

func TestProblemPointsAtItsCharacter(t *testing.T) {
	data := []byte("a: 1\n\tb: 2\nä: ö\n")
	r := NewReader("f.yaml", "file", data)
	r.RefuseAt(3, 4, Problem{Message: "no", Allowed: []string{"x", "y"}, Nearest: "x"})
	want := "f.yaml:3:4: no; allowed: x, y; did you mean \"x\"?\n    3 | ä: ö\n      |    ^"
	if got := r.Problems()[0].Error(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := (Problem{File: "--flag", Message: "no"}).Error(); got != "--flag: no" {
		t.Errorf("without a line: %s", got)
	}
}

func TestUnreadableInputIsRefusedWithPosition(t *testing.T) {
	for text, want := range map[string]string{
		"a: b\n---\nc: d\n":         "f.yaml:3:1: a second document begins here; a file holds one file",
		"a: \x01\n":                 "f.yaml:1:4: not a readable character; a file is UTF-8 text",
		"a: [1\n":                   "f.yaml:2:1: not YAML: ",
		"a:\n\tb: 1\n":              "f.yaml:2:1: not YAML: a tab can't indent; use spaces",
		"a: &x [*x]\n":              "f.yaml:1:8: alias *x stands inside its own anchor",
		strings.Repeat("[", 40_000): "f.yaml:1:",
	} {
		r := NewReader("f.yaml", "file", []byte(text))
		root := r.Root([]byte(text))
		if p := r.Problems(); root != nil || len(p) != 1 || !strings.HasPrefix(p[0].Where()+": "+p[0].Text(), want) {
			t.Errorf("%.40q: %v, want %s", text, p, want)
		}
	}
}

func TestInvalidDurationsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"10": `x is 10 without a unit`, "1d": `x has the unknown unit "d" in "1d"`, "-1s": "x is -1s, must be from 0s to 744h",
		"745h": "x is 745h, must be from 0s to 744h", "soon": "x must be a duration such as 10s", "1us": `x has the unknown unit "us"`, "": "x must be",
	} {
		r := NewReader("f.yaml", "file", []byte(text))
		d, ok := r.Duration(&yaml.Node{Kind: yaml.ScalarNode, Value: text, Line: 1, Column: 1}, "x", 0)
		if p := r.Problems(); ok || len(p) != 1 || !strings.HasPrefix(p[0].Message, want) {
			t.Errorf("%q: %v, %v; want %s", text, d, p, want)
		}
	}
	for text, want := range map[string]Problem{
		"9999999h":  {Message: "x is 9999999h, must be from 0s to 744h"},
		"-9999999h": {Message: "x is -9999999h, must be from 0s to 744h"},
		"2d":        {Message: `x has the unknown unit "d" in "2d"`, Allowed: durationUnits(), Nearest: "48h"},
		"1.5days":   {Message: `x has the unknown unit "days" in "1.5days"`, Allowed: durationUnits(), Nearest: "36h"},
		"1d12h":     {Message: `x has the unknown unit "d" in "1d12h"`, Allowed: durationUnits()},
		"2min":      {Message: `x has the unknown unit "min" in "2min"`, Allowed: durationUnits(), Nearest: "m"},
	} {
		if d, p, ok := ParseDuration(text, "x", "", 0, MaxDuration); ok || !reflect.DeepEqual(p, want) {
			t.Errorf("%q: %v, %+v, want %+v", text, d, p, want)
		}
	}
	if d, p, ok := ParseDuration("1h30m500ms", "x", "", 0, MaxDuration); !ok || d != 90*time.Minute+500*time.Millisecond {
		t.Errorf("%v, %v", d, p)
	}
}

func TestNearestFindsSimilarName(t *testing.T) {
	allowed := []string{"executors", "workers", "crash", "max_retries", "max_runs", "retry_base"}
	for got, want := range map[string]string{
		"worker": "workers", "crush": "crash", "carsh": "crash", "WORKERS": "workers", "dog": "", "": "", "retries": "max_retries", "max": "",
	} {
		if n := Nearest(got, allowed); n != want {
			t.Errorf("Nearest(%q) = %q, want %q", got, n, want)
		}
	}
}

func TestLongLinesAreCroppedAroundCaret(t *testing.T) {
	for _, column := range []int{1, 80, 200, 399, 400, 401} {
		source := strings.Repeat("a", column-1) + "!" + strings.Repeat("b", 400-min(column, 400))
		text, at := cropLine(source, column)
		if n := len([]rune(text)); n > 120 {
			t.Errorf("column %d: %d characters wide", column, n)
		}
		if c := []rune(text)[at-1]; c != '!' && c != '…' {
			t.Errorf("column %d: the caret is under %q", column, c)
		}
	}
}

func TestMappingFollowsShape(t *testing.T) {
	shape := NewShape("the door",
		Required("lock", "how it is locked", Enum([]string{"key", "code"})),
		Optional("opens", "how long it takes to open", DurationSchema()))
	for text, want := range map[string][]string{
		"lock: key\nopens: 3s\n":            nil,
		"opens: 3s\n":                       {`1:1: the door lacks "lock": how it is locked`},
		"lokc: key\n":                       {`1:1: unknown key "lokc" under the door; allowed: lock, opens; did you mean "lock"?`},
		"lock: key\nlock: code\n":           {`2:1: duplicate key "lock" under the door; the first is in line 1`},
		"lock: 7\n":                         {`1:7: unknown lock "7"; allowed: key, code`},
		"[lock]\n":                          {`1:1: the door must be a mapping (key: value), is a list`},
		"? [a]\n: b\nlock: key\nopens: 1\n": {`1:3: a key under the door must be a name, is a list`, `4:8: opens is 1 without a unit; allowed: ms, s, m, h; did you mean "1s"?`},
	} {
		r := NewReader("door.yaml", "door", []byte(text))
		if m, ok := r.Mapping(r.Root([]byte(text)), shape); ok {
			if m.Has("lock") {
				r.Choice(m.At("lock"), "lock", []string{"key", "code"})
			}
			if m.Has("opens") {
				r.Duration(m.At("opens"), "opens", 0)
			}
			if m.Invalid && len(want) == 0 {
				t.Errorf("%q is invalid", text)
			}
		}
		var got []string
		for _, p := range r.Problems() {
			got = append(got, strings.TrimPrefix(p.Where(), "door.yaml:")+": "+p.Text())
		}
		if !slices.Equal(got, want) || r.Count() != len(want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	object := shape.Object()
	if required, _ := object["required"].([]string); !slices.Equal(required, []string{"lock"}) || object["additionalProperties"] != false {
		t.Errorf("the schema is %v", object)
	}
	if lock := object["properties"].(Schema)["lock"].(Schema); lock["description"] != "how it is locked" || lock["enum"] == nil {
		t.Errorf("the schema of lock is %v", lock)
	}
}

func TestSharesSpansAndListsOfNames(t *testing.T) {
	read := func(text string, value func(*Reader, *yaml.Node) any) (any, string) {
		r := NewReader("f.yaml", "file", []byte(text))
		v := value(r, r.Root([]byte(text)))
		if p := r.Problems(); len(p) > 0 {
			return nil, p[0].Text()
		}
		return v, ""
	}
	share := func(r *Reader, n *yaml.Node) any { v, _ := r.Share(n, "x"); return v }
	span := func(r *Reader, n *yaml.Node) any {
		least, most, _ := r.Span(n, "x", time.Millisecond)
		return [2]time.Duration{least, most}
	}
	names := func(r *Reader, n *yaml.Node) any {
		list, _ := r.Choices(n, "day", "days", []string{"mon", "tue"})
		return strings.Join(list, " ")
	}
	for _, c := range []struct {
		text  string
		read  func(*Reader, *yaml.Node) any
		want  any
		wrong string
	}{
		{"0.25%", share, uint64(2_500), ""},
		{"100 %", share, uint64(1_000_000), ""},
		{"0.05", share, nil, `x is 0.05 without a percent sign; did you mean "5%"?`},
		{"0%", share, nil, "x is 0%, must be more than 0% and at most 100%"},
		{"most", share, nil, `x must be a percentage such as 5% or 0.25%, is the string "most"`},
		{"[1s, 2s]", span, [2]time.Duration{time.Second, 2 * time.Second}, ""},
		{"[2s, 1s]", span, nil, "x is reversed: 2s is later than 1s"},
		{"[0s, 1s]", span, nil, "x is 0s, must be longer than 0s"},
		{"1s", span, nil, `x must be a list of two durations such as [1s, 5s], is the string "1s"`},
		{"[mon, tue]", names, "mon tue", ""},
		{"[mon, mon]", names, nil, "duplicate value mon under days"},
		{"[sun]", names, nil, `unknown day "sun"; allowed: mon, tue`},
	} {
		if got, wrong := read(c.text, c.read); got != c.want || wrong != c.wrong {
			t.Errorf("%s: %v, %q; want %v, %q", c.text, got, wrong, c.want, c.wrong)
		}
	}
}
