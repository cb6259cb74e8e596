package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"

	"handoff/chaos/audit"
	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/reports"
	"handoff/sim/explore"
)

// busy is a scenario with as much work as its workers can do. Each execution yields about 36 events.
const busy = `name: busy
about: Much work, and nothing goes wrong.
profile: hardened
worlds: [sim]
cluster:
  executors: 2
  workers:
    shell-1: {runtimes: [shell], concurrency: 50}
    shell-2: {runtimes: [shell], concurrency: 50}
actions:
  core.echo: {runtime: shell, takes: {uniform: [50ms, 2s]}}
workload:
  - {action: core.echo, count: %d, every: 25ms}
`

// busyHistory returns the history file of a run of busy, and the settings for judging it.
func busyHistory(tb testing.TB, executions int) (text []byte, events int, h audit.History) {
	tb.Helper()
	s, err := scenario.Parse("busy.yaml", fmt.Appendf(nil, busy, executions))
	if err != nil {
		tb.Fatal(err)
	}
	rec, _ := explore.Record(tb.Context(), explore.Target{Scenario: s, Profile: config.Hardened}, 1, nil)
	if len(rec.Violations) > 0 || rec.GaveUp != "" {
		tb.Fatal(rec.Violations, rec.GaveUp)
	}
	var b bytes.Buffer
	if err := reports.WriteHistory(&b, rec); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes(), len(rec.Events), audit.History{Config: s.Config(config.Hardened)}
}

// retainedMemory returns the memory in bytes that a judgement still holds after the last event.
func retainedMemory(t *testing.T, text []byte, h audit.History) int64 {
	t.Helper()
	live := func() int64 {
		runtime.GC()
		runtime.GC() // the second collection frees what the first has only finalized
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	r, err := reports.NewHistoryReader("h", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	before, held := live(), int64(0)
	_, err = audit.JudgeHistory(t.Context(), func(e *history.Event) error {
		err := r.Next(e)
		if errors.Is(err, io.EOF) {
			held = live() - before
		}
		return err
	}, h)
	if err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(text)
	return held
}

// A judgement does not keep events in memory. Of each it may keep a few bytes, such as the final status of an
// execution and its idempotency key. A million events then need about 16 MB.
func TestCheckKeepsNoEvents(t *testing.T) {
	skipInMakeCheck(t)
	const executions, perEvent, most = 1500, 24, 4 << 20
	text, events, h := busyHistory(t, executions)
	once := retainedMemory(t, text, h)
	text, more, h := busyHistory(t, 2*executions)
	twice := retainedMemory(t, text, h)
	grows := float64(twice-once) / float64(more-events)
	t.Logf("%d events: %d kB; %d events: %d kB; %.2f bytes an event", events, once>>10, more, twice>>10, grows)
	if twice > most || grows > perEvent {
		t.Errorf("judging %d events holds %d kB, and %.1f bytes more for each further event; at most %d kB and %d bytes are allowed",
			more, twice>>10, grows, most>>10, perEvent)
	}
}

// BenchmarkCheck reads and judges a history in memory.
func BenchmarkCheck(b *testing.B) {
	text, events, h := busyHistory(b, 2800)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := reports.NewHistoryReader("h", bytes.NewReader(text))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := audit.JudgeHistory(b.Context(), r.Next, h); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(events)*1e6, "s/million-events")
}
