package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// countingRecorder counts the calls for a figure.
type countingRecorder struct {
	Discard
	lines map[string]int64
}

func (c *countingRecorder) Add(f Figure, n int64, l Labels) {
	if f == LogLinesSuppressed {
		c.lines[l[0]] += n
	}
}

func TestLimitedLoggerSummarizesSuppressedLines(t *testing.T) {
	var out bytes.Buffer
	now, seen := time.Hour, &countingRecorder{lines: make(map[string]int64)}
	log := Limited(slog.New(slog.NewTextHandler(&out, nil)), func() time.Duration { return now }, seen).With(slog.String("worker", "w"))
	for range 1000 {
		log.Info("garbage came")
	}
	log.Info("another line")
	if n := strings.Count(out.String(), "garbage came"); n != 10 || seen.lines["garbage came"] != 990 || !strings.Contains(out.String(), "another line") {
		t.Errorf("%d lines, %v left out:\n%s", n, seen.lines, &out)
	}
	out.Reset()
	now += time.Minute
	log.Info("another line")
	if text := out.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, `line="garbage came" lines=990`) || !strings.Contains(text, "worker=w") {
		t.Errorf("after a minute:\n%s", text)
	}
	out.Reset()
	log.Info("garbage came")
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines in the next minute", n)
	}
}

func TestLimitedLoggerSanitizesValues(t *testing.T) {
	var out bytes.Buffer
	log := Limited(slog.New(slog.NewJSONHandler(&out, nil)), func() time.Duration { return 0 }, Discard{})
	log.Info("line", slog.String("queue", "a\n\x1b[31mb\u009b2J"), slog.Any("error", errors.New(strings.Repeat("x", 1<<20))), slog.Int("n", 3))
	if text := out.String(); len(text) > 1000 || strings.ContainsAny(text[:len(text)-1], "\n\x1b\u009b") || strings.Contains(text, `\n`) || !strings.Contains(text, `"n":3`) {
		t.Errorf("%d bytes: %.200q", len(text), text)
	}
}
