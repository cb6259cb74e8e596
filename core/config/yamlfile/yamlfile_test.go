package yamlfile

import (
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

func TestWhatCannotBeReadIsRefusedAtItsPlace(t *testing.T) {
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

func TestDuration(t *testing.T) {
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
	if d, p, ok := ParseDuration("1h30m500ms", "x", "", 0); !ok || d != 90*time.Minute+500*time.Millisecond {
		t.Errorf("%v, %v", d, p)
	}
}

func TestNearest(t *testing.T) {
	allowed := []string{"executors", "workers", "crash"}
	for got, want := range map[string]string{
		"worker": "workers", "crush": "crash", "carsh": "crash", "WORKERS": "workers", "dog": "", "": "",
	} {
		if n := Nearest(got, allowed); n != want {
			t.Errorf("Nearest(%q) = %q, want %q", got, n, want)
		}
	}
}

func TestLongLinesAreCutAroundTheCaret(t *testing.T) {
	for _, column := range []int{1, 80, 200, 399, 400, 401} {
		source := strings.Repeat("a", column-1) + "!" + strings.Repeat("b", 400-min(column, 400))
		text, at := window(source, column)
		if n := len([]rune(text)); n > 120 {
			t.Errorf("column %d: %d characters wide", column, n)
		}
		if c := []rune(text)[at-1]; c != '!' && c != '…' {
			t.Errorf("column %d: the caret is under %q", column, c)
		}
	}
}
