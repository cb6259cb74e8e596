package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"handoff/core/config/yamlfile"
)

// expectation matches a line such as "# 6:3: unknown key …" at the head of a broken file: the position and
// text of a problem, with allowed values and a suggestion.
var expectation = regexp.MustCompile(`^# (\d+:\d+: .*)$`)

func TestBrokenFilesReportExpectedProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*.yaml")
	if err != nil || len(files) < 24 {
		t.Fatalf("%d broken files (%v), want at least 24", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.Lines(string(data)) {
				m := expectation.FindStringSubmatch(strings.TrimRight(line, "\n"))
				if m == nil {
					break
				}
				want = append(want, m[1])
			}
			s, err := LoadFile(file)
			var problems yamlfile.Errors
			if s != nil || !errors.As(err, &problems) {
				t.Fatalf("LoadFile = %v, %v; want Errors", s, err)
			}
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p.Text()))
				checkFrame(t, p, string(data))
			}
			if *update && len(got) > 0 {
				rewriteHead(t, file, string(data), got, len(want))
				return
			}
			if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
				t.Errorf("problems:\n%s\nwant:\n%s", g, w)
			}
		})
	}
}

// rewriteHead writes the loader's problems at the head of a broken file without changing its number of lines.
func rewriteHead(t *testing.T, file, data string, got []string, had int) {
	t.Helper()
	if had != len(got) {
		t.Fatalf("the file lists %d problems and has %d; positions would move:\n%s", had, len(got), strings.Join(got, "\n"))
	}
	lines := strings.SplitAfterN(data, "\n", had+1)
	if err := os.WriteFile(file, []byte("# "+strings.Join(got, "\n# ")+"\n"+lines[had]), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkFrame checks that a rendered problem begins with a clickable position and that its caret points at the
// right character.
func checkFrame(t *testing.T, p yamlfile.Problem, data string) {
	t.Helper()
	lines := strings.Split(p.Error(), "\n")
	head := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text())
	if lines[0] != head {
		t.Errorf("first line %q, want %q", lines[0], head)
	}
	source := []rune(strings.Split(data, "\n")[p.Line-1])
	if len(source) == 0 {
		return
	}
	if len(lines) != 3 {
		t.Fatalf("want a line and its caret:\n%s", p.Error())
	}
	caret := len([]rune(lines[2])) - 1
	if framed := []rune(lines[1]); p.Column <= len(source) && framed[caret] != source[p.Column-1] && framed[caret] != '…' {
		t.Errorf("the caret is under %q, want %q:\n%s", framed[caret], source[p.Column-1], p.Error())
	}
}

func TestProblemsOfOneFileAreSorted(t *testing.T) {
	_, err := LoadFile("testdata/broken/71-everything-at-once.yaml")
	var problems yamlfile.Errors
	if !errors.As(err, &problems) || len(problems) < 8 {
		t.Fatalf("%d problems, want at least 8: %v", len(problems), err)
	}
	for i := 1; i < len(problems); i++ {
		a, b := problems[i-1], problems[i]
		if a.Line > b.Line || a.Line == b.Line && a.Column > b.Column {
			t.Errorf("%d:%d comes before %d:%d", a.Line, a.Column, b.Line, b.Column)
		}
	}
}

func TestUnreadableBytesAreRefused(t *testing.T) {
	for text, at := range map[string][2]int{
		"name: a\nabout: \xff\n":  {2, 8},
		"name: \x01\n":            {1, 7},
		"name: é\nabout: é\x00\n": {2, 9},
	} {
		_, err := Parse("bytes.yaml", []byte(text))
		var problems yamlfile.Errors
		if !errors.As(err, &problems) || problems[0].Line != at[0] || problems[0].Column != at[1] {
			t.Errorf("%q: %v, want a problem at %v", text, err, at)
		}
	}
	if _, err := Parse("large.yaml", make([]byte, yamlfile.MaxBytes+1)); err == nil {
		t.Error("a file above the limit was read")
	}
	if _, err := LoadFile("testdata/broken/no-such-file.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// For any input, the loader returns either a scenario or problems with positions in the file.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../../scenarios/*/*.yaml", "testdata/broken/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fuzz.yaml", data)
		if err == nil {
			if len(s.Workload) == 0 || len(s.Profiles) == 0 {
				t.Errorf("accepted without a workload or a profile: %+v", s)
			}
			return
		}
		var problems yamlfile.Errors
		if !errors.As(err, &problems) || len(problems) == 0 {
			t.Fatalf("%v is no Errors", err)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Line > strings.Count(string(data), "\n")+1 || p.Message == "" || p.Error() == "" {
				t.Errorf("a problem outside the file: %+v", p)
			}
		}
	})
}
