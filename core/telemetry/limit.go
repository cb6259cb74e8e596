package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// limitWindow is the time for which lines with the same text are counted together. limitBurst is how many
	// of them are written.
	limitWindow = time.Minute
	limitBurst  = 10
	// longestValue bounds a value of a limited line, in bytes.
	longestValue = 500
)

// Limited returns a logger for lines that outsiders can cause without limit, by messages or by connections.
// Of the lines with the same text it writes the first ten of each minute and counts the others. The first
// line of any text after that minute is preceded by a line with the count. LogLinesSuppressed counts them as
// well. Values may come from a message, so they are shortened, and control characters are replaced.
//
// The texts are constants in the code, so memory is bounded. monotonic is the process's monotonic clock.
func Limited(log *slog.Logger, monotonic func() time.Duration, r Recorder) *slog.Logger {
	return slog.New(&limiter{inner: log.Handler(), shared: &limiterState{monotonic: monotonic, recorder: r, lines: make(map[string]*lineCount)}})
}

// limiterState is the state that a limited logger shares with loggers derived from it.
type limiterState struct {
	monotonic func() time.Duration
	recorder  Recorder

	mu    sync.Mutex
	lines map[string]*lineCount
	order []*lineCount
}

// lineCount counts the lines of one text.
type lineCount struct {
	text                string
	level               slog.Level
	since               time.Duration
	written, suppressed int
}

type limiter struct {
	inner  slog.Handler
	shared *limiterState
}

func (l *limiter) Enabled(ctx context.Context, level slog.Level) bool {
	return l.inner.Enabled(ctx, level)
}

func (l *limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limiter{l.inner.WithAttrs(attrs), l.shared}
}

func (l *limiter) WithGroup(name string) slog.Handler {
	return &limiter{l.inner.WithGroup(name), l.shared}
}

func (l *limiter) Handle(ctx context.Context, r slog.Record) error {
	over, write := l.shared.countLine(r.Message, r.Level)
	for _, one := range over {
		summary := slog.NewRecord(r.Time, one.level, "more lines like this one were not written", 0)
		summary.AddAttrs(slog.String("line", one.text), slog.Int("lines", one.suppressed), slog.Duration("within", limitWindow))
		if err := l.inner.Handle(ctx, summary); err != nil {
			return err
		}
	}
	if !write {
		l.shared.recorder.Add(LogLinesSuppressed, 1, Labels{r.Message})
		return nil
	}
	safe := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		safe.AddAttrs(printableAttr(a))
		return true
	})
	return l.inner.Handle(ctx, safe)
}

// countLine counts a line. It returns the texts with suppressed lines whose minute is over, and whether to
// write this line.
func (l *limiterState) countLine(text string, level slog.Level) (over []lineCount, write bool) {
	now := l.monotonic()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.order {
		if one.suppressed > 0 && now-one.since >= limitWindow {
			over = append(over, *one)
			one.since, one.written, one.suppressed = now, 0, 0
		}
	}
	one := l.lines[text]
	if one == nil {
		one = &lineCount{text: text, since: now}
		l.lines[text], l.order = one, append(l.order, one)
	}
	if now-one.since >= limitWindow {
		one.since, one.written = now, 0
	}
	one.level = level
	if write = one.written < limitBurst; write {
		one.written++
	} else {
		one.suppressed++
	}
	return over, write
}

// printableAttr shortens a value and replaces control characters, including line ends.
func printableAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	var text string
	switch v.Kind() {
	case slog.KindString, slog.KindAny:
		text = v.String()
	default:
		return a
	}
	if len(text) > longestValue {
		text = strings.ToValidUTF8(text[:longestValue], "") + "…"
	}
	return slog.String(a.Key, strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text))
}
