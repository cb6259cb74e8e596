package shard_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"handoff/chaos/shard"
)

func TestShareRoundTrip(t *testing.T) {
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

// Each item is in exactly one share, and the sizes of two shares differ by at most one.
func TestSharesDivideListEvenly(t *testing.T) {
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

func testHeader(i, of int) shard.Header {
	return shard.Header{Kind: "test", Share: shard.Share{Index: i, Of: of}, Commit: "c", Go: "go1", Digest: "d", Seeds: 8, Asked: map[string]string{"--mutant": ""}}
}

// writeShare writes a share, and returns its path and text.
func writeShare(t *testing.T, h shard.Header, aside any, items ...any) (path string, text string) {
	t.Helper()
	var b bytes.Buffer
	if err := shard.Write(&b, h, items, aside); err != nil {
		t.Fatal(err)
	}
	return writeText(t, b.String()), b.String()
}

func writeText(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), shard.FileName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestShareFileRoundTrip(t *testing.T) {
	want := []item{{"a", 1}, {"<b>\n\u2028", -2}}
	path, _ := writeShare(t, testHeader(2, 4), []float64{0.5}, want[0], want[1])
	f, err := shard.Verify(path)
	if err != nil || f.Header.Share != (shard.Share{Index: 2, Of: 4}) || f.Header.Seeds != 8 || f.Sum == "" {
		t.Errorf("%+v, %v", f, err)
	}
	if _, other := writeShare(t, testHeader(2, 4), []float64{7}, want[0], want[1]); !strings.Contains(other, f.Sum) {
		t.Error("the sum depends on the aside data")
	}
	var got []item
	var aside []float64
	err = shard.Each(f, &aside, func(i item) error { got = append(got, i); return nil })
	if err != nil || !slices.Equal(got, want) || !slices.Equal(aside, []float64{0.5}) {
		t.Errorf("%v, aside %v, %v", got, aside, err)
	}
	if err := shard.Each(f, &aside, func(item) error { return errors.New("no") }); err == nil || err.Error() != path+":2: no" {
		t.Errorf("a refused item: %v", err)
	}
}

func TestTruncatedFileIsRefused(t *testing.T) {
	_, text := writeShare(t, testHeader(2, 4), nil, item{"a", 1}, item{"b", 2})
	for n := range len(text) - 1 { // cutting off the last byte removes only the final newline
		if _, err := shard.Verify(writeText(t, text[:n])); err == nil || !strings.Contains(err.Error(), "copy it again, or run the share again") {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(text), err)
		}
	}
}

func TestChangedFileIsRefused(t *testing.T) {
	_, text := writeShare(t, testHeader(2, 4), nil, item{"a", 1}, item{"b", 2})
	_, whole := writeShare(t, shard.Header{}, nil)
	lines := strings.SplitAfter(text, "\n")
	for name, test := range map[string]struct{ text, want string }{
		"a number was changed": {strings.Replace(text, `"n":2`, `"n":3`, 1), "not those that were written"},
		"a line is missing":    {lines[0] + lines[1] + lines[3], "not those that were written"},
		"more after the end":   {text + lines[1], "it has no last line"},
		"no share":             {whole, ":1: it does not say which share"},
	} {
		if f, err := shard.Verify(writeText(t, test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v; want %q", name, f, err, test.want)
		}
	}
	path, _ := writeShare(t, testHeader(2, 4), nil, map[string]int{"m": 1})
	f, err := shard.Verify(path)
	if err != nil {
		t.Fatal(err)
	}
	var aside any
	if err := shard.Each(f, &aside, func(item) error { return nil }); err == nil || !strings.Contains(err.Error(), path+`:2: json: unknown field "m"`) {
		t.Errorf("an item of another program: %v", err)
	}
}

func TestGatherNamesConflictingShares(t *testing.T) {
	of := func(path, sum string, i int, change func(*shard.Header)) shard.File {
		h := testHeader(i, 4)
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
