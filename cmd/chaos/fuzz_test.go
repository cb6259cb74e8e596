package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"handoff/chaos/audit"
	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/reports"
	"handoff/scenarios"
	"handoff/sim/explore"
)

// FuzzHistory reads and judges what may be a history: it never panics, whatever it is refused for is said with the place,
// and what is read costs no more than its length.
func FuzzHistory(f *testing.F) {
	s, err := scenarios.Find("two-executors")
	if err != nil {
		f.Fatal(err)
	}
	rec, _ := explore.Record(f.Context(), explore.Target{Scenario: s, Profile: config.Hardened}, 1, nil)
	rec.Events = rec.Events[:min(len(rec.Events), 20)]
	var whole bytes.Buffer
	if err := reports.WriteHistory(&whole, rec); err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Bytes())
	for _, text := range []string{
		lines(1, 1, 0, registered) + lines(1, 2, 0, created) + lines(1, 2, 0, scheduled) + lines(1, 3, time.Hour, tick),
		`{"at_ns":9223372036854775807,"kind":"process_started"}`,
		`{"at_ns":0,"kind":"orchestrated","execution":9007199254740991,"chain":9007199254740991,"from":"completed"}`,
		`{"at_ns":0,"kind":"action_defined","action":"a","count":1}` + "\n" + `{"at_ns":0,"kind":"slot_taken","execution":1,"action":"a","count":1}`,
		`{"at_ns":5,"kind":"clock_stepped","due_ns":-5}`, `{"at_ns":0,"kind":"fault_began","fault":"f","text":"deaf","process":"a,b"}`,
		`{"at_ns":0,"kind":"orchestrated","execution":1,"related":-1}`, "\xff", "{}", "",
	} {
		f.Add([]byte(header + text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := reports.NewHistoryReader("h", bytes.NewReader(data))
		if err != nil {
			placed(t, err)
			return
		}
		next := func(e *history.Event) error { return r.Next(e) }
		begin := time.Now()
		if _, err := audit.JudgeHistory(t.Context(), next, audit.History{Config: config.Default(config.Hardened), Kinds: r.Header().Kinds}); err != nil {
			placed(t, err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("judging %d bytes took %v", len(data), took)
		}
	})
}

// placed checks that an error says where, and obeys no terminal.
func placed(t *testing.T, err error) {
	t.Helper()
	if text := err.Error(); !strings.HasPrefix(text, "h:") || len(text) > 2000 || strings.ContainsAny(text, "\x00\x1b\n") {
		t.Errorf("the error is %q", text)
	}
}
