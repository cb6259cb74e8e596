package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Witness reads the journal in which the shims on one worker's machine record the actions that ran there.
type Witness struct {
	// Path is the journal's file, and Machine the name of its machine.
	Path, Machine string

	start time.Time

	mu    sync.Mutex
	read  int64
	rest  []byte
	items []Item
	// taken is the number of running actions among the items that Take has returned.
	taken int
	bad   error
}

// NewWitness returns a reader that measures times from start.
func NewWitness(path, machine string, start time.Time) *Witness {
	return &Witness{Path: path, Machine: machine, start: start}
}

// Items returns all items that Take has not returned yet, and an error for unreadable lines.
func (w *Witness) Items() ([]Item, error) {
	err := w.readNewLines(func(*history.Event) {})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.items, errors.Join(err, w.bad)
}

// Alive returns the number of actions that have started and not ended.
func (w *Witness) Alive() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken + countAlive(w.items)
}

// countAlive returns the number of starts minus the number of ends in items.
func countAlive(items []Item) (n int) {
	for i := range items {
		if items[i].Event.Kind == history.ActionStarted {
			n++
		} else {
			n--
		}
	}
	return n
}

// Take returns the items since its last call, and an error for unreadable lines. It keeps no items.
func (w *Witness) Take() ([]Item, error) {
	err := w.readNewLines(func(*history.Event) {})
	w.mu.Lock()
	defer w.mu.Unlock()
	items, bad := w.items, w.bad
	w.taken += countAlive(items)
	w.items, w.bad = nil, nil
	return items, errors.Join(err, bad)
}

// Size returns the number of bytes read from the file.
func (w *Witness) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.read
}

// Over records that the end of their container ended all running actions. No shim is left to report that.
func (w *Witness) Over(at time.Time, take func(*history.Event)) {
	_ = w.readNewLines(take) // Items repeats the read and returns the error
	w.mu.Lock()
	defer w.mu.Unlock()
	at = at.Round(0)
	alive := make(map[execution.Key]bool)
	for i := range w.items {
		e := &w.items[i].Event
		alive[execution.Key{ID: e.Execution, Epoch: e.Epoch}] = e.Kind == history.ActionStarted
	}
	for i := range len(w.items) {
		e := w.items[i].Event
		if key := (execution.Key{ID: e.Execution, Epoch: e.Epoch}); alive[key] {
			alive[key] = false
			e.At, e.Kind, e.To = at.Sub(w.start), history.ActionEnded, execution.Cancelled
			w.items = append(w.items, Item{Wall: at, Event: e})
			take(&e)
		}
	}
}

// Follow passes the events of new lines to take, until ctx ends.
func (w *Witness) Follow(ctx context.Context, take func(*history.Event)) {
	for ctx.Err() == nil {
		_ = w.readNewLines(take) // Items repeats the read and returns the error
		pauseFor(ctx, pollEvery)
	}
}

func (w *Witness) readNewLines(take func(*history.Event)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := os.Open(w.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing has run yet
	}
	if err != nil {
		return fmt.Errorf("reading the witness of %s: %w", w.Machine, err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(w.read, io.SeekStart); err != nil {
		return err
	}
	more, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("reading the witness of %s: %w", w.Machine, err)
	}
	w.read += int64(len(more))
	w.rest = append(w.rest, more...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return nil
		}
		w.rest = rest
		item, err := w.parseLine(line)
		if err != nil {
			w.bad = errors.Join(w.bad, fmt.Errorf("the witness of %s: %w in %q", w.Machine, err, line))
			continue
		}
		w.items = append(w.items, item)
		take(&item.Event)
	}
}

func (w *Witness) parseLine(line []byte) (Item, error) {
	var n struct {
		Event            string
		Execution, Epoch int64
		Wall             int64 `json:"wall_ns"`
		Mono             int64 `json:"mono_ns"`
		How              *struct {
			Code          int
			Signal, Cause string
		}
	}
	if err := json.Unmarshal(line, &n); err != nil {
		return Item{}, err
	}
	wall := wallOf(time.Duration(n.Mono), time.Unix(0, n.Wall))
	e := history.Event{
		At: wall.Sub(w.start), Kind: history.ActionStarted, Process: w.Machine,
		Execution: execution.ID(n.Execution), Epoch: execution.Epoch(n.Epoch),
	}
	if n.Event != "end" {
		return Item{Wall: wall, Event: e}, nil
	}
	e.Kind = history.ActionEnded
	switch {
	case n.How == nil:
		return Item{}, errors.New("an end lacks the field how")
	case n.How.Cause != "":
		e.To = execution.Cancelled
	case n.How.Signal != "":
		e.To, e.Reason = execution.Failed, execution.Unknown
	case n.How.Code != 0:
		// Order adds the reason, which depends on the action.
		e.To, e.Count = execution.Failed, int64(n.How.Code)
	default:
		e.To = execution.Completed
	}
	return Item{Wall: wall, Event: e}, nil
}
