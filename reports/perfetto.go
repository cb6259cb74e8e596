package reports

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// PerfettoEvents is the maximum number of events in a trace. An event, with texts of at most 300 bytes, takes
// at most 2 KB.
const PerfettoEvents = 100_000

// afterViolation is the number of events shown after the first violation of a longer history.
const afterViolation = PerfettoEvents / 10

// perfettoText is the maximum length of a text in bytes.
const perfettoText = 300

// WritePerfetto writes a run as a trace for Perfetto's viewer, https://ui.perfetto.dev, as JSON trace events,
// which Chrome's tools read too. Times are microseconds since the start of the run.
//
// Each process and server is a process of the trace: its events are instants, and the periods in which it was
// down, paused or frozen are slices. Below a worker, its actions are slices, and below the broker, the
// messages in its queues. Above them, each execution is a track with a slice for each status, and each fault
// is a slice. The events of one message are connected by a flow.
//
// If a history has more than PerfettoEvents events, only the ones around the first violation, or else the
// last ones, are shown. An instant of the track "run" states the number of omitted events.
func WritePerfetto(w io.Writer, r *verdict.Record) error {
	p := &perfetto{r: r, t: newDescriber(r.Workers), threads: make(map[traceTrack][]*traceThread)}
	p.chooseEvents()
	p.drawPeriods()
	p.drawEvents()
	p.drawViolations()
	out := bufio.NewWriter(w)
	if err := p.writeEvents(out); err != nil {
		return fmt.Errorf("writing the trace: %w", err)
	}
	return nil
}

// traceEvent is an event of the trace event format: phase X is a slice, i an instant, and M the name or the
// position of a track.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	At       float64        `json:"ts"`
	Duration *float64       `json:"dur,omitempty"`
	Scope    string         `json:"s,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Flow     string         `json:"bind_id,omitempty"`
	FlowIn   bool           `json:"flow_in,omitempty"`
	FlowOut  bool           `json:"flow_out,omitempty"`
	Args     map[string]any `json:"args,omitempty"`

	on       traceTrack
	from, to time.Duration
	k        int
	message  uint64
}

// traceTrack is a track of a process. The process's main track has the process's name.
type traceTrack struct{ process, name string }

// traceThread is one row of a track. Its slices don't overlap.
type traceThread struct {
	id    int
	until time.Duration
}

// perfetto draws one record.
type perfetto struct {
	r *verdict.Record
	t describer
	// from and to bound the drawn events (excluding to). begin and end are their times.
	from, to   int
	begin, end time.Duration
	threads    map[traceTrack][]*traceThread
	last       int // last number of a process or a thread
	named      []*traceEvent
	drawn      []*traceEvent
}

// Processes of the trace that don't stand for a process of the run.
const (
	traceExecutions = "executions"
	traceFaults     = "faults"
)

func (p *perfetto) chooseEvents() {
	p.to = len(p.r.Events)
	if p.to > PerfettoEvents {
		if violations := sortedViolations(p.r.Violations); len(violations) > 0 {
			at, _ := slices.BinarySearchFunc(p.r.Events, violations[0].At, func(e history.Event, at time.Duration) int { return cmp.Compare(e.At, at) })
			p.to = max(PerfettoEvents, min(p.to, at+afterViolation))
		}
		p.from = p.to - PerfettoEvents
	}
	if p.from > 0 {
		p.begin = p.r.Events[p.from].At
	}
	p.end = p.r.Virtual
	if p.to < len(p.r.Events) {
		p.end = p.r.Events[p.to-1].At
	} else if p.to > 0 {
		p.end = max(p.end, p.r.Events[p.to-1].At)
	}
}

// drawPeriods draws the periods of the page, and the faults.
func (p *perfetto) drawPeriods() {
	b := newBuilder(p.r, limits{executions: math.MaxInt, queues: math.MaxInt, points: math.MaxInt, beats: 1})
	for i := range p.r.Events[:p.to] {
		b.observeEvent(i, &p.r.Events[i])
	}
	b.end = p.end
	processes := b.processes.sortedLanes(b.end, b.lim)
	for _, name := range []string{homeRun, traceExecutions, traceFaults} {
		p.numberProcess(name)
	}
	for _, l := range processes {
		p.numberProcess(l.Name)
		for _, s := range l.Periods {
			if s.name != "up" {
				p.drawSlice(traceTrack{l.Name, l.Name}, s, "state", s.name)
			}
		}
	}
	p.numberProcess(homeBroker)
	p.numberProcess(homeDatabase)
	rows, _ := b.rows.chooseLanes(b, nil)
	for _, x := range rows {
		for _, s := range x.Periods {
			if status, err := execution.ParseStatus(s.name); err == nil && !status.Terminal() {
				p.drawSlice(executionTrack(x.ID), s, "status", s.name)
			}
		}
		for _, s := range x.Actions {
			p.drawSlice(traceTrack{p.homeOf(&p.r.Events[s.k]), "actions"}, s, "action", fmt.Sprintf("execution %d", x.ID))
		}
	}
	queues, _ := b.queues.chooseLanes(b, nil)
	for _, q := range queues {
		for _, s := range q.stays {
			e := &p.r.Events[s.k]
			if e.Limit > 1 {
				continue // skip another dispatch of the same message
			}
			what := messageType(e.Type)
			if e.Execution != 0 {
				what = fmt.Sprintf("%s of execution %d", what, e.Execution)
			}
			to := s.to
			if to < 0 {
				to = p.end
			}
			p.drawSlice(traceTrack{homeBroker, q.Name}, period{from: s.from, to: to, k: s.k}, "queued", what)
		}
	}
	labels := b.labelIntervals(p.r.FaultIntervals)
	for i, f := range p.r.FaultIntervals {
		if f.End >= p.begin && f.Begin <= p.end {
			p.addEvent(&traceEvent{
				Name: labels[i], Category: "fault", Phase: "X", from: max(f.Begin, p.begin), to: min(f.End, p.end), on: traceTrack{traceFaults, f.Fault},
			})
		}
	}
}

// numberProcess returns the number of a process of the trace. Its main track has the same number.
func (p *perfetto) numberProcess(name string) int {
	on := traceTrack{name, name}
	if p.threads[on] == nil {
		p.last++
		p.threads[on] = []*traceThread{{id: p.last}}
		p.nameTrack("process", name, p.last, p.last)
		p.nameTrack("thread", name, p.last, p.last)
	}
	return p.threads[on][0].id
}

// takeThread occupies the first row of a track that is free at from, until to, and returns the row's number.
// Numbers are unique, because the viewer finds a thread by its number alone.
func (p *perfetto) takeThread(on traceTrack, from, to time.Duration) int {
	process := p.numberProcess(on.process)
	for _, row := range p.threads[on] {
		if row.until <= from {
			row.until = to
			return row.id
		}
	}
	p.last++
	p.threads[on] = append(p.threads[on], &traceThread{p.last, to})
	p.nameTrack("thread", on.name, process, p.last)
	return p.last
}

// nameTrack names a process or a thread, and places it below the ones named before.
func (p *perfetto) nameTrack(what, name string, process, thread int) {
	p.named = append(p.named,
		&traceEvent{Name: what + "_name", Phase: "M", Process: process, Thread: thread, Args: map[string]any{"name": traceText(name)}},
		&traceEvent{Name: what + "_sort_index", Phase: "M", Process: process, Thread: thread, Args: map[string]any{"sort_index": thread}})
}

func executionTrack(id execution.ID) traceTrack {
	return traceTrack{traceExecutions, fmt.Sprintf("execution %d", id)}
}

// drawSlice draws a period, unless the period ended before the shown part of the run.
func (p *perfetto) drawSlice(on traceTrack, s period, category, name string) {
	if s.to < p.begin || s.to == p.begin && s.from < p.begin {
		return
	}
	e := &p.r.Events[s.k]
	out := &traceEvent{Name: name, Category: category, Phase: "X", on: on, from: max(s.from, p.begin), to: max(s.to, s.from), k: s.k, Args: p.eventArgs(e)}
	if category == "queued" {
		out.message = e.Message
	}
	p.addEvent(out)
}

func (p *perfetto) drawInstant(on traceTrack, e traceEvent) {
	e.Phase, e.Scope, e.on, e.to = "i", "t", on, e.from
	p.addEvent(&e)
}

func (p *perfetto) addEvent(e *traceEvent) { p.drawn = append(p.drawn, e) }

// drawEvents draws each event as an instant of its process. It draws the end of an execution also on the
// execution's track.
func (p *perfetto) drawEvents() {
	if left := len(p.r.Events) - (p.to - p.from); left > 0 {
		p.drawInstant(traceTrack{homeRun, homeRun}, traceEvent{
			from: p.begin, Name: fmt.Sprintf("%s not shown", plural(left, "event")), Category: "note",
			Args: map[string]any{"what": "The trace shows a part of the run. history.jsonl has everything."},
		})
	}
	for k := p.from; k < p.to; k++ {
		e := &p.r.Events[k]
		if e.Kind == history.FaultBegan || e.Kind == history.FaultEnded {
			continue // drawn as a slice
		}
		out := traceEvent{from: e.At, k: k, Name: strings.ReplaceAll(e.Kind.String(), "_", " "), Category: e.Kind.String(), Args: p.eventArgs(e)}
		if e.Kind == history.Transition {
			out.Name = "→ " + e.To.String()
			if e.To.Terminal() {
				p.drawInstant(executionTrack(e.Execution), out)
			}
		}
		if rowOf(e.Kind).flow {
			out.message = e.Message
		}
		home := p.homeOf(e)
		p.drawInstant(traceTrack{home, home}, out)
	}
}

// homeOf returns the process, server or other track to which an event belongs.
func (p *perfetto) homeOf(e *history.Event) string {
	if home := rowOf(e.Kind).home; home != "" && home != homeWorker {
		return home
	}
	known := processLanes{t: p.t}
	return cmp.Or(known.nameOf(e), homeDatabase)
}

func (p *perfetto) eventArgs(e *history.Event) map[string]any {
	args := map[string]any{"what": traceText(p.t.subject(e) + " " + p.t.predicate(e))}
	for name, number := range map[string]uint64{"step": e.Step, "execution": uint64(e.Execution), "epoch": uint64(e.Epoch), "message": e.Message} { //nolint:gosec // not negative
		if number != 0 {
			args[name] = number
		}
	}
	return args
}

func (p *perfetto) drawViolations() {
	for _, v := range sortedViolations(p.r.Violations) {
		mark := traceEvent{from: v.At, k: p.to, Name: "violation of " + violationTitle(v), Category: "violation", Args: map[string]any{"step": v.Step}}
		for name, text := range map[string]string{"what": v.Message, "rule": v.Statement, "reproduce": v.Reproduce} {
			if text != "" {
				mark.Args[name] = traceText(text)
			}
		}
		p.drawInstant(traceTrack{homeRun, homeRun}, mark)
		if v.Execution != 0 {
			p.drawInstant(executionTrack(v.Execution), mark)
		}
	}
}

// writeEvents writes the names of the tracks, and then the events in order of time.
func (p *perfetto) writeEvents(out *bufio.Writer) error {
	slices.SortStableFunc(p.drawn, func(a, b *traceEvent) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.k, b.k)) })
	steps, last := make(map[uint64]int), make(map[uint64]int)
	for _, e := range p.drawn {
		last[e.message]++
	}
	for _, e := range p.drawn {
		e.Name, e.At = traceText(e.Name), traceMicros(max(0, e.from))
		e.Process = p.numberProcess(e.on.process)
		if rows := p.threads[e.on]; e.Phase == "i" && rows != nil {
			e.Thread = rows[0].id // within any slice
		} else {
			e.Thread = p.takeThread(e.on, e.from, e.to)
		}
		// Only slices have flows, so an instant with a flow is an empty slice.
		if e.message != 0 && last[e.message] > 1 {
			e.Phase, e.Scope = "X", ""
			steps[e.message]++
			e.Flow = fmt.Sprintf("%x", e.message)
			e.FlowIn, e.FlowOut = steps[e.message] > 1, steps[e.message] < last[e.message]
		}
		if e.Phase == "X" {
			took := traceMicros(e.to - e.from)
			e.Duration = &took
		}
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	_, _ = out.WriteString(`{"displayTimeUnit":"ns","traceEvents":[` + "\n")
	for i, e := range slices.Concat(p.named, p.drawn) {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	_, _ = out.WriteString("]}\n") // Flush returns every error
	return out.Flush()
}

// traceMicros converts a duration to the trace's unit.
func traceMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func traceText(text string) string {
	return firstBytes(sanitizeText(firstBytes(text, 4*perfettoText)), perfettoText)
}
