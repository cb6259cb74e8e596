package evidence

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/hook"
)

// A daemon's log line about its mutant becomes the event that the simulated world records, and no Logged event.
func TestDaemonLogYieldsMutantEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	report := hook.LogTo(slog.New(slog.NewJSONHandler(f, nil)))
	report("gave up a result", 7)
	report("sent no heartbeat", 0)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	items := DaemonLog(path, "shell-1", time.Now())
	if len(items) != 2 {
		t.Fatalf("%d events were read, want 2: %+v", len(items), items)
	}
	for i, want := range []history.Event{
		{Kind: history.MutantActed, Process: "shell-1", Execution: 7, Text: "gave up a result"},
		{Kind: history.MutantActed, Process: "shell-1", Text: "sent no heartbeat"},
	} {
		got := items[i].Event
		if got.At = 0; got != want {
			t.Errorf("event %d is %+v, want %+v", i, got, want)
		}
	}
}
