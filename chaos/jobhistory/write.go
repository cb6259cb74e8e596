package jobhistory

import (
	"bufio"
	"io"
	"time"

	"github.com/go-json-experiment/json"
)

// Writer writes a history. Its lines are dated from an origin.
type Writer struct {
	to     *bufio.Writer
	origin time.Time
}

// NewWriter writes the header. origin is the moment of At 0.
func NewWriter(to io.Writer, origin time.Time, header Header) (*Writer, error) {
	w := &Writer{bufio.NewWriter(to), origin}
	header.History = Version
	return w, w.writeJSON(header)
}

// Write appends a line. Lines need not be in the order of their times, but within Window of it.
func (w *Writer) Write(l *Line) error {
	f := Fields{
		At: w.formatDate(l.At), Kind: l.Kind.String(), Job: l.Job, Attempt: l.Attempt, Actor: l.Actor,
		Outcome: l.Outcome, Result: l.Result, Key: l.Key, Text: l.Text,
	}
	if l.NotBefore != 0 {
		f.NotBefore = w.formatDate(l.NotBefore)
	}
	if l.Kind == Stalled {
		f.Until = w.formatDate(l.Until)
	}
	return w.writeJSON(f)
}

// Flush writes what is buffered.
func (w *Writer) Flush() error { return w.to.Flush() }

func (w *Writer) formatDate(at time.Duration) string {
	return w.origin.Add(at).UTC().Format(time.RFC3339Nano)
}

func (w *Writer) writeJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.to.Write(append(raw, '\n'))
	return err
}
