package jobhistory

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
)

func readAll(text string) (list []Line, err error) {
	r, err := NewReader("history.jsonl", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	for {
		var l Line
		if err := r.Next(&l); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return list, err
		}
		list = append(list, l)
	}
}

func TestReaderSortsWithinWindow(t *testing.T) {
	list, err := readAll(`{"at_ns": 5000000000, "kind": "started", "job": "a"}
{"at_ns": 1000000000, "kind": "submitted", "job": "a"}
{"at_ns": 5000000000, "kind": "ended", "job": "a", "outcome": "ok"}
`)
	var got []string
	for _, l := range list {
		got = append(got, fmt.Sprint(l.At, " ", l.Kind))
	}
	if want := "-4s submitted, 0s started, 0s ended"; err != nil || strings.Join(got, ", ") != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
}

func TestReaderRefusesMistakesWithLine(t *testing.T) {
	const good = `{"at": "2026-11-27T10:00:20Z", "kind": "submitted", "job": "a"}` + "\n"
	for text, want := range map[string]string{
		"":                         "history.jsonl has no line",
		`{"history": 2}`:           "version 2; this program reads version 1",
		`{"history": 1, "sys": 1}`: "history.jsonl:1: the header",
		good + `{"at": "2026-11-27T10:00:21Z", "kind": "begun", "job": "a"}`:                    `history.jsonl:2: unknown kind "begun"; allowed: submitted`,
		good + "\n" + `{"at": "soon", "kind": "started", "job": "a"}`:                           `history.jsonl:3: at is "soon"`,
		good + `{"kind": "started", "job": "a"}`:                                                "no time",
		good + `{"at": "2026-11-27T10:00:21Z", "kind": "started"}`:                              "names no job",
		good + `{"at": "2026-11-27T10:00:21Z", "kind": "ended", "job": "a"}`:                    "needs an outcome, one of [ok failed cancelled died]",
		good + `{"at": "2026-11-27T10:00:21Z", "kind": "started", "job": "a", "outcome": "ok"}`: "has no outcome",
		good + `{"at": "2026-11-27T10:00:09Z", "kind": "started", "job": "a"}`:                  "11s earlier",
		good + `{"at_ns": 5, "kind": "started", "job": "a"}`:                                    "one history has one clock",
		good + `{"at": "2026-11-27T10:00:21Z", "kind": "started", "job": "a", "atempt": "1"}`:   "atempt",
		good + `{"at": "2026-11-27T10:00:21Z", "kind": "process_ended", "outcome": "ok"}`:       "names no actor",
		good + `{"at": "2026-11-27T10:00:21Z"`:                                                  "history.jsonl:2: the line is not",
		good + strings.Repeat("x", MaxLine+1):                                                   "longer than",
	} {
		if _, err := readAll(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s: %v; want %q", text, err, want)
		}
	}
}

func TestWriterAndReaderAgree(t *testing.T) {
	var text strings.Builder
	origin := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	w, err := NewWriter(&text, origin, Header{System: "billing", Promises: []byte(`{"attempts":3}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{
		{Kind: Submitted, Job: "a", Key: "k", NotBefore: 3 * time.Second},
		{At: 1, Kind: Ended, Job: "a", Attempt: "1", Actor: "w", Outcome: OK, Result: "r", Text: "t"},
		{At: 2, Kind: Stalled, Until: 5},
	}
	for i := range want {
		if err := w.Write(&want[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader("x", strings.NewReader(text.String()))
	if err != nil || r.Header().System != "billing" || string(r.Header().Promises) != `{"attempts":3}` {
		t.Fatalf("%+v, %v", r.Header(), err)
	}
	for _, one := range want {
		var got Line
		if err := r.Next(&got); err != nil || got != one {
			t.Errorf("%+v, %v; want %+v", got, err, one)
		}
	}
	if !r.Origin().Equal(origin) {
		t.Errorf("origin %v", r.Origin())
	}
}

// lines is a history that is generated while it is read: n jobs of four lines each.
type lines struct {
	n, next int
	rest    string
}

func (l *lines) Read(p []byte) (int, error) {
	if l.rest == "" {
		if l.next == 4*l.n {
			return 0, io.EOF
		}
		job, at := l.next/4, int64(l.next)*1_000_000
		l.rest = fmt.Sprintf([]string{
			`{"at_ns": %d, "kind": "submitted", "job": "job-%d"}`,
			`{"at_ns": %d, "kind": "started", "job": "job-%d", "attempt": "1", "actor": "web-1"}`,
			`{"at_ns": %d, "kind": "ended", "job": "job-%d", "attempt": "1", "outcome": "ok"}`,
			`{"at_ns": %d, "kind": "settled", "job": "job-%d", "outcome": "done"}`,
		}[l.next%4]+"\n", at, job)
		l.next++
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// drain reads a generated history and returns the bytes and allocations for each line.
func drain(t testing.TB, jobs int) (bytes, allocations float64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := NewReader("generated", &lines{n: jobs})
	if err != nil {
		t.Fatal(err)
	}
	var l Line
	for {
		if err := r.Next(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	n := float64(4 * jobs)
	return float64(after.TotalAlloc-before.TotalAlloc) / n, float64(after.Mallocs-before.Mallocs) / n
}

// What a line costs does not depend on how many there are. The generator's share is in the figures.
func TestReaderAllocatesLittleForEachLine(t *testing.T) {
	for _, jobs := range []int{5_000, 10_000} {
		if bytes, allocations := drain(t, jobs); bytes > 1500 || allocations > 20 {
			t.Errorf("%d jobs: %.0f bytes and %.1f allocations for each line", jobs, bytes, allocations)
		} else {
			t.Logf("%d jobs: %.0f bytes and %.1f allocations for each line", jobs, bytes, allocations)
		}
	}
}

func BenchmarkReadMillionLines(b *testing.B) {
	for b.Loop() {
		drain(b, 250_000)
	}
}
