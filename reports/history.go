package reports

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// HistorySchema is the version of the history format that WriteHistory writes and ReadHistory reads.
const HistorySchema = 1

// historyHeader is the first line of a history.
type historyHeader struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"`
	// Profile points into the record that is written or read, so that reports don't have to know its type.
	Profile any                           `json:"profile"`
	Seed    uint64                        `json:"seed"`
	Mutant  string                        `json:"mutant"`
	Workers map[execution.WorkerID]string `json:"workers"`
	// Kinds are the kinds of events that the history records completely; omitted if it records all.
	Kinds []string `json:"kinds,omitempty"`
	// TimeScale is the time scale of a run on real daemons.
	TimeScale float64 `json:"time_scale,omitempty"`
}

// historyLine is any line after the first: one event.
type historyLine struct {
	At          *int64                `json:"at_ns"`
	Step        uint64                `json:"step,omitempty"`
	Kind        string                `json:"kind"`
	Execution   execution.ID          `json:"execution,omitempty"`
	Chain       execution.ID          `json:"chain,omitempty"`
	Related     execution.ID          `json:"related,omitempty"`
	Epoch       execution.Epoch       `json:"epoch,omitempty"`
	OldEpoch    execution.Epoch       `json:"old_epoch,omitempty"`
	Named       execution.Epoch       `json:"named,omitempty"`
	From        string                `json:"from,omitempty"`
	To          string                `json:"to,omitempty"`
	By          string                `json:"by,omitempty"`
	Reason      string                `json:"reason,omitempty"`
	Worker      execution.WorkerID    `json:"worker,omitempty"`
	Incarnation execution.Incarnation `json:"incarnation,omitempty"`
	Writer      execution.Incarnation `json:"writer,omitempty"`
	Lifecycle   string                `json:"lifecycle,omitempty"`
	Message     uint64                `json:"message,omitempty"`
	Type        string                `json:"type,omitempty"`
	Count       int64                 `json:"count,omitempty"`
	Limit       int64                 `json:"limit,omitempty"`
	Due         int64                 `json:"due_ns,omitempty"`
	RunTimeout  int64                 `json:"run_timeout_ns,omitempty"`
	WaitTimeout int64                 `json:"dispatch_timeout_ns,omitempty"`
	Process     string                `json:"process,omitempty"`
	Action      string                `json:"action,omitempty"`
	Key         string                `json:"key,omitempty"`
	Queue       string                `json:"queue,omitempty"`
	Fault       string                `json:"fault,omitempty"`
	Text        string                `json:"text,omitempty"`
}

// WriteHistory writes a record's events as JSON lines (one object a line, UTF-8).
//
// The first line is a header:
//
//	{"schema":1,"scenario":"ttl-race","profile":"documented","seed":41,"mutant":"","workers":{"1":"shell-1"}}
//
// A history that another program wrote may lack kinds of events. Its header lists the kinds that it records
// whenever they happen, with "kinds":["created","transition",…]; rules that need others are then reported as
// not judged. A run on real daemons has the time scale of the scenario in its header, such as "time_scale":0.2.
//
// Every other line is one event, in order:
//
//	{"at_ns":12402000000,"step":811,"kind":"transition","execution":7,"chain":7,"epoch":2,"old_epoch":2,"named":2,
//	 "from":"scheduled","to":"running","by":"worker","worker":1,"incarnation":3,"writer":3,"process":"shell-1"}
//
// (on one line). at_ns and kind are always present. at_ns is nanoseconds of virtual, or live
// monotonic, time since the start of the run; due_ns is a time of the database's clock in the same
// unit; run_timeout_ns and dispatch_timeout_ns are durations. Enumerations are names: kind
// (history.Kind), from and to (statuses), by (parts), reason, lifecycle, and type (the message type
// in the protocol). execution, chain, related, epoch, old_epoch, named, worker, incarnation,
// writer, message, count, limit and step are numbers; process, action, key, queue, fault and text
// are free text. Zero fields are left out. history.Kind documents the fields of each kind.
//
// Judgements, violations and fault intervals are not written, because they can be recomputed from the events
// that ReadHistory returns. The constants of HistoryReader limit what can be read back.
func WriteHistory(w io.Writer, r *verdict.Record) error {
	out := bufio.NewWriter(w)
	enc := newHistoryEncoder(out)
	workers := r.Workers
	if workers == nil {
		workers = map[execution.WorkerID]string{}
	}
	header := historyHeader{Schema: HistorySchema, Scenario: r.Scenario, Profile: &r.Profile, Seed: r.Seed, Mutant: r.Mutant, Workers: workers, TimeScale: r.TimeScale}
	for _, kind := range r.Kinds {
		header.Kinds = append(header.Kinds, kind.String())
	}
	if err := enc.Encode(header); err != nil {
		return fmt.Errorf("writing the history's header: %w", err)
	}
	for i := range r.Events {
		if err := enc.Encode(lineOf(&r.Events[i])); err != nil {
			return fmt.Errorf("writing event %d of the history: %w", i+1, err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the history: %w", err)
	}
	return nil
}

func newHistoryEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

func lineOf(e *history.Event) historyLine {
	at := int64(e.At)
	return historyLine{
		At: &at, Step: e.Step, Kind: e.Kind.String(), From: statusNames[e.From], To: statusNames[e.To], By: partNames[e.By],
		Execution: e.Execution, Chain: e.Chain, Related: e.Related, Epoch: e.Epoch, OldEpoch: e.OldEpoch, Named: e.Named,
		Reason: e.Reason.String(), Worker: e.Worker, Incarnation: e.Incarnation, Writer: e.Writer, Lifecycle: e.Lifecycle.String(),
		Message: e.Message, Type: messageType(e.Type), Count: e.Count, Limit: e.Limit, Due: int64(e.Due), RunTimeout: int64(e.RunTimeout), WaitTimeout: int64(e.DispatchTimeout),
		Process: e.Process, Action: e.Action, Key: e.Key, Queue: e.Queue, Fault: e.Fault, Text: e.Text,
	}
}

// faultIntervalsOf pairs the starts and ends of faults. A fault without an end lasts until the last event.
func faultIntervalsOf(events []history.Event) []verdict.FaultInterval {
	var faultIntervals []verdict.FaultInterval
	open := make(map[string][]int)
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case history.FaultBegan:
			open[e.Fault] = append(open[e.Fault], len(faultIntervals))
			faultIntervals = append(faultIntervals, verdict.FaultInterval{Fault: e.Fault, Begin: e.At, End: -1})
		case history.FaultEnded:
			if since := open[e.Fault]; len(since) > 0 {
				faultIntervals[since[0]].End = e.At
				open[e.Fault] = since[1:]
			}
		}
	}
	for i := range faultIntervals {
		if faultIntervals[i].End < 0 {
			faultIntervals[i].End = events[len(events)-1].At
		}
	}
	return faultIntervals
}
