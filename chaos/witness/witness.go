// Package witness records and reads what jobs themselves say of their runs: one line of JSON when one starts, one when
// it ends.
//
// The line is appended to a file with a single write, so it is in the kernel when the call returns: a kill right
// afterwards loses nothing, a frozen process holds no lock, and the harness adds no delay. Times are of
// CLOCK_MONOTONIC, which all processes of a host share. docs/systems.md describes the line for authors of jobs.
package witness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"handoff/chaos/jobhistory"
)

// The environment variables of a process under test: the file to append to, and the process's name.
const (
	FileVariable    = "HANDOFF_WITNESS"
	ProcessVariable = "HANDOFF_PROCESS"
)

// Line is what a job writes.
type Line struct {
	// Event is start or end.
	Event string `json:"event"`
	Job   string `json:"job"`
	// Attempt names the run, unique in its job. PID is the process that runs it; its death ends the run.
	Attempt string `json:"attempt,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Process string `json:"process,omitempty"`
	// How is how it ended: ok, failed or cancelled.
	How    string `json:"how,omitempty"`
	Result string `json:"result,omitempty"`
	// MonoNS is the time of CLOCK_MONOTONIC in nanoseconds; without it the reader's time counts.
	MonoNS int64 `json:"mono_ns,omitempty"`
}

// Append writes a line to a witness file.
func Append(path string, l Line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

// Reader follows a witness file and the processes that it names.
type Reader struct {
	path string
	// zero is the time of CLOCK_MONOTONIC at which the history begins.
	zero time.Duration
	read int64
	rest []byte
	open map[attemptKey]*openRun
	list []*openRun
}

type attemptKey struct{ job, attempt string }

// openRun is a run that has not ended. born is when its process was started, which tells it from a later process with
// the same pid.
type openRun struct {
	line Line
	key  attemptKey
	born string
}

// NewReader returns a reader of a file that need not exist yet.
func NewReader(path string, zero time.Duration) *Reader {
	return &Reader{path: path, zero: zero, open: make(map[attemptKey]*openRun)}
}

// Poll reads new lines and looks for runs whose process is gone. It returns what happened, and an error about
// unreadable lines, which it leaves out.
func (r *Reader) Poll() (lines []jobhistory.Line, err error) {
	// A run that ends and whose process then ends has ended, so who is gone is asked before the file is read.
	gone := r.goneRuns()
	now := Now() - r.zero
	more, err := r.readMore()
	r.rest = append(r.rest, more...)
	for {
		text, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			break
		}
		r.rest = rest
		one, wrong := r.parseLine(text, now)
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w in %q", r.path, wrong, text))
			continue
		}
		lines = append(lines, one)
	}
	for _, run := range gone {
		if r.open[run.key] == run {
			r.closeRun(run.key)
			lines = append(lines, jobhistory.Line{
				At: now, Kind: jobhistory.Ended, Job: run.line.Job, Attempt: run.line.Attempt, Actor: run.line.Process, Outcome: jobhistory.Died,
			})
		}
	}
	return lines, err
}

// Open lists the runs that have started and not ended.
func (r *Reader) Open() (lines []Line) {
	for _, run := range r.list {
		lines = append(lines, run.line)
	}
	return lines
}

func (r *Reader) goneRuns() (gone []*openRun) {
	for _, run := range r.list {
		// One that was gone when its start was read has no birth.
		if run.line.PID > 0 && (run.born == "" || processBirth(run.line.PID) != run.born) {
			gone = append(gone, run)
		}
	}
	return gone
}

func (r *Reader) readMore() ([]byte, error) {
	f, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	more, err := io.ReadAll(io.NewSectionReader(f, r.read, 1<<30))
	r.read += int64(len(more))
	return more, err
}

func (r *Reader) parseLine(text []byte, now time.Duration) (jobhistory.Line, error) {
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		return jobhistory.Line{}, err
	}
	if l.Job == "" {
		return jobhistory.Line{}, errors.New("no job")
	}
	at := now
	if l.MonoNS > 0 {
		at = time.Duration(l.MonoNS) - r.zero
	}
	out := jobhistory.Line{At: at, Kind: jobhistory.Started, Job: l.Job, Attempt: l.Attempt, Actor: l.Process, Result: l.Result}
	key := attemptKey{l.Job, l.Attempt}
	switch l.Event {
	case "start":
		born := ""
		if l.PID > 0 {
			born = processBirth(l.PID)
		}
		run := &openRun{l, key, born}
		r.open[key] = run
		r.list = append(r.list, run)
		return out, nil
	case "end":
		out.Kind, out.Outcome = jobhistory.Ended, jobhistory.Outcome(l.How)
		switch out.Outcome {
		case jobhistory.OK, jobhistory.Failed, jobhistory.Cancelled:
		default:
			return out, fmt.Errorf("how is %q, and not ok, failed or cancelled", l.How)
		}
		r.closeRun(key)
		return out, nil
	default:
		return out, fmt.Errorf("event is %q, and not start or end", l.Event)
	}
}

func (r *Reader) closeRun(key attemptKey) {
	run := r.open[key]
	delete(r.open, key)
	for i, one := range r.list {
		if one == run {
			r.list = append(r.list[:i:i], r.list[i+1:]...)
			return
		}
	}
}
