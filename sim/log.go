package sim

import (
	"context"
	"log/slog"
	"strings"

	"handoff/chaos/history"
)

// logHandler writes the core's own log lines into the history of a recorded run, in virtual time.
type logHandler struct {
	w      *world
	prefix string
}

// Enabled implements slog.Handler.
func (l *logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler. The deferred functions of a dying task log nothing.
func (l *logHandler) Handle(_ context.Context, r slog.Record) error {
	if l.w.k.Dying() {
		return nil
	}
	var b strings.Builder
	b.WriteString(r.Level.String() + " " + r.Message + l.prefix)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(" " + a.String())
		return true
	})
	name := ""
	if t := l.w.k.Current(); t != nil {
		name = t.Process().Name()
	}
	l.w.emitEvent(history.Event{Kind: history.Logged, Process: name, Text: b.String()})
	return nil
}

// WithAttrs implements slog.Handler.
func (l *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	prefix := l.prefix
	for _, a := range attrs {
		prefix += " " + a.String()
	}
	return &logHandler{l.w, prefix}
}

// WithGroup implements slog.Handler; it ignores groups.
func (l *logHandler) WithGroup(string) slog.Handler { return l }
