package shard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"handoff/chaos/shard"
)

func TestAShareIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]shard.Share{"": {}, "1/1": {Index: 1, Of: 1}, "2/4": {Index: 2, Of: 4}, "10000/10000": {Index: 10000, Of: 10000}} {
		if s, err := shard.Parse(text); err != nil || s != want || s.String() != text {
			t.Errorf("%q is %+v, %q, %v", text, s, s, err)
		}
	}
	for text, want := range map[string]string{
		"0/4": "counted from 1/4 to 4/4", "5/4": "counted from 1/4 to 4/4", "-1/4": "counted from", "1/0": "from 1 to 10000", "1/10001": "from 1 to 10000",
		"2": "write i/n", "2/": "write i/n", "/4": "write i/n", "a/b": "write i/n", "1/2/3": "write i/n", "1 / 2": "write i/n",
	} {
		if s, err := shard.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %+v, %v; want an error with %q", text, s, err, want)
		}
	}
}

// Everything is in exactly one share, and the sizes of two shares differ by one at most.
func TestSharesDivideAListEvenly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "shares")
		first, length := rapid.IntRange(0, 50).Draw(t, "first"), rapid.IntRange(0, 100).Draw(t, "length")
		list := make([]int, first+length)
		for k := range list {
			list[k] = k
		}
		var all []int
		for i := range n {
			s := shard.Share{Index: i + 1, Of: n}
			part := shard.Part(s, list)
			part = slices.DeleteFunc(part, func(k int) bool { return k < first })
			all = append(all, part...)
			if len(part) != s.Count(first, length) {
				t.Fatalf("share %v of %d from %d on has %d, and counts %d", s, length, first, len(part), s.Count(first, length))
			}
			if len(part) != length/n && len(part) != length/n+1 {
				t.Fatalf("share %v of %d has %d", s, length, len(part))
			}
		}
		slices.Sort(all)
		if !slices.Equal(all, list[first:]) {
			t.Fatalf("%d shares have %v of %v", n, all, list[first:])
		}
	})
}

type item struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

func header(i, of int) shard.Header {
	return shard.Header{Kind: "test", Share: shard.Share{Index: i, Of: of}, Commit: "c", Go: "go1", Digest: "d", Seeds: 8, Asked: map[string]string{"--mutant": ""}}
}

func file(t *testing.T, h shard.Header, aside any, items ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := shard.Write(&b, h, items, aside); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read reads everything and returns what was refused.
func read(text []byte) ([]item, error) {
	r, err := shard.NewReader("f", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var list []item
	for {
		var i item
		switch err := r.Next(&i); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, err
		}
		list = append(list, i)
	}
}

func TestAFileIsReadAsItIsWritten(t *testing.T) {
	want := []item{{"a", 1}, {"<b>\n\u2028", -2}}
	text := file(t, header(2, 4), []float64{0.5}, want[0], want[1])
	got, err := read(text)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	path := filepath.Join(t.TempDir(), shard.FileName)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := shard.Verify(path)
	if err != nil || f.Header.Share != (shard.Share{Index: 2, Of: 4}) || f.Header.Seeds != 8 || f.Sum == "" {
		t.Errorf("%+v, %v", f, err)
	}
	// Data beside the items does not affect a share's identity.
	if other := file(t, header(2, 4), []float64{7}, want[0], want[1]); !strings.Contains(string(other), f.Sum) {
		t.Error("the sum depends on what stands aside")
	}
	r, err := shard.Each(path, func(*shard.Reader, item) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var aside []float64
	if err := r.Aside(&aside); err != nil || !slices.Equal(aside, []float64{0.5}) {
		t.Errorf("aside %v, %v", aside, err)
	}
}

func TestACutOffFileIsRefusedWhereverItWasCut(t *testing.T) {
	text := file(t, header(2, 4), nil, item{"a", 1}, item{"b", 2})
	for n := range text {
		if n == len(text)-1 {
			continue // only the last line's end is missing
		}
		_, err := read(text[:n])
		if err == nil || !strings.HasPrefix(err.Error(), "f:") {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(text), err)
		}
	}
}

func TestAChangedFileIsRefused(t *testing.T) {
	text := string(file(t, header(2, 4), nil, item{"a", 1}, item{"b", 2}))
	lines := strings.SplitAfter(text, "\n")
	long := `{"name":"` + strings.Repeat("x", shard.MaxLine) + `"}` + "\n"
	tests := []struct{ name, text, want string }{
		{"empty", "", "f:1:1: the file is empty"},
		{"a number was changed", strings.Replace(text, `"n":2`, `"n":3`, 1), "f:4:1: the lines above are not those that were written"},
		{"a line is missing", lines[0] + lines[1] + lines[3], "f:3:1: the end counts 3 lines, but there are 2"},
		{"a line is there twice", lines[0] + lines[1] + lines[1] + lines[2] + lines[3], "f:5:1: the end counts 3 lines, but there are 4"},
		{"the end is missing", lines[0] + lines[1] + lines[2], "f:3:1: the file ends here, without its last line: it was cut off; copy it again, or run share 2/4 again"},
		{"more after the end", text + lines[1], "f:5:1: text follows the end"},
		{"unknown field", lines[0] + `{"name":"a","m":1}` + "\n", `f:2:1: unknown field "m"`},
		{"another type", lines[0] + `{"name":"a","n":"x"}` + "\n", "f:2:19: n can't be a string"},
		{"no JSON", lines[0] + "{nothing\n", "f:2:2: invalid character 'n'"},
		{"no object", lines[0] + "[1]\n", "f:2:1: a line is a JSON object and begins with {"},
		{"an empty line", lines[0] + "\n", "f:2:1: a line is a JSON object"},
		{"two objects", lines[0] + `{"n":1} {"n":2}` + "\n", "f:2:9: one object a line"},
		{"a long line", lines[0] + long, "f:2:4194305: the line has more than 4194304 bytes"},
		{"a line that needs much more memory than its text", lines[0] + `{"name":[` + strings.Repeat("{},", shard.MaxParts+1) + "{}]}\n", "f:2:1: the line has 250001 commas"},
		{"an end of nothing", lines[0] + `{"end":null}` + "\n", "f:2:1: the end counts 0 lines"},
		{"another schema", `{"schema":2,"new":1}` + "\n", "f:1:1: the file has schema 2, this program reads 1"},
		{"no share", strings.Replace(text, `"2/4"`, `""`, 1), "f:1:1: share: is missing"},
		{"a wrong share", strings.Replace(text, `"2/4"`, `"5/4"`, 1), "counted from 1/4 to 4/4"},
		{"deep nesting", lines[0] + strings.Repeat(`{"name":`, 20_000) + "\n", "f:2:"},
	}
	for _, test := range tests {
		if list, err := read([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v; want %q", test.name, list, err, test.want)
		}
	}
}

func TestAFileThatCannotBeReadBackIsNotWritten(t *testing.T) {
	err := shard.Write(io.Discard, header(1, 1), []any{item{Name: strings.Repeat("x", shard.MaxLine)}}, nil)
	if err == nil || !strings.Contains(err.Error(), "at most 4194304 are read") {
		t.Error(err)
	}
}

func TestSharesThatDoNotBelongTogetherAreNamed(t *testing.T) {
	of := func(path, sum string, i int, change func(*shard.Header)) shard.File {
		h := header(i, 4)
		if change != nil {
			change(&h)
		}
		return shard.File{Path: path, Header: h, Sum: sum}
	}
	first := of("a", "1", 1, nil)
	tests := []struct {
		name   string
		change func(*shard.Header)
		want   string
	}{
		{"commit", func(h *shard.Header) { h.Commit = "e" }, "a and b are not of one job: the commit is c in the first, and e in the second"},
		{"no commit", func(h *shard.Header) { h.Commit = "" }, "the commit is c in the first, and none in the second"},
		{"Go", func(h *shard.Header) { h.Go = "go2" }, "the version of Go is go1 in the first, and go2 in the second"},
		{"scenarios", func(h *shard.Header) { h.Digest = "x" }, "the digest of the scenarios is d in the first, and x in the second"},
		{"flags", func(h *shard.Header) { h.Asked = map[string]string{"--mutant": "m"} }, "--mutant is none in the first, and m in the second"},
		{"a flag that only one knows", func(h *shard.Header) { h.Asked = map[string]string{"--mutant": "", "--new": "1"} }, "--new is none in the first, and 1 in the second"},
		{"number", func(h *shard.Header) { h.Share.Of = 5 }, "the number of shares is 4 in the first, and 5 in the second"},
		{"kind", func(h *shard.Header) { h.Kind = "x" }, "what was run is test in the first, and x in the second"},
	}
	for _, test := range tests {
		if _, err := shard.Gather([]shard.File{first, of("b", "2", 2, test.change)}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", test.name, err, test.want)
		}
	}
	if _, err := shard.Gather([]shard.File{first, of("b", "2", 1, nil)}); err == nil || !strings.Contains(err.Error(), "a and b are both share 1/4, of the same commit, and say different things") {
		t.Error(err)
	}
	set, err := shard.Gather([]shard.File{of("c", "3", 3, nil), first, of("again", "1", 1, nil)})
	if err != nil || len(set.Files) != 2 || set.Files[0].Path != "a" || set.Absent() != "2/4 and 4/4" {
		t.Errorf("%+v, %v", set, err)
	}
	many, err := shard.Gather([]shard.File{of("a", "1", 1, func(h *shard.Header) { h.Share.Of = 40 })})
	if err != nil || !strings.HasSuffix(many.Absent(), "13/40 and 27 more") {
		t.Errorf("%q, %v", many.Absent(), err)
	}
}

func TestSharesAreFoundInFolders(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		folder := filepath.Join(dir, fmt.Sprint(i+1))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, shard.FileName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one := filepath.Join(dir, "1", shard.FileName)
	want := []string{one, filepath.Join(dir, "2", shard.FileName)}
	for _, args := range [][]string{{dir}, {dir, filepath.Join(dir, "1")}, {one, filepath.Join(dir, "2")}} {
		if got, err := shard.Find(args); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v, %v", args, got, err)
		}
	}
	if _, err := shard.Find([]string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no share in") {
		t.Error(err)
	}
	if _, err := shard.Find([]string{filepath.Join(dir, "3")}); err == nil || !strings.Contains(err.Error(), "no such share") {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := shard.Write(&b, header(1, 2), []any{item{"a", 1}}, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := shard.NewReader("f", bytes.NewReader(text))
		for err == nil {
			var raw json.RawMessage
			err = r.Next(&raw)
		}
		if errors.Is(err, io.EOF) && !bytes.Contains(text, []byte(r.Sum())) {
			t.Errorf("a file was taken whose sum is not in it")
		}
	})
}
