package main

import (
	"strings"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	w := newWatch()
	if err := w.read(strings.NewReader(`{"Time":"2026-11-28T00:00:00Z","Action":"start","Package":"handoff/a"}
{"Time":"2026-11-28T00:00:01Z","Action":"run","Package":"handoff/a","Test":"TestSlow"}
{"Time":"2026-11-28T00:00:01Z","Action":"start","Package":"handoff/b"}
{"Time":"2026-11-28T00:00:02Z","Action":"run","Package":"handoff/b","Test":"TestNight"}
{"Time":"2026-11-28T00:00:02Z","Action":"output","Package":"handoff/b","Test":"TestNight","Output":"    a.go:1: not run: make test-all has it: size\n"}
{"Time":"2026-11-28T00:00:02Z","Action":"skip","Package":"handoff/b","Test":"TestNight"}
{"Time":"2026-11-28T00:00:03Z","Action":"pass","Package":"handoff/b"}
not an event
{"Time":"2026-11-28T00:00:04Z","Action":"start","Pack`)); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 0, 0, 31, 0, time.UTC)
	if got, want := w.line(31*time.Second, now), "  31s: 1 packages have ended; running: a (31 s, TestSlow)"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(w.nightly) != 1 || w.nightly[0] != "handoff/b.TestNight" {
		t.Errorf("left to the night: %v", w.nightly)
	}
	w.observe(event{Action: "fail", Package: "handoff/a"})
	if got := w.line(time.Second, now); !strings.Contains(got, "2 packages have ended; running: nothing") {
		t.Error(got)
	}
}
